// The cluster: the own process as the server reports it, and the answers of a large cluster with everything
// that can be wrong with it; queries of other nodes are listed and ended, and nodes without an answer named.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

const ROLES = ["ingest", "query", "compact", "cache", "rules"];

function node(id, more = {}) {
  const now = Date.now();
  return {
    id, zone: `eu-${(id.charCodeAt(id.length - 1) % 3) + 1}`, roles: ROLES, state: "serving", version: "0.1.0", address: `10.0.0.${id.length}:3100`,
    incarnation: `01J${id.toUpperCase()}`, started_ms: now - 86_400_000, cache_bytes: 64 * 2 ** 30, silent_ms: 4200, catalog: 118,
    member: true, shares_percent: { ingest: 20, query: 20, compact: 20.4 }, windows: 240, rows_age_ms: 800, rows_missing: null,
    store_requests: 123_456, dollars: 1.5, dollars_per_month: 45.25, unanswered: null, ...more,
  };
}

const CLUSTER = {
  node: "sandur-0", catalog: 120, catalog_age_ms: 900, writes: "log blocks 6, sample blocks 7", held: true, unowned_roles: ["rules"],
  nodes: [
    node("sandur-0", { catalog: 120, silent_ms: 0, rows_age_ms: 0 }),
    node("sandur-1", { state: "draining", windows: 0, shares_percent: {} }),
    node("sandur-2", { version: "0.2.0", roles: ["ingest", "query"], rows_age_ms: 42_000, rows_missing: "there is no memory for its rows <b>x</b>" }),
    node("sandur-3", { silent_ms: 31_000, member: false, store_requests: null, dollars: null, dollars_per_month: null, unanswered: "no connection within 1 s", rows_age_ms: null }),
  ],
};

const QUERY = {
  id: "01JSANDUR-1-7", node: "sandur-1", tenant: "fake", signal: "metrics", query_type: "metric", query: "sum(rate(slow[5m]))", start_ms: 0, end_ms: 0,
  elapsed_ms: 12_345, queue_ms: 3, store_ms: 1, execution_ms: 9000, memory_bytes: 2 ** 24, total_bytes: 2 ** 30, total_lines: 12, user_agent: "test",
};

/** Answers requests of a page in place of the server; `answers` are by path. */
async function instead(person, answers) {
  await person.page.setRequestInterception(true);
  person.page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    const answer = Object.entries(answers).find(([path]) => pathname.endsWith(path) || (path.endsWith("*") && pathname.includes(path.slice(0, -1))));
    if (!answer) return void request.continue();
    const { status = 200, body, ...rest } = answer[1](request);
    return void request.respond({ status, contentType: typeof body === "string" ? "text/plain" : "application/json", body: typeof body === "string" ? body : JSON.stringify(body ?? rest) });
  });
}

export async function walk({ server, person, shot }) {
  const sandur = await server();
  const operator = await person({ width: 1600 });
  await operator.open(`${sandur.url}/explore/machine`);
  await operator.press("Cluster");
  await operator.sees("1 process, as", ".machine-body");
  await operator.sees(/serving/, ".nodes");
  equal(await operator.count(".problem"), 0, "nothing is wrong with one process");
  const report = await (await fetch(`${sandur.url}/sandur/cluster`)).json();
  await operator.sees(report.nodes[0].id, ".nodes");
  isTrue(report.nodes[0].rows_age_ms === 0 && report.nodes[0].dollars !== null, "the own process is known");
  await shot(operator, "one");

  for (const [width, height, theme] of [[1600, 900, "light"], [360, 740, "dark"], [3840, 2160, "dark"]]) {
    const other = await person({ width, height, theme });
    await instead(other, { "/sandur/cluster": () => ({ body: CLUSTER }) });
    await other.open(`${sandur.url}/explore/machine?tab=cluster`);
    for (const text of ["4 processes, as", "Fewer than half of the nodes", "role rules", "sandur-3 did not answer: no connection within 1 s", "<b>x</b>", "different versions"]) await other.sees(text, ".machine-body");
    await other.sees(/never/, ".nodes");
    await other.sees("$135.75", ".nodes tfoot");
    isTrue(await other.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing is wider than ${width}`);
    await shot(other, `many-${width}`);
  }
  await queries(sandur, person, shot);
}

/** Queries of other nodes; one is ended, the end of the other is not known. */
async function queries(sandur, person, shot) {
  const operator = await person({ width: 1400 });
  operator.expect(/503/);
  const ended = [];
  const unanswered = [{ node: "sandur-3", process: "01JSANDUR-3", reason: "no connection within 1 s" }];
  await instead(operator, {
    "/sandur/queries/*": (request) => {
      if (request.method() !== "DELETE") return { body: { queries: [], left_out: 0, answered: 1, unanswered: [] } };
      ended.push(decodeURIComponent(new URL(request.url()).pathname.split("/").at(-1)));
      return ended.length > 1 ? { status: 204, body: "" } : { status: 503, body: "it is not known whether the query was ended: the node sandur-1 did not answer: late\n" };
    },
    "/sandur/queries": () => ({ body: { queries: ended.length > 1 ? [] : [QUERY], left_out: ended.length > 1 ? 0 : 12, answered: 3, unanswered } }),
  });
  await operator.open(`${sandur.url}/explore/machine?tab=running`);
  await operator.sees("sum(rate(slow[5m]))", ".machine-body");
  await operator.sees("sandur-1", ".machine-body table");
  await operator.sees("The queries of sandur-3 are not known: no connection within 1 s.", ".machine-body");
  await operator.sees("1 of 13 running queries are shown", ".machine-body");
  await shot(operator, "running");
  await operator.press("End");
  await operator.press("End it now");
  await operator.sees("not known whether the query was ended", ".machine-body");
  await operator.press("End");
  await operator.press("End it now");
  await operator.sees("No queries run in the 3 processes that answered.", ".machine-body");
  await until("both requests", () => ended.length === 2);
  equal(ended, [QUERY.id, QUERY.id], "the query with its process");
}

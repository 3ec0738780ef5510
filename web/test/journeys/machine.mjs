// The machine: every part shows what the server says, and a running query can be ended.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, shot }) {
  const sandur = await server("--query-slow-threshold", "1ms");
  const now = Date.now();
  await sandur.push({ app: "x" }, [[now - 1000, "a line"]]);
  await sandur.samples(`shop_orders_total 5 ${now - 60_000}\n`);
  await fetch(`${sandur.url}/loki/api/v1/query_range?query=${encodeURIComponent('{app="x"} |= "slow one"')}`);
  await sandur.post("/flush", "");
  const operator = await person();
  await operator.open(`${sandur.url}/explore/machine`);
  await operator.sees("✓ ready");
  await operator.sees("Queries since the start");
  await operator.sees("class");
  for (const [tab, text] of [["Slow queries", "slow one"], ["Cardinality", "shop_orders_total"], ["Blocks", "blocks of samples"], ["Own metrics", "those of histograms"], ["Settings", "slow_threshold"]]) {
    await operator.press(tab);
    await operator.sees(text, ".machine-body");
    await shot(operator, tab.replace(" ", "-"));
  }
  isTrue((await operator.count(".problem")) === 0, "a part failed");

  // What the tenant wrote, and what was refused.
  await fetch(`${sandur.url}/loki/api/v1/push`, { method: "POST", headers: { "content-type": "application/json" }, body: "{" });
  await operator.press("Ingest");
  await operator.sees(/fake\s+1\s/, ".machine-body");
  await operator.page.click(".machine-body input[type=checkbox]");
  await until("a refusal", async () => {
    await operator.key("r");
    return /: 1 push\b/.test(await operator.text(".machine-body"));
  });
  await shot(operator, "Ingest");

  await ended(sandur, operator, shot);

  // A slow query is a link to the query.
  await operator.press("Slow queries");
  await operator.press('{app="x"} |= "slow one"');
  await operator.sees("No lines match");
}

/** A query that would run for minutes is ended from the page; its client is told. */
async function ended(sandur, operator, shot) {
  const now = Math.floor(Date.now() / 1000);
  const asked = new URLSearchParams({ query: "quantile_over_time(0.9, vector(time())[1d:1s])", start: now - 10_000, end: now, step: 1 });
  const answer = fetch(`${sandur.url}/api/v1/query_range?${asked}`);
  await operator.press("Running queries");
  await operator.sees("vector(time())", ".machine-body");
  await shot(operator, "Running-queries");
  await operator.press("End");
  await operator.press("End it now");
  const refused = await answer;
  equal(refused.status, 422, "the status of the ended query");
  isTrue((await refused.text()).includes("ended by an operator"), "the client is told");
  await operator.sees("No queries run.", ".machine-body");
}

// axe-core finds no violations on any page, in both themes; the first steps work by keyboard alone.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const query = (text) => encodeURIComponent(text);

const RULES = `groups:
  - name: shop
    interval: 1s
    rules:
      - {record: "orders:sum", expr: sum(shop_orders_total)}
      - {alert: HighOrders, expr: shop_orders_total > 1, annotations: {summary: "Many orders", runbook_url: "https://runbooks.example/orders"}}
      - {alert: Wrong, expr: 'shop_orders_total + on (nothing) (shop_orders_total or vector(1))'}
`;

export async function walk({ server, person, shot, report, onEnd }) {
  const folder = await mkdtemp(join(tmpdir(), "sandur-rules-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "shop.yml"), RULES);
  const sandur = await server("--query-slow-threshold", "1ms", "--rules", folder);
  const now = Date.now();
  const levels = ["error", "warn", "info", "debug"];
  await sandur.push({ app: "x" }, Array.from({ length: 300 }, (_, n) => [now - n * 5000, `level=${levels[n % 4]} msg="line ${n}" user=ada`]));
  await sandur.samples(`# TYPE shop_orders_total counter\n# HELP shop_orders_total Orders.\n${Array.from({ length: 60 }, (_, n) => `shop_orders_total{region="eu"} ${n} ${now - (60 - n) * 30_000}`).join("\n")}\n`);
  await sandur.post("/graphite/carbon", `servers.web01.load 1 ${Math.floor(now / 1000)}\n`);
  await sandur.post("/flush", "");
  await keyboard(await person(), sandur);

  const source = await readFile(AXE, "utf8");
  const dashboard = deflateRawSync(await readFile(new URL("../data/grafana.json", import.meta.url))).toString("base64url");
  const places = [
    ["start", "logs", null],
    ["lines", `logs?q=${query('{app="x"}')}&fields=1&cols=user`, (visitor) => visitor.click(".log-line")],
    ["patterns", `logs?q=${query('{app="x"}')}&view=patterns`, null],
    ["live", `logs?q=${query('{app="x"}')}&live=1`, null],
    ["differences", `logs?q=${query('{app="x"}')}&view=differences&box=${now - 900_000},${now - 300_000}`, (visitor) => visitor.sees("fields compared")],
    ["query-menu", `metrics?q=shop_orders_total`, (visitor) => visitor.key("q")],
    ["nothing", `logs?q=${query('{app="y"}')}`, null],
    ["log-metric", `logs?q=${query('sum by (app) (rate({app="x"}[1m]))')}`, null],
    ["picker", `logs?q=${query('{app="x"}')}`, (visitor) => visitor.key("t")],
    ["keys", `logs?q=${query('{app="x"}')}`, (visitor) => visitor.key("?")],
    ["settings", "logs", (visitor) => visitor.press("⚙")],
    ["metrics", "metrics", null],
    ["plot", `metrics?q=${query("rate(shop_orders_total[5m])")}&names=1`, null],
    ["table", `metrics?q=shop_orders_total&view=table`, null],
    ["tree", `metrics?q=${query("sum by (region) (rate(shop_orders_total[5m])) / 2")}&view=tree`, (visitor) => visitor.sees("its cost contains")],
    ["alerts", "alerts", null],
    ["rules", "alerts?tab=rules", (visitor) => visitor.click('[aria-label="Details of HighOrders"]')],
    ["dashboards", "dashboards", null],
    ["dashboard", `dashboards?def=${dashboard}`, (visitor) => visitor.press("2 notes")],
    ["dashboard-edit", `dashboards?d=overview`, (visitor) => visitor.press("Edit")],
    ["dashboard-add", `metrics?q=shop_orders_total`, (visitor) => visitor.press("Add to a dashboard")],
    ["graphite", "graphite?target=servers.*.load&help=1", null],
    ...["overview", "running", "queries", "cardinality", "blocks", "metrics", "settings"].map((tab) => [`machine-${tab}`, `machine?tab=${tab}`, null]),
  ];
  let checked = 0;
  const problems = [];
  for (const theme of ["light", "dark"]) {
    for (const [name, url, prepare] of places) {
      const visitor = await person({ theme });
      await visitor.open(`${sandur.url}/explore/${url}`);
      await until("an idle page", () => visitor.page.evaluate(() => document.querySelector("main section") !== null && document.querySelector(".progress.on") === null));
      if (prepare) await prepare(visitor);
      await new Promise((resolve) => setTimeout(resolve, 300));
      await visitor.page.evaluate(source);
      const { violations } = await visitor.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 4).map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).join(" | ")}`);
      problems.push(...found.map((text) => `${name} (${theme}): ${text}`));
      await shot(visitor, `${name}-${theme}`);
      await visitor.page.close();
      checked += 1;
    }
  }
  equal(problems, [], "axe");
  report(`${checked} pages without violations`);
}

/** From the start page to a filtered line without a pointer. */
async function keyboard(typist, sandur) {
  await typist.open(`${sandur.url}/explore/logs`);
  await typist.sees("All lines");
  await typist.key("/");
  await typist.page.keyboard.type('{app="x"');
  // Enter takes a completion while they are shown; with Ctrl it always runs the query.
  await typist.page.keyboard.down("Control");
  await typist.key("Enter");
  await typist.page.keyboard.up("Control");
  await typist.sees("line 0", ".log-list");
  await typist.key("Escape");
  await typist.page.evaluate(() => document.activeElement?.blur());
  await typist.key("j", "j", "o");
  await typist.sees("Copy the line", ".detail");
  await typist.key("w");
  await until("wrapped lines", () => typist.params().get("wrap") === "1");
  await typist.key("g", "m");
  await until("the metrics", () => typist.page.url().includes("/explore/metrics"));
  await typist.finds('[aria-label="Search metrics"]');
  await typist.key("?");
  await typist.sees("Names of metrics", "dialog");
  await typist.key("Escape");
  await until("the dialog to close", async () => (await typist.count("dialog")) === 0);
  isTrue((await typist.page.title()).startsWith("Metrics"), "the title");
}

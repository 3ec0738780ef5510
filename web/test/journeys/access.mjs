// axe-core finds no violations on the pages of logs and metrics, in both themes; the first steps work by
// keyboard alone.

import { checked, filled } from "../axe.mjs";
import { isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

const query = (text) => encodeURIComponent(text);

export async function walk(tools) {
  const now = Date.now();
  const sandur = await filled(tools, now);
  await keyboard(await tools.person(), sandur);
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
    ["series-differences", `metrics?q=shop_orders_total&view=differences&box=${now - 900_000},${now - 300_000}`, (visitor) => visitor.sees("nothing to compare")],
    ["exemplars", `metrics?q=shop_orders_total&exemplars=1`, (visitor) => visitor.sees("no exemplars")],
    ["log-tree", `logs?q=${query('sum by (app) (rate({app="x"} |= "line" [1m]))')}&view=tree`, (visitor) => visitor.sees("its cost contains")],
  ];
  await checked(sandur, places, tools);
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

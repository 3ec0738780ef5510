// Earlier queries: kept in the browser, found again, made readable, and forgotten; patterns are sought and
// sorted by their change.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, shot }) {
  const sandur = await server();
  const now = Date.now();
  const old = Array.from({ length: 60 }, (_, n) => [now - 3_000_000 + n * 1000, `request ${n} was served in ${n % 7} ms`]);
  const fresh = Array.from({ length: 20 }, (_, n) => [now - 60_000 + n * 1000, `level=error msg="disk ${n} is full"`]);
  await sandur.push({ app: "x" }, [...old, ...fresh]);
  const analyst = await person();
  await analyst.open(`${sandur.url}/explore/metrics?q=${encodeURIComponent("vector(1)")}`);
  await analyst.sees("1 series", ".status");
  // Chromium keeps the style of a selection that is typed over, which the policy refuses: so it is removed first.
  await analyst.write("");
  await analyst.key("Backspace");
  await analyst.page.keyboard.type('sum by(job)(rate(x{a="b"}[5m]))');
  await analyst.key("Escape");
  await analyst.press("Run");
  await until("the query", () => analyst.params().get("q")?.startsWith("sum by"));
  await analyst.page.evaluate(() => document.activeElement?.blur());
  await analyst.key("q");
  equal(await analyst.page.$$eval(".query-menu li", (all) => all.map((one) => one.innerText)), ['sum by(job)(rate(x{a="b"}[5m]))', "vector(1)"], "the last query is the first");
  await shot(analyst, "menu");
  await analyst.press("Format the query");
  await until("the formatted query", async () => (await analyst.query()).includes("sum by (job) ("));
  await analyst.page.evaluate(() => document.activeElement?.blur());
  await analyst.key("q");
  await analyst.page.keyboard.type("VECTOR");
  await analyst.press("vector(1)");
  await until("the earlier query", () => analyst.params().get("q") === "vector(1)");
  await analyst.page.evaluate(() => document.activeElement?.blur());
  await analyst.key("q");
  await analyst.press("Forget them");
  await analyst.sees("No earlier queries in this browser.", ".query-menu");
  await analyst.key("Escape");

  await analyst.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="x"}')}&view=patterns`);
  await analyst.sees("2 patterns", ".patterns");
  const first = () => analyst.page.$eval(".patterns tbody tr .pattern", (one) => one.innerText);
  isTrue((await first()).includes("was served"), "the most frequent pattern is the first");
  await analyst.press("Change");
  await until("the new pattern", async () => (await first()).includes("disk"));
  await analyst.sees("new", ".patterns tbody");
  await analyst.page.type('[aria-label="Search patterns"]', "served");
  await analyst.sees("1 of 2 patterns", ".patterns");
  await analyst.click('[aria-label="Filter out this pattern"]');
  await until("a filter", () => analyst.params().get("q")?.includes("!>"));
  await analyst.sees("is full", ".log-list");
  isTrue(!(await analyst.text(".log-list")).includes("was served"), "lines of the pattern are left out");
}

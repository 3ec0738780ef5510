// The tree of a query of LogQL: each part with its cost, as the server reports it; a part leads to its query.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, shot }) {
  const sandur = await server();
  const now = Date.now();
  await sandur.push({ app: "shop" }, Array.from({ length: 600 }, (_, n) => [now - n * 1000, `level=${n % 6 === 0 ? "error" : "info"} took=${n}`]));
  const analyst = await person({ width: 1300 });
  const query = 'sum by (level) (count_over_time({app="shop"} |= "error" | logfmt [1h])) / 2';
  await analyst.open(`${sandur.url}/explore/logs?q=${encodeURIComponent(query)}&from=now-1h&to=now`);
  await analyst.sees("1 series", ".status");
  await analyst.press("Tree");
  await analyst.sees("its cost contains those of the parts below it", ".query-tree");
  const rows = await analyst.page.$$eval(".query-tree tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
  equal(rows.map(([part]) => part), ["/", "sum by (level)", "count_over_time [1h]", "| logfmt", '|= "error"', '{app="shop"}'], "the parts");
  equal(rows.map((row) => row[3]), ["1 series", "1 series", "100 series", "100 lines", "100 lines", "600 lines"], "what the parts return");
  isTrue(rows.every((row) => row[2] !== ""), "each part has its time");
  await shot(analyst, "metric");
  await analyst.press('|= "error"');
  await until("the query of the part", () => analyst.params().get("q") === '{app="shop"} |= "error"');
  await analyst.sees("100 lines here of 100", ".status");
  await analyst.press("Tree");
  await analyst.sees("600 lines", ".query-tree");
  await analyst.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await shot(analyst, "lines");
}

// The machine: every part shows what the server says.

import { isTrue } from "../browser.mjs";

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
  for (const [tab, text] of [["Slow queries", "slow one"], ["Cardinality", "shop_orders_total"], ["Blocks", "blocks of samples"], ["Own metrics", "histogram buckets included"], ["Settings", "slow_threshold"]]) {
    await operator.press(tab);
    await operator.sees(text, ".machine-body");
    await shot(operator, tab.replace(" ", "-"));
  }
  isTrue((await operator.count(".problem")) === 0, "a part failed");

  // A slow query is a link to the query.
  await operator.press("Slow queries");
  await operator.press('{app="x"} |= "slow one"');
  await operator.sees("No lines match");
}

// Ten thousand series: drawn in part, said so, searched in the legend.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, report }) {
  const sandur = await server();
  const now = Date.now();
  const rows = [];
  for (let n = 0; n < 10_000; n += 1) {
    for (const at of [now - 120_000, now - 60_000, now]) rows.push(`many_series{pod="pod-${n}"} ${n} ${at}`);
  }
  await sandur.samples(`${rows.join("\n")}\n`);
  const analyst = await person();
  const began = performance.now();
  await analyst.open(`${sandur.url}/explore/metrics?q=many_series&from=now-15m`);
  await until("the legend", () => analyst.count(".plot-legend tbody tr").then((found) => found > 50), 60_000);
  await analyst.sees("200 of 10,000 series are drawn");
  report(`10,000 series on the page after ${Math.round(performance.now() - began)} ms`);
  await analyst.click('[aria-label="Search series"]');
  const typed = performance.now();
  await analyst.page.keyboard.type("pod-77");
  await analyst.sees("111 of 10,000 series", ".legend-tools");
  report(`search in the legend: ${Math.round(performance.now() - typed)} ms for six keys`);
  await analyst.press("Draw these");
  await analyst.lacks("series are drawn:");
  equal(await analyst.count(".plot-legend tr.off"), 0, "all found series are drawn");
  isTrue((await analyst.count(".plot-legend tbody tr")) <= 100, "the legend draws a part");
}

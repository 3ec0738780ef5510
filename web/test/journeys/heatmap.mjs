// A heatmap of a classic histogram: what is drawn, and what the pointer reads.

import { equal } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person }) {
  const sandur = await server();
  const now = Date.now();
  const rows = ["# TYPE took histogram"];
  for (let n = 0; n < 60; n += 1) {
    const at = now - (60 - n) * 30_000;
    // Each step has 3 requests up to 0.1 s and 6 up to 1 s.
    for (const [le, count] of [["0.1", 3], ["1", 9], ["+Inf", 9]]) rows.push(`took_bucket{le="${le}"} ${n * count} ${at}`);
  }
  await sandur.samples(`${rows.join("\n")}\n`);
  const analyst = await person();
  const query = encodeURIComponent("sum by (le) (increase(took_bucket[1m]))");
  await analyst.open(`${sandur.url}/explore/metrics?q=${query}&view=heatmap&from=now-20m`);
  await analyst.finds(".plot canvas");
  const box = await until("the plot", async () => (await analyst.page.$(".plot"))?.boundingBox());
  const read = async (part) => {
    await analyst.page.mouse.move(box.x + box.width * 0.7, box.y + box.height * part);
    await analyst.finds(".tip");
    return (await analyst.text(".tip .tip-row")).replace(/\s+/g, " ");
  };
  equal(await read(0.5), "0.1 to 1 12", "the middle bucket: 6 of each 30 s in a minute");
  equal(await read(0.8), "up to 0.1 6", "the lowest bucket");
  equal(await read(0.1), "1 to +Inf 0", "the highest bucket");
  // Each of several queries has a heatmap of its own, with only its values.
  await analyst.open(`${sandur.url}/explore/metrics?q=${query}&q=${query.replace("%5B1m", "%5B2m")}&view=heatmap&from=now-20m`);
  await analyst.finds(".heatmap canvas", 2);
  await analyst.sees(/^A sum by/, ".heatmap h2");
  const first = await (await analyst.page.$(".heatmap .plot")).boundingBox();
  await analyst.page.mouse.move(first.x + first.width * 0.7, first.y + first.height * 0.5);
  await analyst.finds(".tip");
  equal((await analyst.text(".tip .tip-row")).replace(/\s+/g, " "), "0.1 to 1 12", "the first of two heatmaps");
  await analyst.open(`${sandur.url}/explore/metrics?q=${encodeURIComponent("vector(1)")}&view=heatmap`);
  await analyst.sees("A heatmap needs histograms");
}

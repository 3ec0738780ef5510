// Dashboards of a folder of the server: listed with the files that cannot be used, opened by a link, copied
// into the browser, and read again when they change; a folder that disappears is said.

import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

const GRAFANA = new URL("../data/grafana.json", import.meta.url);
const own = (title) => JSON.stringify({ sandur: 1, title, panels: [{ title: "Load", kind: "stat", queries: [{ language: "promql", query: "shop_load" }] }] });

export async function walk({ server, person, onEnd, shot }) {
  const place = await mkdtemp(join(tmpdir(), "sandur-dashboards-"));
  onEnd(() => rm(place, { recursive: true, force: true }));
  const folder = join(place, "dashboards");
  await mkdir(join(folder, "team a"), { recursive: true });
  await writeFile(join(folder, "shop.json"), own("Shop <i>today</i>"));
  await writeFile(join(folder, "cut.json"), own("Cut").slice(0, 30));
  await writeFile(join(folder, "team a", "orders 50%.json"), await readFile(GRAFANA));
  const sandur = await server("--dashboards", folder);
  const now = Date.now();
  await sandur.samples(Array.from({ length: 60 }, (_, n) => `shop_load{region="eu"} 7 ${now - n * 15_000}\n`).reverse().join(""));

  const analyst = await person({ width: 1400, height: 1000 });
  const card = '[aria-label="Dashboards of the server"]';
  await analyst.open(`${sandur.url}/explore/dashboards`);
  await analyst.sees("Shop <i>today</i>", card);
  await analyst.sees(/cut\s+it is cut off/, card);
  await analyst.sees("Grafana, ", card);
  isTrue((await analyst.page.evaluate(() => globalThis.shifts)) < 0.1, `the layout is still: ${await analyst.page.evaluate(() => globalThis.shifts)}`);
  await shot(analyst, "list");

  // A click opens it, and the link restores it in another browser.
  await analyst.press("Shop <i>today</i>");
  await analyst.sees("7", '.panel[aria-label="Load"] .stat');
  equal(analyst.params().get("d"), "server:shop", "the link");
  const other = await person();
  await other.open(analyst.page.url());
  await other.sees("7", '.panel[aria-label="Load"] .stat');

  // One of Grafana in a folder below, whose name needs quoting.
  await analyst.press("‹ All dashboards");
  await analyst.press("Shop <b>of</b> Grafana");
  await analyst.sees('Panels of the type "piechart" are not supported.', '.panel[aria-label="Shares"]');
  equal(analyst.params().get("d"), "server:team a/orders 50%", "the link");
  await analyst.page.reload();
  await analyst.sees("Shop <b>of</b> Grafana", ".toolbar h2");

  // A copy is one of this browser, and can be changed there.
  await analyst.press("‹ All dashboards");
  await analyst.press("Shop <i>today</i>");
  await analyst.press("Save a copy in this browser");
  await until("the copy", () => /^\w+$/.test(analyst.params().get("d") ?? ""));
  await analyst.sees("7", '.panel[aria-label="Load"] .stat');
  await analyst.lacks("Save a copy", ".toolbar");
  await analyst.press("‹ All dashboards");
  await analyst.sees("Shop <i>today</i>", '[aria-label="Dashboards of this browser"]');

  // Changes and removals.
  await writeFile(join(folder, "shop.json"), own("Shop of tomorrow"));
  await rm(join(folder, "cut.json"));
  await analyst.page.reload();
  await analyst.sees("Shop of tomorrow", card);
  await analyst.lacks("cut", card);
  analyst.expect(/404|503/);
  await analyst.open(`${sandur.url}/explore/dashboards?d=server:cut`);
  await analyst.sees("there is no dashboard 'cut' in the folder");
  await shot(analyst, "absent");
  await analyst.press("All dashboards");
  await rename(folder, join(place, "away"));
  await analyst.page.reload();
  await analyst.sees("cannot be read", card);
  await rename(join(place, "away"), folder);
  await analyst.press("Try again");
  await analyst.sees("Shop of tomorrow", card);
}

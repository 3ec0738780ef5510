// Differences of series: a box over a plot shows which labels have other values inside; filters change the
// query; all of it also by the keyboard. Exemplars are drawn and listed.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, shot }) {
  const sandur = await server();
  const now = Date.now();
  const rows = [];
  for (let n = 0; n < 120; n += 1) {
    // In the last third of the hour, version 2 in zone a is slow.
    const [zone, version] = [["a", "b", "c"][n % 3], n % 4 === 0 ? "2" : "1"];
    for (let minute = 0; minute <= 60; minute += 1) {
      const isSlow = zone === "a" && version === "2" && minute >= 40;
      rows.push(`shop_latency{pod="pod-${n}",zone="${zone}",version="${version}"} ${isSlow ? 9 : 1 + (n % 5) / 5} ${now - (60 - minute) * 60_000}`);
    }
  }
  await sandur.samples(`${rows.join("\n")}\n`);
  const analyst = await person({ width: 1300, height: 1000 });
  await analyst.open(`${sandur.url}/explore/metrics?q=shop_latency&from=now-1h&to=now`);
  await analyst.sees("120 series", ".status");
  await analyst.page.evaluate(() => document.activeElement?.blur());
  await analyst.key("d");
  await analyst.sees("Draw a box over the plot");
  await analyst.finds(".u-over");
  const over = await (await analyst.page.$(".u-over")).boundingBox();
  const at = (x, y) => [over.x + over.width * x, over.y + over.height * y];
  await analyst.page.mouse.move(...at(0.75, 0.02));
  await analyst.page.mouse.down();
  await analyst.page.mouse.move(...at(0.85, 0.2), { steps: 4 });
  await analyst.page.mouse.move(...at(0.95, 0.3), { steps: 4 });
  await analyst.page.mouse.up();
  await until("the box", () => analyst.params().get("box"));
  isTrue(analyst.params().get("from") === "now-1h", "a box is no zoom");
  isTrue(analyst.params().get("box").split(",").length === 4, "the box has bounds of values");
  await analyst.sees(/10 series inside, 110 outside/, ".differences");
  const labels = await analyst.page.$$eval(".difference-list h3", (all) => all.map((one) => one.innerText.split(" ")[0]));
  equal(labels, ["version", "zone"], "the labels that differ");
  await analyst.sees(/No difference: .*pod/, ".differences");
  await shot(analyst, "list");
  await analyst.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await shot(analyst, "dark");

  // The address has all of it; a filter changes the query.
  await analyst.open(analyst.page.url());
  await analyst.sees(/10 series inside, 110 outside/, ".differences");
  await analyst.press("Filter for 2");
  await until("the filter", () => analyst.params().get("q") === 'shop_latency{version="2"}');
  await analyst.sees(/10 series inside, 20 outside/, ".differences");

  // By the keyboard: the fields of the box.
  await analyst.open(`${sandur.url}/explore/metrics?q=shop_latency&from=now-1h&to=now&view=differences`);
  await analyst.finds(".box-form input", 4);
  await analyst.page.focus(".box-form input:nth-of-type(1)");
  await analyst.page.$$eval(".box-form input", (all) => all[2].focus());
  await analyst.page.keyboard.type("5");
  await analyst.key("Enter");
  await analyst.sees(/10 series inside, 110 outside/, ".differences");
  await analyst.page.$$eval(".box-form input", (all) => all[3].focus());
  await analyst.page.keyboard.type("x");
  await analyst.key("Enter");
  await analyst.sees("not numbers in order", ".box-form");

  await exemplars(sandur, analyst, shot);
}

async function exemplars(sandur, analyst, shot) {
  const at = Math.floor(Date.now() / 1000) - 300;
  const text = `# TYPE shop_took counter\nshop_took_total 7 ${at} # {trace_id="4bf92f35"} 6.5 ${at}.000\n# EOF\n`;
  await sandur.samples(text, { "content-type": "application/openmetrics-text; version=1.0.0" });
  await analyst.open(`${sandur.url}/explore/metrics?q=shop_took_total&from=now-1h&to=now`);
  await analyst.sees("1 series", ".status");
  await analyst.press("Exemplars");
  await analyst.sees("4bf92f35", ".exemplars");
  await analyst.sees("trace_id", ".exemplars");
  await shot(analyst, "exemplars");
}

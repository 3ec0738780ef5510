// A metric without knowing a query: search, plot, zoom, legend, table; then several queries and an error.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export const quick = true;

/** Whether something is drawn in the colour of a series. */
function isDrawn(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector(".plot canvas");
    if (!canvas) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let coloured = 0;
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue, alpha] = [data[at], data[at + 1], data[at + 2], data[at + 3]];
      if (alpha > 100 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) coloured += 1;
    }
    return coloured > 50;
  });
}

export async function walk({ server, person }) {
  const sandur = await server();
  const now = Date.now();
  const rows = ["# TYPE shop_orders_total counter", "# HELP shop_orders_total Orders that were placed."];
  for (let n = 0; n < 120; n += 1) {
    for (const region of ["eu", "us", "ap"]) rows.push(`shop_orders_total{region="${region}"} ${n * (region === "eu" ? 30 : 10)} ${now - (120 - n) * 30_000}`);
  }
  await sandur.samples(`${rows.join("\n")}\n`);

  const analyst = await person();
  await analyst.open(`${sandur.url}/explore/metrics`);
  await analyst.sees("shop_orders_total");
  await analyst.sees("Orders that were placed.");
  await analyst.click('[aria-label="Search metrics"]');
  await analyst.page.keyboard.type("orders");
  await analyst.press("shop_orders_total");
  await analyst.sees('{region="eu"}', ".plot-legend");
  equal(await analyst.query(), "rate(shop_orders_total[5m])", "a counter is plotted as a rate");
  await until("a line", () => isDrawn(analyst.page));
  await analyst.sees("3 series", ".status");
  await analyst.sees(/samples in/, ".status");

  // The legend chooses a series; a drag zooms.
  await analyst.press('{region="us"}');
  await until("one series", () => analyst.page.$eval(".plot-legend tr.off", () => true).catch(() => false));
  await analyst.brush(".u-over", 0.5, 0.9);
  await until("a shorter range", () => analyst.params().get("from")?.includes("T"));
  await analyst.sees("3 series", ".status");

  // Stacked and as a table, both by keys.
  await analyst.page.evaluate(() => document.activeElement?.blur());
  await analyst.key("2");
  await until("stacked", () => analyst.params().get("view") === "stacked");
  await until("areas", () => isDrawn(analyst.page));
  await analyst.key("4");
  await analyst.sees("region", ".value-table");
  equal(await analyst.count(".value-table tbody tr"), 3, "rows of the table");

  // The tree has the parts of the query with the cost of each.
  await analyst.key("5");
  await analyst.sees("its cost contains those of the parts below it", ".query-tree");
  const parts = await analyst.page.$$eval(".query-tree tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
  equal(parts.map(([part, , , series]) => [part, series]), [["rate", "3"], ["shop_orders_total[5m]", "3"]], "the parts and their series");
  isTrue(parts.every(([, , took, , samples]) => took !== "" && Number(samples.replaceAll(",", "")) >= 3), `costs: ${JSON.stringify(parts)}`);
  await analyst.key("1");

  // A second query with an error does not hide the first.
  await analyst.expect(/400/);
  await analyst.press("Add a query");
  await analyst.write("sum by", 1);
  await analyst.key("Escape");
  await analyst.press("Run");
  await analyst.sees(/Error 400/, ".problem");
  await analyst.sees('A {region="eu"}', ".plot-legend");
  isTrue(analyst.params().getAll("q").length === 2, "both queries are in the address");
}

// A download has every line of the range once, in each format.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

const LINES = 12_000;

export async function walk({ server, person }) {
  const sandur = await server();
  const now = Date.now();
  const line = (n) => `order=${n} text="a, ""quoted"" one"`;
  // Seven lines have the same millisecond, so that pages end between equal times.
  await sandur.push({ app: "x" }, Array.from({ length: LINES }, (_, n) => [now - 1_800_000 + Math.floor(n / 7), line(n)]));
  const analyst = await person();
  await analyst.page.evaluateOnNewDocument(() => {
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      globalThis.saved = blob;
      return make.call(URL, blob);
    };
  });
  await analyst.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="x"}')}&cols=order`);
  await analyst.sees(`of 12,000`, ".status");
  const saved = async (place) => {
    await analyst.page.evaluate(() => (globalThis.saved = null));
    await analyst.click(`.popover .choice button:nth-child(${place})`);
    await analyst.page.select(".popover select", "100000");
    await analyst.click(".popover .primary");
    await until("the file", () => analyst.page.evaluate(() => globalThis.saved !== null), 60_000);
    return analyst.page.evaluate(() => globalThis.saved.text());
  };
  await analyst.press("Download");
  const lines = (await saved(1)).trimEnd().split("\n");
  equal(lines.length, LINES, "the number of lines");
  isTrue(lines.every((text, n) => text === line(LINES - 1 - n)), "every line once, the newest first");
  const objects = (await saved(2)).trimEnd().split("\n").map((text) => JSON.parse(text));
  equal([objects.length, objects[0].line, objects[0].labels.app], [LINES, line(LINES - 1), "x"], "the objects");
  const rows = (await saved(3)).trimEnd().split("\r\n");
  equal([rows.length, rows[0]], [LINES + 1, "time,order,line"], "the head of the CSV");
  isTrue(rows[1].includes(`,${LINES - 1},"order=${LINES - 1} text=""a, """"quoted`), rows[1]);
}

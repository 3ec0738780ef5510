// A list of 200,000 lines is scrolled down and up again: every line once, in order, in bounded memory.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

const LINES = 200_000;
const PART = 20_000;
/** Lines that are read: more than the page holds. */
const SCROLLED = 20_000;

export async function walk({ server, person, report }) {
  const sandur = await server();
  const now = Date.now();
  for (let from = 0; from < LINES; from += PART) {
    // Ten lines have the same millisecond.
    await sandur.push({ app: "many" }, Array.from({ length: PART }, (_, n) => [now - 3_000_000 + Math.floor((from + n) / 10), `line ${from + n}`]));
  }
  const reader = await person();
  await reader.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="many"}')}`);
  await reader.sees(`line ${LINES - 1}`, ".log-list");
  await reader.page.evaluate(() => {
    globalThis.longest = 0;
    let last = performance.now();
    const next = (at) => {
      globalThis.longest = Math.max(globalThis.longest, at - last);
      last = at;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  const shown = () => reader.page.$$eval(".log-text", (all) => all.map((line) => Number(line.textContent.split(" ")[1])));
  const isOrdered = (numbers) => numbers.every((number, n) => n === 0 || number === numbers[n - 1] - 1);
  const scroll = async (by) => {
    await reader.page.$eval(".log-scroll", (element, distance) => element.scrollBy(0, distance), by);
    await reader.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
    const numbers = await shown();
    isTrue(isOrdered(numbers), `lines are missing or twice: ${numbers.join(" ")}`);
    return numbers;
  };
  let lowest = LINES;
  await until("the lines below", async () => {
    for (let n = 0; n < 20; n += 1) lowest = Math.min(lowest, (await scroll(6000)).at(-1));
    return lowest < LINES - SCROLLED;
  }, 120_000);
  const status = await reader.text(".status");
  isTrue(Number(/([\d,]+) lines here/.exec(status)[1].replace(",", "")) <= 12_500, `the window is bounded: ${status}`);
  await until("the first line again", async () => {
    let first = 0;
    for (let n = 0; n < 20; n += 1) first = (await scroll(-6000))[0];
    return first === LINES - 1;
  }, 120_000);
  const { JSHeapUsedSize } = await reader.page.metrics();
  const longest = await reader.page.evaluate(() => globalThis.longest);
  report(`${SCROLLED} lines down and up: longest frame ${Math.round(longest)} ms, heap ${(JSHeapUsedSize / (1 << 20)).toFixed(0)} MiB`);

  // A click on the histogram shows the lines of that time, with lines on both sides.
  await reader.page.mouse.click(...(await centre(reader, ".histogram", 0.17)));
  await until("other lines", async () => (await shown())[0] < LINES - 1000);
  isTrue(reader.params().get("at") !== null, "the place is in the address");
  await scroll(-300);
  await scroll(300);
  equal(isOrdered(await shown()), true, "the order after a jump");
}

async function centre(reader, selector, part) {
  const box = await (await reader.page.$(selector)).boundingBox();
  return [box.x + box.width * part, box.y + 30];
}

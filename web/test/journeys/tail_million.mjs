// Live tail of a million lines in a minute: the page stays usable, and its memory does not grow with the lines.

import { isTrue } from "../browser.mjs";

const LINES = 1_000_000;
const SECONDS = 60;
const STREAMS = 8;
const PARTS = SECONDS * 5;
/** What 5,000 rows and 20,000 waiting lines of this size may take, with room for the engine. */
const GROWTH_MAX_MIB = 48;

export async function walk({ server, person, report }) {
  const sandur = await server();
  await sandur.push({ app: "live" }, [[Date.now() - 1000, "before the tail"]]);
  const watcher = await person();
  await watcher.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app=~"live.*"}')}&live=1`);
  await watcher.sees("before the tail");
  const session = await watcher.page.createCDPSession();
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Runtime.getHeapUsage")).usedSize / (1 << 20);
  };
  await watcher.page.evaluate(() => {
    globalThis.frames = { count: 0, long: 0, longest: 0 };
    let last = performance.now();
    const next = (now) => {
      const took = now - last;
      const { frames } = globalThis;
      globalThis.frames = { count: frames.count + 1, long: frames.long + (took > 100 ? 1 : 0), longest: Math.max(frames.longest, took) };
      last = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  const before = await heap();
  const began = Date.now();
  let pushed = 0;
  let half = 0;
  for (let part = 0; part < PARTS; part += 1) {
    const now = Date.now();
    const count = Math.round((LINES * (part + 1)) / PARTS) - pushed;
    const each = Math.ceil(count / STREAMS);
    await Promise.all(Array.from({ length: STREAMS }, (_, stream) => {
      const lines = Array.from({ length: Math.min(each, count - stream * each) }, (_, n) => [now, `level=info part=${part} line=${n} stream=${stream} ${"y".repeat(90)}`]);
      return lines.length > 0 ? sandur.push({ app: `live${stream}` }, lines) : null;
    }));
    pushed += count;
    if (part === PARTS / 2) half = await heap();
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + ((part + 1) * SECONDS * 1000) / PARTS - Date.now())));
  }
  const seconds = (Date.now() - began) / 1000;
  await watcher.sees(`part=${PARTS - 1} `, ".log-list");
  const after = await heap();
  const frames = await watcher.page.evaluate(() => globalThis.frames);
  const status = (await watcher.text(".status")).replace(/\n/g, ", ");
  report(`${pushed.toLocaleString("en-US")} lines in ${seconds.toFixed(0)} s; ${status}`);
  report(`heap after collection: ${before.toFixed(1)} MiB before, ${half.toFixed(1)} in the middle, ${after.toFixed(1)} after`);
  report(`${frames.count} frames, ${frames.long} over 100 ms, longest ${Math.round(frames.longest)} ms`);
  isTrue(pushed === LINES, "all lines were pushed");
  isTrue(/5,000 lines here/.test(status), `the list is bounded: ${status}`);
  isTrue(after - before < GROWTH_MAX_MIB && after - half < 8, `the heap grew from ${before} over ${half} to ${after} MiB`);
}

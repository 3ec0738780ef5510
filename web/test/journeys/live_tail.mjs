// Live tail: new lines appear, a pause holds them back, and the tail goes on when the server restarts.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, report }) {
  const sandur = await server();
  await sandur.push({ app: "live" }, [[Date.now() - 5000, "before the tail", { trace: "t1" }]]);
  const watcher = await person();
  watcher.expect(/WebSocket|Failed to load resource/);
  await watcher.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="live"}')}&live=1`);
  await watcher.sees("before the tail");
  await sandur.push({ app: "live" }, [[Date.now(), "after the tail began"]]);
  await watcher.sees("after the tail began");

  // Labels that are not of the stream are known as such, so a filter is right.
  await watcher.click(".log-row:last-child .log-line");
  await watcher.sees(/trace[^]*metadata/, ".detail");
  await watcher.click(".log-row.open .log-open");

  await watcher.press("Pause");
  await sandur.push({ app: "live" }, [[Date.now(), "while it was paused"]]);
  await watcher.sees("1 line waiting", ".status");
  isTrue(!(await watcher.text(".log-list")).includes("while it was paused"), "a paused tail shows nothing new");
  await watcher.press("Go on (1 waiting)");
  await watcher.sees("while it was paused", ".log-list");

  // A restart: lines that are stored before the tail is back are shown once.
  await sandur.stop();
  await watcher.sees("Connecting again", ".status");
  await sandur.run();
  await sandur.push({ app: "live" }, [[Date.now(), "after the restart"]]);
  await watcher.sees("after the restart", ".log-list");
  const lines = await watcher.page.$$eval(".log-text", (all) => all.map((line) => line.innerText));
  equal(lines, ["after the restart", "while it was paused", "after the tail began", "before the tail"], "every line once");

  await load(sandur, watcher, report);
}

const SECONDS = 10;
const PER_SECOND = 5000;

/** Pushes 5,000 lines a second and reports frames that took longer than 100 ms. */
async function load(sandur, watcher, report) {
  await watcher.page.evaluate(() => {
    globalThis.frames = [];
    let last = performance.now();
    const next = (now) => {
      globalThis.frames.push(now - last);
      last = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  const memory = () => watcher.page.metrics().then(({ JSHeapUsedSize }) => JSHeapUsedSize / (1 << 20));
  const before = await memory();
  const began = Date.now();
  for (let part = 0; part < SECONDS * 10; part += 1) {
    const now = Date.now();
    await sandur.push({ app: "live" }, Array.from({ length: PER_SECOND / 10 }, (_, n) => [now, `load ${part} ${n} ${"x".repeat(120)}`]));
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + (part + 1) * 100 - Date.now())));
  }
  await watcher.sees(`load ${SECONDS * 10 - 1}`, ".log-list");
  const frames = await watcher.page.evaluate(() => globalThis.frames);
  const long = frames.filter((frame) => frame > 100);
  const rows = await watcher.text(".status");
  report(`${SECONDS} s of ${PER_SECOND} lines/s: ${frames.length} frames, ${long.length} over 100 ms, longest ${Math.round(Math.max(...frames))} ms`);
  report(`heap ${before.toFixed(0)} to ${(await memory()).toFixed(0)} MiB; ${rows.replace(/\n/g, ", ")}`);
  isTrue(/5,000 lines here/.test(rows), `the list is bounded: ${rows}`);
  isTrue((await watcher.count(".log-row")) < 200, "only visible rows are drawn");
}

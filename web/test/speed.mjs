// Measures how soon pages can be used: ours and others, in turn, each time in a new browser context.
//
//     node test/speed.mjs [--runs 15] [--browser /usr/bin/chromium] URL...
//
// Prints medians of milliseconds since the navigation: the first paint of text, and the first time at which
// the page has a field for a query and the main thread is idle. "Shift" is the sum of the movements of what
// is on the page (CLS). Nothing is in the cache of the browser; the first round is not counted.

import { parseArgs } from "node:util";
import { launch } from "./browser.mjs";
import { until } from "./server.mjs";

const FIELD = ".cm-content, textarea";
const PATIENCE_MS = 30_000;
const { values: options, positionals: urls } = parseArgs({
  allowPositionals: true,
  options: { runs: { type: "string", default: "15" }, browser: { type: "string", default: "/usr/bin/chromium" } },
});

/** Runs in the page before its scripts. */
function observe(field) {
  const seen = { shift: 0, usable: null };
  globalThis.seenBySpeed = seen;
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => (seen.shift += entry.value))).observe({ type: "layout-shift", buffered: true });
  // The field may be in a shadow tree, whose changes no observer of the document sees.
  const has = (root) => root.querySelector(field) !== null;
  const look = setInterval(() => {
    const trees = [...document.querySelectorAll("div")].flatMap((element) => element.shadowRoot ?? []);
    if (![document, ...trees].some(has)) return;
    clearInterval(look);
    requestIdleCallback(() => (seen.usable = performance.now()));
  }, 4);
}

async function load(browser, url) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport({ width: 1280, height: 800 });
  await page.evaluateOnNewDocument(observe, FIELD);
  await page.goto(url, { waitUntil: "networkidle0", timeout: PATIENCE_MS });
  await until(`a field for a query on ${url}`, () => page.evaluate(() => globalThis.seenBySpeed.usable !== null), PATIENCE_MS);
  const figures = await page.evaluate(() => {
    const bytes = performance.getEntriesByType("resource").reduce((sum, entry) => sum + entry.transferSize, 0);
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    return { paint: paint.startTime, usable: globalThis.seenBySpeed.usable, shift: globalThis.seenBySpeed.shift, kib: bytes / 1024 };
  });
  await context.close();
  return figures;
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

const { browser, close } = await launch(options.browser);
const all = urls.map(() => []);
for (let run = 0; run <= Number(options.runs); run += 1) {
  for (const [n, url] of urls.entries()) {
    const figures = await load(browser, url);
    if (run > 0) all[n].push(figures);
  }
}
await close();
for (const [n, url] of urls.entries()) {
  const of = (name) => all[n].map((figures) => figures[name]);
  const range = (name) => `${median(of(name)).toFixed(0)} (${Math.min(...of(name)).toFixed(0)}-${Math.max(...of(name)).toFixed(0)})`;
  console.log(`${url}: first paint ${range("paint")} ms, usable ${range("usable")} ms, shift ${median(of("shift")).toFixed(3)}, ${median(of("kib")).toFixed(0)} KiB`);
}

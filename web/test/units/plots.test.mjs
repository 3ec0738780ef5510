// Goal: what is plotted is what the answer has: bars, columns, stacks, heatmaps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { barsOf } = await source("logs/levels.ts");
const { columnsOf, drawnOf, stacked, nameOf } = await source("metrics/frame_data.ts");
const { cellsOf } = await source("metrics/heatmap.tsx");
const { suggested } = await source("metrics/metric_names.tsx");

test("bars add up levels that have several names", () => {
  const series = [
    { metric: { detected_level: "err" }, values: [[10, "2"], [20, "1"]] },
    { metric: { detected_level: "ERROR" }, values: [[20, "4"]] },
    { metric: {}, values: [[10, "7"], [999, "5"], [10, "x"]] },
  ];
  const bars = barsOf(series, "detected_level", 10_000, 20_000, 10_000);
  assert.deepEqual(bars.groups.map(({ name, counts, total }) => [name, counts, total]), [["error", [2, 5], 7], ["unknown", [7, 0], 7]]);
  assert.deepEqual([bars.most, bars.total], [9, 14]);
});

test("lines of no group are the others", () => {
  const series = Array.from({ length: 3 }, (_, n) => ({ metric: { user: `u${n}` }, values: [[10, String(n + 1)]] }));
  const all = [{ metric: {}, values: [[10, "10"], [20, "4"], [900, "7"]] }];
  const { groups, total, most } = barsOf(series, "user", 10_000, 20_000, 10_000, all);
  assert.deepEqual(groups.map(({ name, counts }) => [name, counts]), [["u2", [3, 0]], ["u1", [2, 0]], ["u0", [1, 0]], ["others", [4, 4]]]);
  assert.deepEqual([total, most], [14, 10]);
  assert.equal(barsOf(series, "user", 10_000, 10_000, 10_000, [{ metric: {}, values: [[10, "6"]] }]).groups.length, 3);
});

test("columns have gaps where the answer has none", () => {
  const { times, series } = columnsOf([{ metric: { __name__: "up", a: "b" }, values: [[0, "1"], [20, "NaN"], [30, "-3"]] }], 0, 30_000, 10_000);
  assert.deepEqual(times, [0, 10, 20, 30]);
  assert.deepEqual(series[0].values, [1, null, null, -3]);
  assert.deepEqual([series[0].name, series[0].min, series[0].max, series[0].last, series[0].mean], ['up{a="b"}', -3, 1, -3, -1]);
  assert.equal(nameOf({}), "{}");
});

test("of many series the largest are drawn, and the chosen ones", () => {
  const input = Array.from({ length: 1000 }, (_, n) => ({ metric: { n: String(n) }, values: [[0, String(n % 2 === 0 ? n : -n)]] }));
  const { series } = columnsOf(input, 0, 0, 1000);
  const drawn = drawnOf(series, new Set());
  assert.equal(drawn.length, 200);
  assert.ok(drawn.every(({ place }) => place >= 800));
  assert.deepEqual(drawnOf(series, new Set([3, 5])).map(({ place }) => place), [3, 5]);
});

test("stacks are sums", () => {
  const { series } = columnsOf([{ metric: {}, values: [[0, "1"], [1, "2"]] }, { metric: {}, values: [[1, "5"]] }], 0, 1000, 1000);
  assert.deepEqual(stacked(series), [[1, 2], [1, 7]]);
  const { series: late } = columnsOf([{ metric: {}, values: [[1, "2"]] }, { metric: {}, values: [[2, "5"]] }], 0, 3000, 1000);
  assert.deepEqual(stacked(late), [[null, 2, null, null], [null, 2, 5, null]], "a time without values is a gap");
});

test("heatmaps take classic buckets apart and keep native ones", () => {
  const classic = cellsOf([
    { metric: { le: "1" }, values: [[0, "2"]] },
    { metric: { le: "5" }, values: [[0, "7"]] },
    { metric: { le: "+Inf" }, values: [[0, "8"]] },
  ], { start: 0, end: 0 }, 1000);
  assert.deepEqual([classic.bounds, [...classic.values], classic.most], [[1, 5, Infinity], [2, 5, 1], 5]);
  const native = cellsOf([{ metric: {}, histograms: [[0, { count: "3", sum: "1", buckets: [[0, "1", "2", "3"]] }]] }], { start: 0, end: 0 }, 1000);
  assert.deepEqual([native.bounds, [...native.values]], [[2], [3]]);
  assert.equal(cellsOf([{ metric: {}, values: [[0, "1"]] }], { start: 0, end: 0 }, 1000), null);
});

test("a metric is plotted as its type suggests", () => {
  assert.equal(suggested({ name: "up", type: "gauge" }), "up");
  assert.equal(suggested({ name: "requests", type: "counter" }), "rate(requests[5m])");
  assert.match(suggested({ name: "took_bucket" }), /^histogram_quantile/);
  assert.equal(suggested({ name: "http.took", type: "gauge" }), '{"http.took"}');
});

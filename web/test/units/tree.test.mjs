// Goal: the parts of an expression are expressions of their own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { partsOf, counting, PARTS_MAX } = await source("metrics/tree.ts");

const shown = (query) => partsOf(query).map(({ depth, title, text }) => `${" ".repeat(depth)}${title} = ${text.replaceAll("\n", "/")}`);

test("parts are written in their order, with their depth", () => {
  assert.deepEqual(shown("sum by (a) (rate(x{l=\"v\"}[5m] offset 1h)) / -(y + 2) > bool 3"), [
    '> bool = sum by (a) (rate(x{l="v"}[5m] offset 1h)) / -(y + 2) > bool 3',
    ' / = sum by (a) (rate(x{l="v"}[5m] offset 1h)) / -(y + 2)',
    '  sum by (a) = sum by (a) (rate(x{l="v"}[5m] offset 1h))',
    '   rate = rate(x{l="v"}[5m] offset 1h)',
    '    x{l="v"}[5m] offset 1h = x{l="v"}[5m] offset 1h',
    "  - = -(y + 2)",
    "   + = y + 2",
    "    y = y",
  ]);
});

test("ranges are counted by a function, values as they are", () => {
  const parts = partsOf("quantile_over_time(0.9, max_over_time(x[5m])[1h:1m] @ end())");
  assert.deepEqual(parts.map(({ isRange }) => isRange), [false, true, true, false, true]);
  assert.equal(counting(parts[4]), "count(count_over_time(x[5m]))");
  assert.equal(counting(parts[0]), "count(quantile_over_time(0.9, max_over_time(x[5m])[1h:1m] @ end()))");
});

test("a query with an error has no parts, and a long one is cut", () => {
  assert.deepEqual(partsOf("sum("), []);
  assert.deepEqual(partsOf("1 "), []);
  assert.equal(partsOf(Array.from({ length: 100 }, (_, n) => `m${n}`).join(" + ")).length, PARTS_MAX);
  assert.deepEqual(shown("x # a note\n+ y"), ["+ = x # a note/+ y", " x = x", " y = y"]);
});

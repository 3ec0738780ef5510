// Goal: patterns that are new or grow are found by their change.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { countedOf, shownOf } = await source("logs/patterns.tsx");

const span = { start: 0, end: 100_000 };
const of = (pattern, level, samples) => countedOf({ pattern, level, samples }, span);
const all = [
  of("GET <_> ok", "info", [[10, 50], [60, 50]]),
  of("timeout of <_>", "error", [[10, 1], [60, 30]]),
  of("disk full", "error", [[70, 4]]),
  of("starting", "info", [[5, 9]]),
];

test("lines are counted, and those of the second half compared with the first", () => {
  assert.deepEqual(all.map(({ lines, change }) => [lines, change]), [[100, 1], [31, 30], [4, Infinity], [9, 0]]);
});

test("patterns are sought by words and level, and sorted", () => {
  const names = (...choices) => shownOf(all, ...choices).map(({ pattern }) => pattern);
  assert.deepEqual(names("", "", "lines"), ["GET <_> ok", "timeout of <_>", "starting", "disk full"]);
  assert.deepEqual(names("", "", "change"), ["disk full", "timeout of <_>", "GET <_> ok", "starting"]);
  assert.deepEqual(names("", "error", "lines"), ["timeout of <_>", "disk full"]);
  assert.deepEqual(names("OF timeout", "", "lines"), ["timeout of <_>"]);
  assert.deepEqual(names("nothing", "", "lines"), []);
});

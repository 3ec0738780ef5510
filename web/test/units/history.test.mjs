// Goal: earlier queries are each kept once, the last first, and not without end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { withQuery } = await source("frame/history.ts");

test("a query that is asked again moves to the front", () => {
  assert.deepEqual(withQuery(["a", "b", "c"], " b "), ["b", "a", "c"]);
  assert.deepEqual(withQuery(["a"], "  "), ["a"]);
});

test("the list and each query are bounded", () => {
  let list = [];
  for (let n = 0; n < 300; n += 1) list = withQuery(list, `q${n}`);
  assert.deepEqual([list.length, list[0]], [100, "q299"]);
  assert.equal(withQuery(list, "x".repeat(5000)), list);
});

// Goal: the box of the URL lies in the range, and is nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { boxOf } = await source("logs/differences.ts");

test("a box lies in the range", () => {
  const range = { start: 1_700_000_000_500, end: 1_700_000_100_500 };
  assert.deepEqual(boxOf("1700000010400,1700000020600", range), { start: 1_700_000_010_400, end: 1_700_000_020_600 });
  assert.deepEqual(boxOf("1600000010400,1800000020600", range), range);
  for (const text of [null, "", "5,6", "1700000020600,1700000010400", "1800000000000,1800000001000", "a,b"]) assert.equal(boxOf(text, range), null);
});

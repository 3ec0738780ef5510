// Goal: differences are those of a plain computation; chance makes none; more values than fit are bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { compared, boxOf, VALUES_MAX } = await source("logs/differences.ts");

/** Counts by value, as the server gives them: the most frequent values. */
function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return new Map([...counts].sort(([, a], [, b]) => b - a).slice(0, VALUES_MAX));
}

function byHand(inside, outside) {
  const share = (values, value) => values.filter((one) => one === value).length / values.length;
  return new Map([...new Set([...inside, ...outside])].map((value) => [value, share(inside, value) - share(outside, value)]));
}

/** Values in an order that looks random and is the same each time. */
function drawn(count, choose, seed = 1) {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return choose(state / 2 ** 32);
  });
}

const compare = (inside, outside) => compared(counted(inside), counted([...inside, ...outside]), { inside: inside.length, whole: inside.length + outside.length });

test("shares are those of a plain computation", () => {
  const inside = drawn(500, (part) => (part < 0.7 ? "web3" : part < 0.85 ? "web1" : "web2"));
  const outside = drawn(5000, (part) => `web${1 + Math.floor(part * 3)}`, 7);
  const found = compare(inside, outside);
  const hand = byHand(inside, outside);
  assert.equal(found.isExact, true);
  assert.equal(found.values[0].value, "web3");
  for (const { value, difference } of found.values) assert.ok(Math.abs(difference - hand.get(value)) < 1e-12, value);
});

test("equal shares, chance and unique ids are no differences", () => {
  const of = (seed) => drawn(2000, (part) => `v${Math.floor(part * 5)}`, seed);
  assert.deepEqual(compare(of(3), of(11)).values, []);
  const ids = (from) => Array.from({ length: 1000 }, (_, n) => `id${from + n}`);
  assert.deepEqual(compare(ids(0), ids(1000)).values, []);
  assert.deepEqual(compare(Array(50).fill("same"), Array(500).fill("same")).values, []);
  assert.equal(compare([], ["a"]).score, 0);
});

test("a value that is only inside, and one that is missing there", () => {
  const found = compare(Array(100).fill("new"), [...Array(900).fill("old"), ...Array(100).fill("")]);
  assert.deepEqual(found.values.map(({ value, insideShare, outsideShare }) => [value, insideShare, outsideShare]), [["new", 1, 0], ["old", 0, 0.9], ["", 0, 0.1]]);
});

test("with more values than fit, a difference is never larger than the true one", () => {
  const many = drawn(20_000, (part) => `u${Math.floor(part * 3000)}`, 5);
  const inside = [...many.slice(0, 4000), ...Array(2000).fill("culprit")];
  const outside = many.slice(4000);
  const found = compare(inside, outside);
  assert.equal(found.isExact, false);
  assert.ok(found.error > 0 && found.error < 0.01);
  assert.equal(found.values[0].value, "culprit");
  const hand = byHand(inside, outside);
  for (const { value, difference } of found.values) {
    assert.ok(Math.abs(difference) <= Math.abs(hand.get(value)) + found.error, `${value}: ${difference} instead of ${hand.get(value)}`);
  }
});

test("a box has whole seconds and lies in the range", () => {
  const range = { start: 1_700_000_000_500, end: 1_700_000_100_500 };
  assert.deepEqual(boxOf("1700000010400,1700000020600", range), { start: 1_700_000_010_000, end: 1_700_000_021_000 });
  assert.deepEqual(boxOf("1600000010400,1800000020600", range), { start: 1_700_000_000_000, end: 1_700_000_101_000 });
  for (const text of [null, "", "5,6", "1700000020600,1700000010400", "1800000000000,1800000001000", "a,b"]) assert.equal(boxOf(text, range), null);
});

// Goal: the box of a plot in the URL lies in the range, and a filter reaches all selectors of a query.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { plotBoxOf, boxText } = await source("metrics/plot_box.ts");
const { isPlain, withMatcher } = await source("metrics/matchers.ts");
const { troubles, isFresh, rolesOf, dollars } = await source("machine/cluster_facts.ts");

const range = { start: 1_700_000_000_500, end: 1_700_000_100_500 };

test("a box of a plot lies in the range and may have bounds of values", () => {
  const [start, end] = [1_700_000_010_400, 1_700_000_020_600];
  assert.deepEqual(plotBoxOf(`${start},${end}`, range), { start, end, min: null, max: null });
  assert.deepEqual(plotBoxOf(`${start},${end},-1.5,2e3`, range), { start, end, min: -1.5, max: 2000 });
  assert.deepEqual(plotBoxOf(`${start},${end},,7`, range), { start, end, min: null, max: 7 });
  assert.deepEqual(plotBoxOf("1600000010400,1800000020600", range), { ...range, min: null, max: null });
  for (const text of [null, "", "5,6", `${end},${start}`, `${start},${end},3,2`, `${start},${end},x,2`, `${start},${end},3`]) assert.equal(plotBoxOf(text, range), null, text);
  for (const box of [{ start, end, min: null, max: null }, { start, end, min: -1.25, max: 7 }, { start, end, min: null, max: 0 }]) {
    assert.deepEqual(plotBoxOf(boxText(box), range), box);
  }
});

test("a matcher is added to every selector", () => {
  const added = (query) => withMatcher(query, "pod", "=", 'a"b');
  assert.equal(added("up"), 'up{pod="a\\"b"}');
  assert.equal(added('sum by (a) (rate(x{l="v"}[5m] offset 1h)) / {y="1",} > bool z{ }'), 'sum by (a) (rate(x{l="v", pod="a\\"b"}[5m] offset 1h)) / {y="1",pod="a\\"b"} > bool z{ pod="a\\"b"}');
  assert.equal(withMatcher("x[5m:1m]", "zone", "!=", ""), 'x{zone!=""}[5m:1m]');
  for (const query of ["sum(", "1 + 1", ""]) assert.equal(added(query), null, query);
  assert.equal(withMatcher("up", "a.b", "=", "c"), null, "a label that needs quotes");
  assert.deepEqual(["a.b", "1a", "", "_a1"].map(isPlain), [false, false, false, true]);
});

test("what is wrong with a cluster is said in sentences", () => {
  const node = { id: "n1", version: "1", roles: ["ingest", "query", "compact", "cache", "rules"], rows_missing: null, rows_age_ms: 900, unanswered: null };
  const report = { held: false, unowned_roles: [], nodes: [node, { ...node, id: "n2" }] };
  assert.deepEqual(troubles(report), []);
  assert.equal(rolesOf(node), "all");
  assert.equal(isFresh(node), true);
  assert.equal(isFresh({ ...node, rows_age_ms: null }), false);
  const bad = { held: true, unowned_roles: ["rules"], nodes: [node, { ...node, id: "n2", version: "2", unanswered: "it is away", rows_missing: "no memory" }] };
  const texts = troubles(bad).map(({ text }) => text).join("\n");
  for (const part of ["Fewer than half", "role rules", "n2 did not answer: it is away", "Rows of n2 may be missing", "versions: 1, 2"]) assert.ok(texts.includes(part), part);
  const many = Array.from({ length: 300 }, (_, n) => ({ ...node, id: `m${n}`, version: `${n}`, unanswered: "it is away" }));
  const bounded = troubles({ held: true, unowned_roles: [], nodes: many }).map(({ text }) => text);
  assert.deepEqual([bounded.length, bounded[0].includes("Fewer than half"), bounded[20].includes("282 further warnings")], [21, true, true]);
  assert.ok(bounded[1].endsWith("versions: 0, 1, 2, 3, 4, and others."), bounded[1]);
  assert.deepEqual([dollars(0), dollars(0.0123), dollars(12.345)], ["$0.00", "$0.0123", "$12.35"]);
});

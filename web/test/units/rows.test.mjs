// Goal: fields of lines have the names that LogQL gives them, and hostile lines are harmless.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const rows = await source("logs/rows.ts");
const text = await source("frame/text.ts");
const { textOf } = await source("logs/download.tsx");

const row = (line, labels = { app: "x" }, metadata = {}) =>
  rows.rowsOf([{ stream: labels, values: [["1795240900000000001", line, { structuredMetadata: metadata }]] }])[0];
const fields = (line, labels) => Object.fromEntries(rows.fieldsOf(row(line, labels)).map(({ name, value }) => [name, value]));

test("fields of JSON and logfmt", () => {
  assert.deepEqual(fields('{"a":{"b":1,"c-d":"x"},"list":[1],"none":null,"app":"inner"}'), { app: "x", a_b: "1", a_c_d: "x", app_extracted: "inner" });
  assert.deepEqual(fields('level=warn msg="a \\"b\\" c" empty= user.id=7'), { app: "x", level: "warn", msg: 'a "b" c', user_id: "7" });
  assert.deepEqual(fields("only one=pair in a sentence"), { app: "x" });
  assert.deepEqual(fields('{"broken'), { app: "x" });
});

test("hostile lines take little time", () => {
  const began = performance.now();
  for (const line of [`{"a":${'{"a":'.repeat(10_000)}1`, "a=".repeat(40_000), `a="${"\\".repeat(60_000)}`, "=".repeat(65_000), " a=b".repeat(16_000), `${"x".repeat(65_000)}="`]) {
    assert.ok(rows.fieldsOf(row(line)).length <= 500);
    text.visible(line);
  }
  assert.ok(performance.now() - began < 5000, `${performance.now() - began} ms`);
});

test("rows are ordered by nanoseconds, and equal lines of a stream are told apart by their time", () => {
  const made = rows.rowsOf([
    { stream: { a: "1" }, values: [["1000000000000000002", "b"], ["1000000000000000001", "a"]] },
    { stream: { a: "2" }, values: [["999999999999999999", "c"], ["1000000000000000001", "a"]] },
  ]);
  assert.deepEqual(made.map(({ line }) => line), ["c", "a", "a", "b"]);
  assert.equal(new Set(made.map(({ id }) => id)).size, 4);
});

test("invisible characters become visible, others stay", () => {
  assert.equal(text.visible("a\u001b[0m\u202eb\u0000"), "a\u241b[0m\u2039202E\u203ab\u2400");
  assert.equal(text.visible("tab\tline\nümläut 漢字 🙂"), "tab\tline\nümläut 漢字 🙂");
  assert.equal(text.oneLine("a\r\nb\tc", 10), "a\u21b5b  c");
});

test("downloads keep every character", () => {
  const tricky = row('a "quoted", line\r\nwith breaks', { app: "x,y" });
  assert.equal(textOf(tricky, "lines", []), 'a "quoted", line\r\nwith breaks\n');
  assert.equal(textOf(tricky, "csv", ["app"]), '2026-11-21T06:01:40.000000001Z,"x,y","a ""quoted"", line\r\nwith breaks"\r\n');
  const parsed = JSON.parse(textOf(tricky, "json", []));
  assert.deepEqual(parsed, { timestamp: "2026-11-21T06:01:40.000000001Z", line: tricky.line, labels: { app: "x,y" } });
});

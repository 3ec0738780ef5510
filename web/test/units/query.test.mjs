// Goal: an edit of a query adds exactly the condition, wherever the query has braces, quotes or comments.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const query = await source("logs/query.ts");
const { filtered } = await source("logs/filters.ts");
const { soughtTexts } = await source("logs/highlight.tsx");

test("kinds of queries", () => {
  assert.equal(query.kindOf(" "), "empty");
  assert.equal(query.kindOf('{a="b"} |= "rate(x)"'), "lines");
  assert.equal(query.kindOf('sum by (a) (rate({a="b"}[5m]))'), "metric");
  assert.equal(query.kindOf("nonsense"), "lines");
});

test("a matcher of a label is added, replaced, or its opposite removed", () => {
  const add = (text, operator, value) => query.withMatcher(text, "app", operator, value);
  assert.equal(add('{env="x"}', "=", "api"), '{env="x", app="api"}');
  assert.equal(add('{app=~".+"} |= "x"', "=", "api"), '{app="api"} |= "x"');
  assert.equal(add('{app="web", env="x"}', "=", "api"), '{env="x", app="api"}');
  assert.equal(add('{app="api", env="x"}', "!=", "api"), '{env="x", app!="api"}');
  assert.equal(add('{app!="api"}', "=", "api"), '{app="api"}');
  assert.equal(add('{app!="a"}', "!=", "b"), '{app!="a", app!="b"}');
  assert.equal(add("", "=", "api"), '{app="api"}');
  assert.equal(add('{a="}{"} |= "{app=1}"', "=", "x"), '{a="}{", app="x"} |= "{app=1}"');
  assert.equal(add("{a=`x`}", "=", 'with "quotes"'), '{a=`x`, app=`with "quotes"`}');
  assert.equal(add("{a=`x`}", "=", 'both " and `'), '{a=`x`, app="both \\" and `"}');
  assert.equal(add("{a=`x`}", "=", "a\nb\\"), '{a=`x`, app="a\\nb\\\\"}');
});

test("a condition comes behind the stage that makes its field, once", () => {
  const field = (origin) => ({ name: "user", origin });
  const base = '{a="b"}';
  assert.equal(filtered(base, field("json"), "=", "ada"), '{a="b"} | json | user="ada"');
  assert.equal(filtered(`${base} | json`, field("json"), "!=", "ada"), '{a="b"} | json | user!="ada"');
  assert.equal(filtered(base, field("metadata"), "=", "ada"), '{a="b"} | user="ada"');
  const twice = filtered(filtered(base, field("logfmt"), "=", "ada"), field("logfmt"), "=", "ada");
  assert.equal(twice, '{a="b"} | logfmt | user="ada"');
  assert.equal(filtered(twice, field("logfmt"), "!=", "ada"), '{a="b"} | logfmt | user!="ada"');
  assert.equal(filtered(`${base} # why`, field("json"), "=", "x"), '{a="b"} # why\n| json | user="x"');
  assert.equal(filtered(base, { name: "a", origin: "label" }, "!=", "b"), '{a!="b"}');
});

test("line filters come before other stages, and their texts are found", () => {
  const text = query.withLineFilter('{a="b"} | json', "|>", "<_> \"x\" <_>");
  assert.equal(text, '{a="b"} |> `<_> "x" <_>` | json');
  assert.deepEqual(soughtTexts('{a="no"} |= "one" or `two` != "no" |~ "no" | json | x="no" |= "three"'), ["one", "two", "three"]);
  assert.deepEqual(soughtTexts("{"), []);
});

test("the selector of a stream has all of its labels", () => {
  assert.equal(query.streamSelector({ a: "b", c: 'd"' }), '{a="b", c=`d"`}');
  assert.equal(query.selectorOf('sum(rate({a="b"} |= "{" [1m]))'), '{a="b"}');
});

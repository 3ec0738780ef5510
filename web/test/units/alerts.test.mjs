// Goal: filters and links of alerts and rules; the list of rules is bounded and read in parts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { alertsOf, counts, rulesOf, timeOf } = await source("alerts/selection.ts");

const alert = (state, labels, activeAt) => ({ state, labels, annotations: {}, activeAt, value: "1e+00" });
const alerting = (name, health, alerts) => ({
  type: "alerting", name, query: `${name} > 1`, health, evaluationTime: 0, lastEvaluation: "", alerts,
  state: alerts.some(({ state }) => state === "firing") ? "firing" : alerts.length > 0 ? "pending" : "inactive",
});
const groups = [
  {
    name: "g", file: "/etc/a.yml", interval: 60, evaluationTime: 0, lastEvaluation: "",
    rules: [
      alerting("High", "ok", [alert("pending", { host: "a" }, "2026-01-01T00:00:02Z"), alert("firing", { host: "b" }, "2026-01-01T00:00:01Z")]),
      alerting("Broken", "err", []),
      { type: "recording", name: "job:sum", query: "sum(x)", health: "ok", evaluationTime: 0, lastEvaluation: "" },
    ],
  },
];
const wanted = (changes) => ({ states: new Set(), kind: "all", search: "", ...changes });

test("alerts are filtered by state and all words", () => {
  const names = (changes) => alertsOf(groups, wanted(changes)).map(({ alert: { labels } }) => labels.host);
  assert.deepEqual(names({}), ["b", "a"], "firing ones first");
  assert.deepEqual(names({ states: new Set(["pending"]) }), ["a"]);
  assert.deepEqual(names({ search: "HOST=b /etc/a" }), ["b"]);
  assert.deepEqual(names({ search: "host=b host=a" }), []);
});

test("rules are filtered by state, kind and text", () => {
  const names = (changes) => rulesOf(groups, wanted(changes)).map(({ rule }) => rule.name);
  assert.deepEqual(names({}), ["High", "Broken", "job:sum"]);
  assert.deepEqual(names({ states: new Set(["failing"]) }), ["Broken"]);
  assert.deepEqual(names({ states: new Set(["inactive"]) }), ["Broken"], "a recording rule has no state");
  assert.deepEqual(names({ kind: "recording" }), ["job:sum"]);
  assert.deepEqual(names({ search: "sum(x)" }), ["job:sum"]);
  assert.deepEqual(counts(groups, "rules"), { firing: 1, pending: 0, inactive: 1, failing: 1 });
  assert.deepEqual(counts(groups, "alerts"), { firing: 1, pending: 1, inactive: 0, failing: 0 });
});

test("a rule that was never evaluated has no time", () => {
  assert.equal(timeOf("0001-01-01T00:00:00Z"), null);
  assert.equal(timeOf("x"), null);
  assert.equal(timeOf("1970-01-01T00:00:01Z"), 1000);
});

test("rules are read in parts, and alerts beyond the limit are counted", async () => {
  globalThis.location = new URL("http://127.0.0.1/explore/alerts");
  const asked = [];
  globalThis.fetch = async (address) => {
    const params = new URL(address, "http://127.0.0.1").searchParams;
    asked.push(params.get("group_next_token"));
    const many = Array.from({ length: 15_000 }, () => alert("firing", {}, ""));
    const data = { groups: [{ ...groups[0], rules: [{ ...groups[0].rules[0], alerts: many }] }], groupNextToken: asked.length < 2 ? "next" : undefined };
    return new Response(JSON.stringify({ status: "success", data, warnings: ["a file"] }));
  };
  const { rules } = await source("api/rules.ts");
  const found = await rules();
  assert.deepEqual(asked, [null, "next"]);
  assert.equal(found.groups.length, 2);
  assert.equal(found.groups[1].rules[0].alerts.length, 5000);
  assert.deepEqual([found.leftOut, found.warnings, found.isCut], [10_000, ["a file"], false]);

  // A server that gives the same token for ever ends the list.
  globalThis.fetch = async () => new Response(JSON.stringify({ data: { groups: [], groupNextToken: "same" } }));
  assert.equal((await rules()).groups.length, 0);
  let n = 0;
  globalThis.fetch = async () => new Response(JSON.stringify({ data: { groups: [], groupNextToken: String((n += 1)) } }));
  assert.equal((await rules()).isCut, true);
});

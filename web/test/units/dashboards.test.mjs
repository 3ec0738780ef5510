// Goal: dashboards of Grafana are read as they mean, and values of variables stay values in each language.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { source } from "./sources.mjs";

const { dashboardOf, withPanel, emptyDashboard, PANELS_MAX } = await source("dashboards/model.ts");
const { substituted, withTimes, boundOf } = await source("dashboards/substitution.ts");
const { selected } = await source("dashboards/variables.ts");
const { placed, PLACED_MAX } = await source("dashboards/layout.ts");
const { calculated } = await source("dashboards/panel_data.ts");
const { shownIn } = await source("dashboards/units.ts");

const choices = (...values) => values.map((value) => ({ value, text: value }));

test("a dashboard of Grafana keeps its panels, and says what it leaves out", async () => {
  const read = dashboardOf(await readFile(new URL("../data/grafana.json", import.meta.url), "utf8"));
  assert.equal(read.title, "Shop <b>of</b> Grafana");
  assert.deepEqual(read.sections.map(({ title, panels, isClosed }) => [title, panels.length, isClosed]), [["Orders", 10, false], ["Each region", 1, true]]);
  const kinds = read.sections[0].panels.map(({ kind }) => kind);
  assert.deepEqual(kinds, ["stacked", "stat", "stat", "table", "logs", "heatmap", null, "lines", "text", "lines"]);
  const by = (title) => read.sections[0].panels.find((panel) => panel.title === title);
  assert.deepEqual(by("Orders per second").notes, ["Overrides of a field are not applied."]);
  assert.match(by("Load of $host").notes[0], /Transformations are not applied: organize/);
  assert.match(by("Shares").reason, /piechart/);
  assert.equal(by("Lines of $app").queries[0].language, "logql");
  assert.deepEqual(by("Graphite").queries.map(({ text }) => text), ["alias(sumSeries(servers.*.load), 'sum of loads')"]);
  assert.deepEqual(read.variables.map(({ name, kind }) => [name, kind]), [["ds", "source"], ["region", "query"], ["host", "query"], ["app", "custom"], ["window", "interval"], ["adhoc", "constant"]]);
  assert.deepEqual(read.variables[3].choices, [{ value: "api", text: "api" }, { value: "The worker", text: "worker" }]);
});

test("texts that are no dashboards are refused with a reason", () => {
  for (const [text, reason] of [["", /not JSON/], ["[]", /not an object/], ["{}", /neither/], ['{"sandur": 2}', /version/], [`"${"x".repeat(3 << 20)}"`, /2 MiB/]]) {
    assert.throws(() => dashboardOf(text), reason);
  }
});

test("a dashboard of schema version 2 keeps its panels in their rows", async () => {
  const read = dashboardOf(await readFile(new URL("../data/grafana_v2.json", import.meta.url), "utf8"));
  assert.deepEqual([read.title, read.description, read.range, read.refresh], ["Shop of version 2", "Orders", { from: "now-20m", to: "now" }, "30s"]);
  assert.deepEqual(read.sections.map(({ title, isClosed, repeat }) => [title, isClosed, repeat]), [["Orders", false, ""], ["Each $region", true, "region"]]);
  const [orders, each] = read.sections;
  assert.deepEqual(orders.panels.map(({ title, kind, at: { x, y, w, h } }) => [title, kind, x, y, w, h]), [
    ["Orders per second", "stacked", 0, 0, 12, 8], ["All orders of $region", "stat", 12, 0, 6, 8], ["Shares", null, 18, 0, 6, 8], ["panel-9", null, 0, 8, 12, 8],
  ]);
  const [rate, stat, shares, absent] = orders.panels;
  assert.deepEqual(rate.queries.map(({ language, name }) => [language, name]), [["promql", "in {{region}}"]]);
  assert.deepEqual([rate.look.unit, rate.minStep, rate.notes], ["reqps", "15s", []]);
  assert.deepEqual([stat.queries[0].isInstant, stat.look.thresholds.length, stat.notes], [true, 2, ["Transformations are not applied: organize."]]);
  assert.match(shares.reason, /piechart/);
  assert.match(absent.reason, /"panel-9", which is not in the file/);
  assert.deepEqual(each.panels.map(({ at: { x, y, w, h } }) => [x, y, w, h]), [[0, 0, 12, 5], [12, 0, 12, 5], [0, 5, 12, 5]]);
  assert.equal(each.panels[0].queries[0].language, "logql");
  assert.match(each.panels[1].reason, /library panel/);
  assert.deepEqual(read.notes, ["Conditions under which rows and panels are hidden are not applied.", 'Variable filters: variables of the type "adhoc" are not supported']);
  assert.deepEqual(read.variables.map(({ name, kind, sort, chosen }) => [name, kind, sort, chosen]), [
    ["ds", "source", 0, ["prometheus"]], ["region", "query", 2, ["$__all"]], ["app", "custom", 0, ["api"]], ["window", "interval", 0, ["5m"]], ["filters", "constant", 0, [""]],
  ]);
  assert.deepEqual([read.variables[1].query, read.variables[1].language, read.variables[1].title], ["label_values(shop_orders_total, region)", "promql", "Region"]);
});

test("layouts of schema version 2 that are not known lose no panel, and endless ones end", () => {
  const element = { kind: "Panel", spec: { title: "T", vizConfig: { kind: "text", spec: { options: { content: "hello" } } } } };
  const of = (layout, elements = { a: element }) => dashboardOf(JSON.stringify({ elements, layout }));
  const items = [{ spec: { element: { name: "a" } } }];
  const unknown = of({ kind: "CanvasLayout", spec: {} });
  assert.deepEqual(unknown.sections[0].panels.map(({ title, kind, text }) => [title, kind, text]), [["T", "text", "hello"]]);
  assert.match(unknown.notes[0], /"CanvasLayout" are not supported/);
  const tabs = of({ kind: "TabsLayout", spec: { tabs: [{ spec: { title: "One", layout: { kind: "GridLayout", spec: { items } } } }, { spec: { title: "Two", layout: { kind: "GridLayout", spec: { items } } } }] } });
  assert.deepEqual([tabs.sections.map(({ title, panels }) => [title, panels.length]), tabs.notes], [[["One", 1], ["Two", 1]], ["Tabs are shown as rows below each other."]]);
  const early = of({ kind: "GridLayout", spec: { items: [...items, { spec: { title: "Row", collapsed: true, elements: items } }] } });
  assert.deepEqual(early.sections.map(({ title, isClosed, panels }) => [title, isClosed, panels.length]), [["", false, 1], ["Row", true, 1]]);
  let deep = { kind: "GridLayout", spec: { items } };
  for (let n = 0; n < 50; n += 1) deep = { kind: "RowsLayout", spec: { rows: [{ spec: { layout: deep } }] } };
  assert.match(of(deep).notes[0], /nested more deeply/);
  const many = of({ kind: "AutoGridLayout", spec: { maxColumnCount: 1e9, items: Array.from({ length: 5000 }, () => items[0]) } });
  assert.equal(many.sections[0].panels.length, PANELS_MAX);
  assert.match(many.notes[0], /first 2000 items/);
  const odd = of({ kind: "GridLayout", spec: { items: [null, 5, { spec: { element: 4, x: "a" } }] } }, { a: 5, b: { kind: "Hologram", spec: {} } });
  assert.ok(odd.sections[0].panels.every(({ kind, reason }) => kind === null && reason !== ""));
  assert.match(of(undefined, {}).notes[0], /not supported/);
});

test("members of wrong types and endless lists do no harm", () => {
  const odd = { panels: [null, 5, "x", [], { type: 7, gridPos: "a", targets: [null, { expr: 5 }], fieldConfig: [] }, { type: "row", panels: 4 }], templating: { list: [null, 3, { name: "a", type: "query", query: {} }] }, time: 4, annotations: [], links: {} };
  const read = dashboardOf(JSON.stringify(odd));
  assert.equal(read.sections[0].panels.length, 5);
  assert.ok(read.sections[0].panels.every(({ kind, reason }) => kind === null && reason !== ""));
  const far = dashboardOf(JSON.stringify({ panels: [{ type: "stat", gridPos: { x: 1e9, y: 1e300, w: 3.7, h: 1e9 } }] }));
  assert.deepEqual(far.sections[0].panels[0].at, { x: 20, y: 20_000, w: 4, h: 100 });
  const many = { panels: Array.from({ length: 3000 }, () => ({ type: "stat" })) };
  const bounded = dashboardOf(JSON.stringify(many));
  assert.equal(bounded.sections[0].panels.length, PANELS_MAX);
  assert.match(bounded.notes.at(-1), /first 400 panels/);
  const circle = { panels: [{ type: "graph", datasource: { type: "graphite" }, targets: [{ refId: "A", target: "a(#B,#B)" }, { refId: "B", target: "b(#A,#A)" }] }] };
  assert.ok(dashboardOf(JSON.stringify(circle)).sections[0].panels[0].queries[0].text.length < 100_000, "targets that name each other end");
});

test("the forms before Grafana 5 have rows", () => {
  const old = { rows: [{ title: "R", showTitle: true, height: "250px", panels: [{ type: "graph", span: 6, targets: [{ expr: "up" }] }, { type: "singlestat", span: 6, format: "percent", valueName: "avg", targets: [{ expr: "x" }] }, { type: "graph", span: 12, stack: true, targets: [] }] }] };
  const { sections } = dashboardOf(JSON.stringify(old));
  assert.deepEqual(sections[0].panels.map(({ at, kind }) => [at.x, at.y, at.w, kind]), [[0, 0, 12, "lines"], [12, 0, 12, "stat"], [0, 7, 24, "stacked"]]);
  assert.deepEqual([sections[0].panels[1].look.unit, sections[0].panels[1].look.calculation], ["percent", "mean"]);
});

test("values are quoted as the place needs it", () => {
  const several = new Map([["a", boundOf(choices("x.y", 'b"c'), true, null)], ["one", boundOf(choices("us (east)"), true, null)], ["plain", boundOf(choices('q"\\d'), false, null)], ["all", boundOf(choices("p"), true, ".+")]]);
  const inPromql = (text) => substituted(text, several, "promql");
  assert.equal(inPromql('{l=~"$a"}'), '{l=~"(x\\\\.y|b\\"c)"}');
  assert.equal(inPromql('{l=~"$one"}'), '{l=~"us \\\\(east\\\\)"}');
  assert.equal(inPromql('{l="$one", m!="$one"}'), '{l="us (east)", m!="us (east)"}', "a comparison has no patterns");
  assert.equal(inPromql('{l="$plain"}'), '{l="q\\"\\\\d"}', "a value does not leave its string");
  assert.equal(inPromql('{l=~"$all"}'), '{l=~".+"}');
  assert.equal(inPromql("[[one:raw]] ${a:pipe} ${a:csv} $unknown ${unknown}"), 'us (east) x.y|b"c x.y,b"c $unknown ${unknown}');
  assert.equal(substituted("servers.$a.load", several, "graphite"), 'servers.{x.y,b"c}.load');
  assert.equal(substituted("of $a", several, "text"), 'of x.y, b"c');
});

test("variables of the time range have the step and the range", () => {
  const scope = withTimes(new Map([["w", boundOf(choices("$__auto"), false, null)]]), { start: 0, end: 3_600_000 }, 15_000);
  assert.equal(substituted("[$__interval] [$__rate_interval] [$__range] $__range_s $__interval_ms [$w]", scope, "promql"), "[15s] [60s] [3600s] 3600 15000 [15s]");
});

test("patterns select and shorten values; orders are Grafana's", () => {
  const of = (regex, sort) => selected(["web10", "web9", "db1", "web9"], { regex, sort }).map(({ value }) => value);
  assert.deepEqual(of("/web(\\d+)/", 3), ["9", "10"]);
  assert.deepEqual(of("", 0), ["web10", "web9", "db1"]);
  assert.deepEqual(of("", 7), ["db1", "web9", "web10"]);
  assert.deepEqual(of("^db", 2), ["db"]);
  assert.deepEqual(selected(["a=1"], { regex: "/(?<text>\\w)=(?<value>\\d)/", sort: 0 }), [{ value: "1", text: "a" }]);
  assert.throws(() => of("/(/", 0), /pattern/);
});

test("repeated panels have places of their own and move what is below", () => {
  const at = (y) => ({ x: 0, y, w: 24, h: 4 });
  const scope = new Map([["v", boundOf(choices("a", "b", "c", "d", "e"), true, null)]]);
  const { sections: [section] } = placed([{ title: "", isClosed: false, repeat: "", panels: [{ repeat: "v", at: at(5) }, { repeat: "", at: at(9) }] }], scope);
  assert.deepEqual(section.panels.map(({ panel }) => [panel.at.x, panel.at.y, panel.at.w]), [[0, 0, 6], [6, 0, 6], [12, 0, 6], [18, 0, 6], [0, 4, 6], [0, 8, 24]]);
  assert.deepEqual(section.panels[4].scope.get("v").values, ["e"]);
  assert.equal(placed([{ title: "R", isClosed: false, repeat: "v", panels: [] }], scope).sections.length, 5);
  // Rows and panels that repeat each other end at a limit.
  const all = new Map([["v", boundOf(choices(...Array.from({ length: 90 }, (_, n) => `v${n}`)), true, null)]]);
  const rows = Array.from({ length: 50 }, () => ({ title: "R", isClosed: false, repeat: "v", panels: Array.from({ length: 8 }, () => ({ repeat: "v", at: at(0) })) }));
  const many = placed(rows, all);
  assert.deepEqual([many.isCut, many.sections.reduce((sum, { panels }) => sum + panels.length, 0)], [true, PLACED_MAX]);
});

test("own dashboards take panels, and no more than the limit", () => {
  let text = withPanel(emptyDashboard("Mine"), { title: "P", kind: "lines", queries: [{ language: "promql", query: "up" }] });
  const read = dashboardOf(text);
  assert.deepEqual(read.sections[0].panels.map(({ title, kind, at }) => [title, kind, at]), [["P", "lines", { x: 0, y: 0, w: 12, h: 8 }]]);
  assert.throws(() => withPanel('{"panels": []}', { title: "", kind: "lines", queries: [] }), /only be added/);
  const full = { ...JSON.parse(text), panels: Array.from({ length: PANELS_MAX }, () => ({})) };
  assert.throws(() => withPanel(JSON.stringify(full), { title: "", kind: "lines", queries: [] }), /at most 400/);
});

test("values become one value, and have units", () => {
  assert.deepEqual(["last", "first", "mean", "max", "range", "difference", "count"].map((name) => calculated([null, 1, NaN, 5, 3, undefined], name)), [3, 1, 3, 5, 4, 2, 3]);
  assert.equal(calculated([null], "mean"), null);
  assert.deepEqual([shownIn("bytes", null)(2048), shownIn("s", null)(0.25), shownIn("percentunit", null)(0.5), shownIn("suffix: u", null)(3), shownIn("nothing known", null)(7), shownIn("short", 2)(1.23456), shownIn("dateTimeAsIso", null)(1e30)], ["2.0 KiB", "250 ms", "50 %", "3  u", "7", "1.23", "1.00e+30"]);
});

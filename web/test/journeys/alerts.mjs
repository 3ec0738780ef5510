// Rules and alerts: nothing configured; then firing, pending, failing and recording rules, filters, and the
// way from an alert to its expression. A broken file is reported.

import { writeFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { equal, isTrue } from "../browser.mjs";
import { startProxy } from "../proxy.mjs";
import { until } from "../server.mjs";

const RULES = `groups:
  - name: shop
    interval: 1s
    rules:
      - record: job:load:sum
        expr: sum by (job) (shop_load)
      - alert: LoadHigh
        expr: shop_load > 10
        labels: {severity: page}
        annotations:
          summary: 'Load of {{ $labels.host }} is {{ $value }}'
          runbook_url: https://runbooks.example/load?x=1
          hostile: 'javascript:alert(1) <img src=x onerror=alert(1)>'
      - alert: LoadSlow
        expr: shop_load > 1
        for: 1h
      - alert: Quiet
        expr: shop_load > 1e9
  - name: logs
    interval: 1s
    language: logql
    rules:
      - alert: ManyErrors
        expr: sum by (app) (count_over_time({app="api"} |= "error" [1h])) > 2
  - name: wrong
    interval: 1s
    rules:
      - alert: TwoValues
        expr: shop_load * on (job) group_left shop_load > 0
`;

export async function walk({ server, person, shot, onEnd, report }) {
  const bare = await server();
  const newcomer = await person();
  await newcomer.open(`${bare.url}/explore/alerts`);
  await newcomer.sees("This process evaluates no rules");
  await newcomer.sees("sandur serve --rules");
  isTrue((await newcomer.count(".problem")) === 0, "no failure without rules");

  const folder = await mkdtemp(join(tmpdir(), "sandur-rules-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "shop.yml"), RULES);
  await writeFile(join(folder, "broken.yml"), "groups:\n  - name: x\n    rules: [{alert: A, expr: 'sum('}]\n");
  const sandur = await server("--rules", folder);
  const now = Date.now();
  await sandur.push({ app: "api" }, Array.from({ length: 5 }, (_, n) => [now - n * 1000, `error ${n}`]));
  const sample = (host, value) => `shop_load{job="shop",host="${host}"} ${value} ${Date.now()}\n`;
  await sandur.samples(sample("web01", 42) + sample("web02", 3));

  const operator = await person();
  await operator.open(`${sandur.url}/explore/alerts`);
  await until("a firing alert", async () => {
    await operator.key("r");
    return (await operator.text(".alerts")).includes("LoadHigh");
  }, 60_000);
  await operator.sees("Load of web01 is 42");
  await operator.sees("ManyErrors");
  await operator.sees(/broken\.yml/, ".notice");
  await operator.sees(/Firing\s+2/, ".toolbar");
  await operator.sees(/Pending\s+2/, ".toolbar");
  isTrue((await operator.text(".status")).includes("No Alertmanager"), "where alerts are sent");

  // Only firing ones, then a text; both are in the address.
  await operator.press("Firing");
  await operator.lacks("pending", ".data tbody");
  equal(operator.params().get("state"), "firing", "the state");
  await operator.key("f");
  await operator.page.keyboard.type("web01");
  await operator.lacks("ManyErrors", ".data");
  equal(operator.params().get("search"), "web01", "the text");

  // Details: labels and annotations as text; only addresses of the web are links.
  await operator.click('[aria-label="Details of LoadHigh"]');
  await operator.sees("javascript:alert(1) <img", ".detail-row");
  const links = await operator.page.$$eval(".detail-row .fields a", (all) => all.map((one) => one.href));
  equal(links, ["https://runbooks.example/load?x=1"], "links of annotations");
  await shot(operator, "details");
  await operator.press("Show its history");
  await until("the metrics page", () => operator.page.url().includes("/explore/metrics"));
  // The plot has a step of ten seconds; an alert that is younger has no point yet.
  await until("a step with the alert", async () => {
    await operator.key("r");
    return (await operator.text(".plot-legend")).includes('alertname="LoadHigh"');
  }, 30_000);

  // From an alert to its expression, in either language.
  await operator.page.goBack();
  await operator.press("LoadHigh");
  await operator.sees('host="web01"', ".plot-legend");
  await until("the expression", async () => (await operator.query()) === "shop_load > 10");
  await operator.page.goBack();
  await operator.open(`${sandur.url}/explore/alerts`);
  await operator.press("ManyErrors");
  await until("the logs page", () => operator.page.url().includes("/explore/logs"));
  await until("the expression of LogQL", async () => (await operator.query()).includes("count_over_time"));

  await silenced(sandur, operator);
  await groups(sandur, operator, shot);
  await many(sandur, await person(), onEnd, report);
  isTrue((await operator.page.evaluate(() => globalThis.shifts)) < 0.1, "the layout is still");
}

async function silenced(sandur, operator) {
  await operator.open(`${sandur.url}/explore/alerts?tab=silences`);
  await operator.sees("There are no silences");
  const at = (hours) => new Date(Date.now() + hours * 3_600_000).toISOString();
  const matchers = [{ name: "alertname", value: "Load.*", isRegex: true, isEqual: true }];
  const body = { matchers, startsAt: at(0), endsAt: at(1), createdBy: "ops", comment: "planned work <b>" };
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${sandur.url}/alertmanager/api/v2/silences`, { method: "POST", headers, body: JSON.stringify(body) });
  equal(answer.status, 200, "a silence is added");
  await operator.key("r");
  await operator.sees("planned work <b>");
  await operator.sees('alertname=~"Load.*"');
  await operator.sees("active", ".data tbody");
}

async function groups(sandur, operator, shot) {
  await operator.open(`${sandur.url}/explore/alerts?tab=rules`);
  await operator.sees("job:load:sum");
  await operator.sees(/every 1\.00 s|every 1 s/);
  await until("all rules are evaluated", async () => !(await operator.text(".rule-group")).includes("never"));
  await operator.sees(/many-to-many|duplicate|multiple matches/i, ".rule-group .wrong");
  await shot(operator, "rules");
  await operator.press("Failing");
  await operator.lacks("LoadHigh", ".alerts-body");
  await operator.sees("TwoValues");
  await operator.press("Failing");
  await operator.page.select('[aria-label="Kind of rules"]', "recording");
  await operator.lacks("LoadHigh", ".alerts-body");
  await operator.press("job:load:sum");
  await until("a step with the recorded series", async () => {
    await operator.key("r");
    return (await operator.text(".plot-legend")).includes('job:load:sum{job="shop"}');
  }, 30_000);

  const phone = await operator.page.browserContext().newPage();
  await phone.setViewport({ width: 360, height: 740 });
  await phone.goto(`${sandur.url}/explore/alerts?tab=rules`);
  await until("the rules", () => phone.$(".rule-group").then((found) => found !== null));
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
  await phone.close();
  isTrue(wide <= 360, `the page is ${wide} px wide on a phone`);
}

/** 20,000 rules with 30,000 alerts, whose texts are long; then a server that fails, cuts and lies. */
async function many(sandur, operator, onEnd, report) {
  const alert = (n) => ({ labels: { alertname: "A", n: `${n} ${"x".repeat(200)}` }, annotations: { summary: `summary ${n}` }, state: n % 3 ? "firing" : "pending", activeAt: "2026-01-01T00:00:00Z", value: "1e+00" });
  const rule = (n) => ({ type: "alerting", name: `Rule${n}`, query: `up{n="${n}"} == 0`, labels: {}, annotations: {}, state: "firing", duration: 0, keepFiringFor: 0, health: "ok", evaluationTime: 0.001, lastEvaluation: "2026-01-01T00:00:00Z", alerts: n % 2 ? [alert(n), alert(n + 0.1), alert(n + 0.2)] : [] });
  const part = (at) => Array.from({ length: 100 }, (_, g) => ({ name: `group ${at + g}`, file: "/etc/many.yml", interval: 60, evaluationTime: 0.1, lastEvaluation: "2026-01-01T00:00:00Z", rules: Array.from({ length: 20 }, (_, n) => rule((at + g) * 20 + n)) }));
  const parts = Array.from({ length: 10 }, (_, n) => JSON.stringify({ status: "success", data: { groups: part(n * 100), groupNextToken: n < 9 ? String(n + 1) : "" } }));
  let how = "many";
  const behaviour = (path) => {
    if (!path.startsWith("/api/v1/rules")) return null;
    if (how === "away") return { status: 503, body: "the store is away", headers: { "retry-after": "1" } };
    if (how === "odd") return { status: 200, body: '{"data":{"groups":[{"name":"odd","file":"f","rules":null}],"groupNextToken":""},"warnings":null}', headers: { "content-type": "application/json" } };
    if (how === "cut") return { cut: 20 };
    const token = Number(new URL(path, "http://x").searchParams.get("group_next_token") ?? 0);
    return { status: 200, body: parts[token], headers: { "content-type": "application/json" } };
  };
  const proxy = await startProxy({ target: sandur.url, behaviour });
  onEnd(proxy.close);
  operator.expect(/Failed to load resource|503|ERR_/);
  const began = performance.now();
  await operator.open(`${proxy.url}/explore/alerts`);
  await operator.sees("20,000 rules in 1,000 groups", ".status");
  await operator.sees("10,000 alerts are not shown: the page holds the first 20,000");
  report(`20,000 rules and 30,000 alerts on the page after ${Math.round(performance.now() - began)} ms`);
  isTrue((await operator.count(".data tbody tr")) <= 400, "only a part is drawn");
  await operator.key("f");
  const typed = performance.now();
  await operator.page.keyboard.type("rule1001");
  await operator.sees("summary 1001.2", ".data");
  report(`search for an alert among them: ${Math.round(performance.now() - typed)} ms for eight keys`);
  equal(await operator.count(".data tbody tr"), 18, "alerts of Rule1001, and of those whose names begin so");
  await operator.page.evaluate(() => document.activeElement?.blur());

  how = "away";
  await operator.key("r");
  await operator.sees("the store is away", ".problem");
  how = "odd";
  await operator.sees("0 rules in 1 group", ".status");
  how = "cut";
  await operator.key("r");
  await operator.sees("The answer was cut before its end", ".problem");
  isTrue((await operator.text(".status")).includes("0 rules"), "the last answer stays");
}

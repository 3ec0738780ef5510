// Rules and alerts: nothing configured; then firing, pending, failing and recording rules, filters, and the
// way from an alert to its expression. A broken file is reported.

import { writeFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { equal, isTrue } from "../browser.mjs";
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

export async function walk({ server, person, shot, onEnd }) {
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

  await groups(sandur, operator, shot);
  isTrue((await operator.page.evaluate(() => globalThis.shifts)) < 0.1, "the layout is still");
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
  await operator.sees('job:load:sum{job="shop"}', ".plot-legend");

  const phone = await operator.page.browserContext().newPage();
  await phone.setViewport({ width: 360, height: 740 });
  await phone.goto(`${sandur.url}/explore/alerts?tab=rules`);
  await until("the rules", () => phone.$(".rule-group").then((found) => found !== null));
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
  await phone.close();
  isTrue(wide <= 360, `the page is ${wide} px wide on a phone`);
}

// Dashboards: one of Grafana's is imported, with variables, repeats and what is not supported; own ones are
// made from queries, edited, shared by a link, exported and removed; those that ship have only known metrics.

import { readFile } from "node:fs/promises";
import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";
import { source } from "../units/sources.mjs";

const GRAFANA = new URL("../data/grafana.json", import.meta.url);

async function fill(sandur) {
  const now = Date.now();
  const rows = ["# TYPE shop_orders_total counter", "# TYPE took histogram"];
  for (let n = 0; n < 60; n += 1) {
    const at = now - (60 - n) * 15_000;
    rows.push(`shop_orders_total{region="eu"} ${n * 3} ${at}`, `shop_orders_total{region="us (east)"} ${n * 2} ${at}`);
    rows.push(`shop_load{region="eu",host="web01"} ${n} ${at}`, `shop_load{region="eu",host="db01"} 7 ${at}`, `shop_load{region="us (east)",host="web02"} 5 ${at}`);
    for (const [le, count] of [["0.1", 3], ["1", 9], ["+Inf", 9]]) rows.push(`took_bucket{le="${le}"} ${n * count} ${at}`);
  }
  await sandur.samples(`${rows.join("\n")}\n`);
  await sandur.push({ app: "api" }, Array.from({ length: 50 }, (_, n) => [now - n * 5000, n % 2 ? `order ${n} <b>was</b> placed` : `idle ${n}`]));
  const at = Math.floor(now / 1000);
  const points = Array.from({ length: 10 }, (_, n) => `servers.web01.load 2 ${at - n * 60}\nservers.web02.load 3 ${at - n * 60}`);
  await sandur.post("/graphite/carbon", `${points.join("\n")}\n`);
}

export async function walk({ server, person, shot }) {
  const sandur = await server();
  await fill(sandur);
  const analyst = await person({ width: 1400, height: 1100 });
  await imported(sandur, analyst, shot);
  await own(sandur, analyst, person, shot);
  await shipped(sandur, analyst);
  isTrue((await analyst.page.evaluate(() => globalThis.shifts)) < 0.1, `the layout is still: ${await analyst.page.evaluate(() => globalThis.shifts)}`);
}

const panel = (title) => `.panel[aria-label="${title}"]`;

async function imported(sandur, analyst, shot) {
  await analyst.open(`${sandur.url}/explore/dashboards`);
  await analyst.sees("Import");
  await (await analyst.page.$("input[type=file]")).uploadFile(GRAFANA.pathname);
  await analyst.sees("Shop <b>of</b> Grafana", ".toolbar");
  await until("the range of the dashboard", () => analyst.params().get("from") === "now-20m");

  // What it shows: series by their names, a number with its colour, a text for a value, a table, lines.
  await analyst.sees("in eu", panel("Orders per second"));
  await analyst.sees("in us (east)", panel("Orders per second"));
  await analyst.sees("295", panel("All orders of eu,us (east)"));
  await analyst.finds(`${panel("All orders of eu,us (east)")} b.wrong`);
  await analyst.sees("works", panel("Up"));
  await analyst.sees("web02", panel("Load of web02"));
  await analyst.sees(/order 1 <b>was<\/b> placed/, panel("Lines of api"));
  await analyst.lacks("idle", panel("Lines of api"));
  await analyst.finds(`${panel("Time")} canvas`);
  await analyst.page.evaluate(() => document.querySelector(".dashboard-body").scrollTo(0, 5000));
  await analyst.sees("sum of loads", panel("Graphite"));

  // What it does not show is said in its place.
  await analyst.sees('Panels of the type "piechart" are not supported.', panel("Shares"));
  await analyst.sees("This panel has no query that is supported.", panel("Elsewhere"));
  await analyst.sees("<img src=x onerror=alert(1)> **text**", panel("Notes"));
  await analyst.click(`${panel("Elsewhere")} button.warning`);
  await analyst.sees("this server does not have its language (influxdb)", ".notes");
  await analyst.key("Escape");
  await analyst.press("2 notes");
  await analyst.sees('Variable adhoc: variables of the type "adhoc" are not supported', ".notes");
  await analyst.key("Escape");

  // A closed row opens; its panel is repeated for each value.
  await analyst.press("▸ Each region");
  await analyst.page.evaluate(() => document.querySelector(".dashboard-body").scrollTo(0, 5000));
  await analyst.sees("177", panel("Orders in eu"));
  await analyst.sees("118", panel("Orders in us (east)"));
  await shot(analyst, "grafana-end");
  await analyst.page.evaluate(() => document.querySelector(".dashboard-body").scrollTo(0, 0));
  await shot(analyst, "grafana");

  // Variables: the choice is in the address, and the variables that depend on it follow.
  await analyst.press("region: All");
  await analyst.page.evaluate(() => [...document.querySelectorAll(".choices label")].find((label) => label.innerText.trim() === "eu").querySelector("input").click());
  await until("the choice", () => analyst.params().getAll("var-region").join() === "eu");
  await analyst.key("Escape");
  await analyst.sees("177", panel("All orders of eu"));
  await analyst.lacks("us (east)", panel("Orders per second"));
  await analyst.sees("web01", panel("Load of web01"));

  // A value with characters that patterns and strings give a meaning finds exactly itself.
  await analyst.open(`${sandur.url}/explore/dashboards?d=${analyst.params().get("d")}&var-region=${encodeURIComponent("us (east)")}`);
  await analyst.sees("118", panel("All orders of us (east)"));

  // From a panel to its query.
  await analyst.click(`${panel("Orders per second")} .open`);
  await until("the metrics page", () => analyst.page.url().includes("/explore/metrics"));
  equal(analyst.params().getAll("q"), ['sum by (region) (rate(shop_orders_total{region=~"us \\\\(east\\\\)"}[5m]))'], "the query");
  await analyst.sees('{region="us (east)"}', ".plot-legend");
}

async function own(sandur, analyst, person, shot) {
  // A new dashboard from a query; the panel shows what the page showed.
  await analyst.press("Add to a dashboard");
  await analyst.click('dialog input[placeholder="New dashboard"]');
  await analyst.page.keyboard.type("Mine");
  await analyst.press("Add");
  await analyst.sees("Mine", ".toolbar h2");
  await analyst.finds(".panel .u-over");
  await analyst.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="api"}')}`);
  await analyst.sees("order 1", ".log-list");
  await analyst.press("Add to a dashboard");
  await analyst.finds("dialog select");
  await analyst.press("Add");
  await analyst.sees("idle 2", ".panel-lines");
  equal(await analyst.count(".panel"), 2, "panels");

  // Automatic refresh brings new lines without a hand.
  await analyst.page.select(".dashboard .toolbar select", "5s");
  await sandur.push({ app: "api" }, [[Date.now(), "a line that came later"]]);
  await analyst.sees("a line that came later", ".panel-lines");
  await analyst.page.select(".dashboard .toolbar select", "off");

  // An error in the JSON is said, and nothing is lost; a right change is kept.
  await analyst.press("Edit");
  await analyst.finds(".edit-text");
  const set = (text) => analyst.page.evaluate((value) => {
    const area = document.querySelector(".edit-text");
    area.value = value;
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }, text);
  const before = await analyst.page.$eval(".edit-text", (area) => area.value);
  await set(`${before}}`);
  await analyst.press("Save");
  await analyst.sees("The text is not JSON", "dialog");
  await set(before.replace('"Mine"', '"Mine and yours"'));
  await analyst.press("Save");
  await analyst.sees("Mine and yours", ".toolbar h2");

  // A link contains the dashboard, so it opens in another browser.
  await analyst.page.evaluate(() => {
    navigator.clipboard.writeText = async (text) => void (globalThis.copied = text);
  });
  await analyst.press("Copy link");
  const url = await until("the link", () => analyst.page.evaluate(() => globalThis.copied));
  const other = await person();
  await other.open(url);
  await other.sees("Mine and yours", ".toolbar h2");
  await other.sees("idle 2", ".panel-lines");
  await other.open(url.replace(/def=.{20}/, "def=AAAA"));
  await other.sees("the link is cut or damaged");
  await shot(other, "damaged");

  // Removed only after a second click.
  await analyst.press("‹ All dashboards");
  await analyst.press("Remove Mine and yours");
  await analyst.press("Remove now Mine and yours");
  await analyst.lacks("Mine and yours", ".dashboard-lists");
  await analyst.sees("Shop <b>of</b> Grafana", ".dashboard-lists");
  await analyst.page.type("textarea", '{"a": 1}');
  await analyst.press("Import");
  await analyst.sees("neither a dashboard of this page", ".dashboard-lists");
}

/** The metrics of the dashboards that ship exist, and their panels show no error. */
async function shipped(sandur, analyst) {
  const { SHIPPED } = await source("dashboards/shipped.ts");
  const exported = await (await fetch(`${sandur.url}/metrics`)).text();
  const known = new Set([...exported.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  for (const { id, source: text } of SHIPPED) {
    const used = new Set([...text.matchAll(/\b(?:sandur|process)_\w+/g)].map(([name]) => name.replace(/_bucket$/, "")));
    const missing = [...used].filter((name) => !known.has(name));
    equal(missing, [], `metrics of the dashboard ${id} that do not exist`);
    isTrue(used.size > 5, `metrics of ${id}`);
  }
  // The metrics of the process as it would store them if it scraped itself.
  const now = Date.now();
  for (let n = 3; n >= 0; n -= 1) {
    const lines = exported.split("\n").filter((line) => /^(sandur|process)_/.test(line) && !line.includes("{}"));
    await sandur.samples(`${lines.map((line) => `${line.replace(/^([^{ ]+)(\{)?/, (_, name, open) => `${name}{instance="a:1"${open ? "," : "} "}`).trim()} ${now - n * 15_000}`).join("\n")}\n`);
  }
  for (const { id } of SHIPPED) {
    await analyst.open(`${sandur.url}/explore/dashboards?d=${id}`);
    await analyst.finds(".panel .u-over, .panel .stat");
    await until("answers", () => analyst.page.evaluate(() => document.querySelector(".progress.on") === null));
    equal(await analyst.page.$$eval(".panel .wrong", (all) => all.map((one) => one.innerText)), [], `errors of ${id}`);
  }
}

export async function fixture() {
  return readFile(GRAFANA, "utf8");
}

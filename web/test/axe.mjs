// What journeys about access share: a server with some of everything, and axe-core on a list of places in
// both themes.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { equal } from "./browser.mjs";
import { until } from "./server.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const RULES = `groups:
  - name: shop
    interval: 1s
    rules:
      - {record: "orders:sum", expr: sum(shop_orders_total)}
      - {alert: HighOrders, expr: shop_orders_total > 1, annotations: {summary: "Many orders", runbook_url: "https://runbooks.example/orders"}}
      - {alert: Wrong, expr: 'shop_orders_total + on (nothing) (shop_orders_total or vector(1))'}
`;

/** Starts a server with rules, lines, samples and Graphite's points. */
export async function filled({ server, onEnd }, now) {
  const folder = await mkdtemp(join(tmpdir(), "sandur-rules-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "shop.yml"), RULES);
  await writeFile(join(folder, "shop.json"), '{"sandur": 1, "title": "Shop"}');
  await writeFile(join(folder, "cut.json"), '{"sandur": 1,');
  const sandur = await server("--query-slow-threshold", "1ms", "--rules", join(folder, "shop.yml"), "--dashboards", folder);
  const levels = ["error", "warn", "info", "debug"];
  await sandur.push({ app: "x" }, Array.from({ length: 300 }, (_, n) => [now - n * 5000, `level=${levels[n % 4]} msg="line ${n}" user=ada`]));
  await sandur.samples(`# TYPE shop_orders_total counter\n# HELP shop_orders_total Orders.\n${Array.from({ length: 60 }, (_, n) => `shop_orders_total{region="eu"} ${n} ${now - (60 - n) * 30_000}`).join("\n")}\n`);
  await sandur.post("/graphite/carbon", `servers.web01.load 1 ${Math.floor(now / 1000)}\n`);
  await sandur.post("/flush", "");
  return sandur;
}

/** Checks places, each in a page of its own: name, path below `/explore/`, and what a person does there. */
export async function checked(sandur, places, { person, shot, report }) {
  const source = await readFile(AXE, "utf8");
  const problems = [];
  for (const theme of ["light", "dark"]) {
    for (const [name, url, prepare] of places) {
      const visitor = await person({ theme });
      await visitor.open(`${sandur.url}/explore/${url}`);
      await until("an idle page", () => visitor.page.evaluate(() => document.querySelector("main section") !== null && document.querySelector(".progress.on") === null));
      if (prepare) await prepare(visitor);
      await new Promise((resolve) => setTimeout(resolve, 300));
      await visitor.page.evaluate(source);
      const { violations } = await visitor.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 4).map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).join(" | ")}`);
      problems.push(...found.map((text) => `${name} (${theme}): ${text}`));
      await shot(visitor, `${name}-${theme}`);
      await visitor.page.close();
    }
  }
  equal(problems, [], "axe");
  report(`${2 * places.length} pages without violations`);
}


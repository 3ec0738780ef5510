// axe-core finds no violations on the pages of alerts, dashboards, Graphite and the machine, in both themes.

import { readFile } from "node:fs/promises";
import { deflateRawSync } from "node:zlib";
import { checked, filled } from "../axe.mjs";

export async function walk(tools) {
  const sandur = await filled(tools, Date.now());
  const dashboard = deflateRawSync(await readFile(new URL("../data/grafana.json", import.meta.url))).toString("base64url");
  const places = [
    ["alerts", "alerts", null],
    ["rules", "alerts?tab=rules", (visitor) => visitor.click('[aria-label="Details of HighOrders"]')],
    ["dashboards", "dashboards", (visitor) => visitor.sees("it is cut off")],
    ["dashboard-of-server", "dashboards?d=server:shop", (visitor) => visitor.sees("Save a copy in this browser")],
    ["dashboard-absent", "dashboards?d=server:nothing", (visitor) => (visitor.expect(/404/), visitor.sees("This dashboard cannot be shown"))],
    ["dashboard", `dashboards?def=${dashboard}`, (visitor) => visitor.press("2 notes")],
    ["dashboard-edit", `dashboards?d=overview`, (visitor) => visitor.press("Edit")],
    ["dashboard-add", `metrics?q=shop_orders_total`, (visitor) => visitor.press("Add to a dashboard")],
    ["graphite", "graphite?target=servers.*.load&help=1", null],
    ...["overview", "cluster", "running", "queries", "ingest", "cardinality", "blocks", "metrics", "settings"].map((tab) => [`machine-${tab}`, `machine?tab=${tab}`, null]),
  ];
  await checked(sandur, places, tools);
}

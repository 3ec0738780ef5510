// Writes the dashboards of Sandur for Grafana, `packaging/grafana/*.json`, from those that come with the page:
// `node grafana.mjs`. A unit test fails if the files differ.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { source } from "./test/units/sources.mjs";

export const FOLDER = join(dirname(fileURLToPath(import.meta.url)), "../packaging/grafana");
const TYPES = { lines: "timeseries", stacked: "timeseries", stat: "stat" };
const SOURCE = { type: "prometheus", uid: "${datasource}" };

function panel({ title, kind, unit, at: [x, y, w, h], queries }, n) {
  const custom = kind === "stacked" ? { fillOpacity: 30, stacking: { group: "A", mode: "normal" } } : {};
  return {
    id: n + 1,
    title,
    type: TYPES[kind],
    datasource: SOURCE,
    gridPos: { x, y, w, h },
    fieldConfig: { defaults: { unit: unit ?? "short", ...(kind === "stat" ? {} : { custom }) }, overrides: [] },
    options: kind === "stat" ? { reduceOptions: { calcs: ["lastNotNull"] } } : { tooltip: { mode: "multi" } },
    targets: queries.map(({ query, name }, place) => ({ refId: String.fromCharCode(65 + place), datasource: SOURCE, expr: query, legendFormat: name || "__auto" })),
  };
}

function variable({ name, title, query, allValue }) {
  return {
    name,
    label: title,
    type: "query",
    datasource: SOURCE,
    definition: query,
    query: { query, refId: "A" },
    multi: true,
    includeAll: true,
    allValue,
    refresh: 2,
    sort: 1,
    current: { text: ["All"], value: ["$__all"] },
  };
}

/** The files by name. */
export async function files() {
  const { SHIPPED } = await source("dashboards/shipped.ts");
  return SHIPPED.map(({ id, source: text }) => {
    const own = JSON.parse(text);
    const dashboard = {
      uid: `sandur-${id}`,
      title: own.title,
      tags: ["sandur"],
      schemaVersion: 39,
      editable: true,
      time: own.range,
      refresh: own.refresh,
      templating: { list: [{ name: "datasource", label: "Data source", type: "datasource", query: "prometheus" }, ...own.variables.map(variable)] },
      panels: own.panels.map(panel),
    };
    return [`sandur-${id}.json`, `${JSON.stringify(dashboard, null, 2)}\n`];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await mkdir(FOLDER, { recursive: true });
  for (const [name, content] of await files()) await writeFile(join(FOLDER, name), content);
}

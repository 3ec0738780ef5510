// Dashboards of Grafana as dashboards of this page: classic JSON, with panels in a grid or in rows, and schema
// version 2, which becomes classic JSON first.
//
// Invariants: nothing of the source runs or becomes HTML. A panel that is not understood stays in its place
// with the reason; what is left out of a panel that is shown is a note of this panel.

import { type Json, isRecord, list, numberOr, record, text } from "./json.ts";
import type { Dashboard, Kind, Language, Panel, PanelQuery, Section } from "./model.ts";
import { looksOf } from "./grafana_looks.ts";
import { classicOf } from "./grafana_v2.ts";
import { Sources, variableOf } from "./grafana_variables.ts";

export function isGrafana(value: Json): boolean {
  return Array.isArray(value["panels"]) || Array.isArray(value["rows"]) || isRecord(value["elements"]);
}

export function ofGrafana(value: Json): Dashboard {
  if (isRecord(value["elements"])) {
    const { classic, notes } = classicOf(value);
    const read = ofGrafana(classic);
    return { ...read, notes: [...notes, ...read.notes] };
  }
  const notes: string[] = [];
  const sources = new Sources(value);
  const variables = list(record(value["templating"])["list"]).map((given) => variableOf(record(given), sources));
  for (const { name, note } of variables) if (note !== "") notes.push(`Variable ${name}: ${note}`);
  const annotations = list(record(value["annotations"])["list"]).filter((one) => record(one)["builtIn"] !== 1);
  if (annotations.length > 0) notes.push("Annotations are not shown.");
  if (list(value["links"]).length > 0) notes.push("Links of the dashboard are not shown.");
  const time = record(value["time"]);
  const [from, to] = [text(time["from"]), text(time["to"])];
  return {
    title: text(value["title"]) || "Dashboard",
    description: text(value["description"]),
    range: from !== "" && to !== "" ? { from, to } : null,
    refresh: text(value["refresh"]),
    variables: variables.filter(({ name }) => name !== ""),
    sections: sectionsOf(value, sources),
    notes,
  };
}

/** Panels by rows; a row that is closed has its panels inside. */
function sectionsOf(value: Json, sources: Sources): Section[] {
  const sections: Section[] = [{ title: "", isClosed: false, repeat: "", panels: [] }];
  if (!Array.isArray(value["panels"])) return oldRows(value, sources);
  for (const given of list(value["panels"])) {
    const panel = record(given);
    if (panel["type"] === "row") {
      const inside = list(panel["panels"]).map((one) => panelOf(record(one), sources));
      sections.push({ title: panel["hideHeader"] === true ? "" : text(panel["title"]) || "Row", isClosed: panel["collapsed"] === true, repeat: text(panel["repeat"]), panels: inside });
    } else {
      sections.at(-1)?.panels.push(panelOf(panel, sources));
    }
  }
  return sections.filter(({ panels, title }) => panels.length > 0 || title !== "");
}

/** The form before Grafana 5: rows with panels whose widths are twelfths. */
function oldRows(value: Json, sources: Sources): Section[] {
  return list(value["rows"]).map((given) => {
    const row = record(given);
    const high = Math.max(3, Math.round(numberOr(parseInt(String(row["height"] ?? 250), 10), 250) / 38));
    let [x, y] = [0, 0];
    const panels = list(row["panels"]).map((one) => {
      const panel = panelOf(record(one), sources);
      const w = Math.min(24, Math.max(1, Math.round(numberOr(record(one)["span"], 12) * 2)));
      if (x + w > 24) [x, y] = [0, y + high];
      panel.at = { x, y, w, h: high };
      x += w;
      return panel;
    });
    return { title: row["showTitle"] === true ? text(row["title"]) : "", isClosed: row["collapse"] === true, repeat: text(row["repeat"]), panels };
  });
}

const GRAPHS = ["timeseries", "graph", "trend"];
const STATS: Record<string, string> = { stat: "", singlestat: "", gauge: "Shown as a number instead of a gauge.", bargauge: "Shown as numbers instead of bars." };

function kindOf(panel: Json, notes: string[]): Kind | null {
  const type = text(panel["type"]);
  if (GRAPHS.includes(type)) {
    const custom = record(record(record(panel["fieldConfig"])["defaults"])["custom"]);
    const stacking = text(record(custom["stacking"])["mode"]);
    if (stacking === "percent" || panel["percentage"] === true) notes.push("Stacked as values, not as shares.");
    const isStacked = (stacking !== "" && stacking !== "none") || panel["stack"] === true;
    if (text(custom["drawStyle"]) === "bars" || panel["bars"] === true) notes.push("Drawn as lines instead of bars.");
    return isStacked ? "stacked" : "lines";
  }
  if (type in STATS) {
    if (STATS[type]) notes.push(STATS[type] as string);
    return "stat";
  }
  if (type === "table" || type === "table-old") return "table";
  if (type === "logs" || type === "heatmap" || type === "text") return type;
  return null;
}

function panelOf(panel: Json, sources: Sources): Panel {
  const notes: string[] = [];
  const kind = kindOf(panel, notes);
  const place = record(panel["gridPos"]);
  const w = Math.min(24, Math.max(1, numberOr(place["w"], 12)));
  const queries = kind === "text" ? [] : queriesOf(panel, sources, notes);
  const reason = text(panel["reason"]) !== ""
    ? text(panel["reason"])
    : isRecord(panel["libraryPanel"]) && list(panel["targets"]).length === 0
    ? "This is a library panel of Grafana; its definition is not in the file."
    : kind === null ? `Panels of the type "${text(panel["type"])}" are not supported.` : "";
  noteRest(panel, notes);
  const options = record(panel["options"]);
  return {
    title: text(panel["title"]),
    description: text(panel["description"]),
    kind: reason === "" ? kind : null,
    reason,
    at: { x: Math.min(24 - w, Math.max(0, numberOr(place["x"], 0))), y: Math.max(0, numberOr(place["y"], 0)), w, h: Math.min(100, Math.max(2, numberOr(place["h"], 8))) },
    queries,
    look: looksOf(panel, notes),
    text: text(options["content"]) || text(panel["content"]),
    repeat: text(panel["repeat"]),
    minStep: text(panel["interval"]),
    notes,
  };
}

/** Notes what changes the meaning of a panel and is not applied. */
function noteRest(panel: Json, notes: string[]): void {
  const transformations = list(panel["transformations"]).map((one) => text(record(one)["id"]));
  if (transformations.length > 0) notes.push(`Transformations are not applied: ${transformations.join(", ")}.`);
  const overrides = list(record(panel["fieldConfig"])["overrides"]);
  if (overrides.length > 0) notes.push(`Overrides of ${overrides.length === 1 ? "a field" : `${overrides.length} fields`} are not applied.`);
  if (text(panel["timeFrom"]) !== "") notes.push(`Its own time range (${text(panel["timeFrom"])}) is not applied.`);
  if (text(panel["timeShift"]) !== "") notes.push(`Its shift of time (${text(panel["timeShift"])}) is not applied.`);
  if (list(panel["links"]).length > 0) notes.push("Links of the panel are not shown.");
}

function queriesOf(panel: Json, sources: Sources, notes: string[]): PanelQuery[] {
  const queries: PanelQuery[] = [];
  const graphite = new Map<string, string>();
  list(panel["targets"]).forEach((given, n) => {
    const target = record(given);
    const letter = text(target["refId"]) || String.fromCharCode(65 + n);
    const body = text(target["expr"]) || text(target["target"]) || text(target["query"]);
    const language = sources.languageOf(target["datasource"] ?? panel["datasource"], target);
    if (language === "graphite") graphite.set(letter, text(target["targetFull"]) || body);
    if (target["hide"] === true) return;
    if (typeof language !== "string") {
      notes.push(`Query ${letter} is not supported: ${language.why}.`);
      return;
    }
    if (body === "") {
      if (panel["datasource"] !== undefined || target["datasource"] !== undefined) notes.push(`Query ${letter} is empty.`);
      return;
    }
    const isInstant = target["instant"] === true ? target["range"] !== true : text(target["queryType"]) === "instant";
    queries.push({ letter, language, text: body, name: nameOf(target), isInstant });
  });
  return queries.map((query) => (query.language === "graphite" ? { ...query, text: joined(query.text, graphite) } : query));
}

function nameOf(target: Json): string {
  const given = text(target["legendFormat"]);
  return given === "__auto" ? "" : given;
}

/** A target in which `#A` stands for the target A. */
function joined(target: string, all: Map<string, string>): string {
  let whole = target;
  for (let depth = 0; depth < 8 && /#[A-Z]\b/.test(whole) && whole.length < 20_000; depth += 1) {
    whole = whole.replace(/#([A-Z])\b/g, (same, letter: string) => all.get(letter) ?? same);
  }
  return whole;
}

export type Found = Language | { why: string };

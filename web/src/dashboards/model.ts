// A dashboard as the page draws it, and the documented JSON of own dashboards (docs/explorer.md).
//
// Invariants: a text of a dashboard has at most `TEXT_MAX` bytes, `PANELS_MAX` panels, `VARIABLES_MAX`
// variables and `QUERIES_MAX` queries in a panel. What exceeds this, and what is not understood, is a note.

import type { Range } from "../frame/time.ts";
import { isGrafana, ofGrafana } from "./grafana.ts";
import { isRecord, list, record, text } from "./json.ts";

export type Language = "promql" | "logql" | "graphite";
export const KINDS = ["lines", "stacked", "stat", "table", "logs", "heatmap", "text"] as const;
export type Kind = (typeof KINDS)[number];

export interface PanelQuery {
  letter: string;
  language: Language;
  text: string;
  /** A template for names of series: `{{label}}`. */
  name: string;
  isInstant: boolean;
}

export interface Look {
  unit: string;
  decimals: number | null;
  /** How the values of a series become one. */
  calculation: string;
  /** Colours from a value on, ascending; the first has no value. */
  thresholds: { from: number; colour: string }[];
  /** Texts shown instead of values. */
  mappings: { from: number; to: number; text: string }[];
}

export interface Panel {
  title: string;
  description: string;
  /** `null`: a panel that is not understood; `reason` says why. */
  kind: Kind | null;
  reason: string;
  /** Column, row, width and height in a grid of 24 columns and rows of 30 pixels. */
  at: { x: number; y: number; w: number; h: number };
  queries: PanelQuery[];
  look: Look;
  text: string;
  /** The variable for whose values the panel is repeated. */
  repeat: string;
  /** The shortest step, such as `1m`. */
  minStep: string;
  notes: string[];
}

export interface Section {
  title: string;
  isClosed: boolean;
  repeat: string;
  panels: Panel[];
}

export interface Variable {
  name: string;
  title: string;
  kind: "query" | "custom" | "interval" | "constant" | "text" | "source";
  language: Language;
  query: string;
  choices: Choice[];
  isSeveral: boolean;
  hasAll: boolean;
  /** What stands for all values in a query; by default all of them. */
  allValue: string;
  /** Selects and shortens the values of a query. */
  regex: string;
  sort: number;
  /** The values that are chosen at first. */
  chosen: string[];
  isHidden: boolean;
  note: string;
}

export interface Choice {
  value: string;
  text: string;
}

export interface Dashboard {
  title: string;
  description: string;
  range: Range | null;
  refresh: string;
  variables: Variable[];
  sections: Section[];
  notes: string[];
}

export const TEXT_MAX = 2 << 20;
export const PANELS_MAX = 400;
export const SECTIONS_MAX = 200;
/** The last row of the grid that a panel may begin at. */
export const ROW_MAX = 20_000;
export const VARIABLES_MAX = 50;
export const QUERIES_MAX = 20;
/** The value of a variable that stands for all. */
export const ALL = "$__all";
const VERSION = 1;

export const PLAIN: Look = { unit: "", decimals: null, calculation: "last", thresholds: [], mappings: [] };

/** Reads a text: an own dashboard, or one of Grafana. Fails with a message for people. */
export function dashboardOf(source: string): Dashboard {
  if (source.length > TEXT_MAX) throw new Error("The text is longer than 2 MiB.");
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (error) {
    throw new Error(`The text is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isRecord(value)) throw new Error("The text is not an object of JSON.");
  const inner = insideOf(value);
  const found = "sandur" in inner ? ofOwn(inner) : isGrafana(inner) ? ofGrafana(inner) : null;
  if (!found) throw new Error("The text is neither a dashboard of this page (member `sandur`) nor one of Grafana (member `panels`).");
  return bounded(found);
}

/** The dashboard in what Grafana's API answers: in `dashboard`, or in `spec` of a resource. */
function insideOf(value: Record<string, unknown>): Record<string, unknown> {
  if (isRecord(value["dashboard"])) return value["dashboard"];
  return isRecord(value["spec"]) && typeof value["apiVersion"] === "string" ? value["spec"] : value;
}

function bounded(dashboard: Dashboard): Dashboard {
  const notes = [...dashboard.notes];
  let room = PANELS_MAX;
  const sections = dashboard.sections.slice(0, SECTIONS_MAX).map((section) => {
    const panels = section.panels.slice(0, Math.max(0, room)).map((panel) => ({ ...panel, at: onGrid(panel.at) }));
    room -= section.panels.length;
    return { ...section, panels };
  });
  if (dashboard.sections.length > SECTIONS_MAX) notes.push(`Only the first ${SECTIONS_MAX} rows are shown.`);
  if (room < 0) notes.push(`Only the first ${PANELS_MAX} panels are shown.`);
  if (dashboard.variables.length > VARIABLES_MAX) notes.push(`Only the first ${VARIABLES_MAX} variables are used.`);
  return { ...dashboard, sections, notes, variables: dashboard.variables.slice(0, VARIABLES_MAX) };
}

/** Whole columns and rows inside of the grid. */
function onGrid({ x, y, w, h }: Panel["at"]): Panel["at"] {
  const within = (value: number, least: number, most: number) => Math.round(Math.min(most, Math.max(least, value)));
  const width = within(w, 1, 24);
  return { x: within(x, 0, 24 - width), y: within(y, 0, ROW_MAX), w: width, h: within(h, 2, 100) };
}

function ofOwn(value: Record<string, unknown>): Dashboard {
  if (value["sandur"] !== VERSION) throw new Error(`The member \`sandur\` is the version of the format; this page reads version ${VERSION}.`);
  const notes: string[] = [];
  const range = record(value["range"]);
  const [from, to] = [text(range["from"]), text(range["to"])];
  let place = { x: 0, y: 0 };
  const panels = list(value["panels"]).map((given, n): Panel => {
    const panel = ownPanel(record(given), n, place);
    place = panel.at.x + panel.at.w >= 24 ? { x: 0, y: panel.at.y + panel.at.h } : { x: panel.at.x + panel.at.w, y: panel.at.y };
    return panel;
  });
  return {
    title: text(value["title"]) || "Dashboard",
    description: text(value["description"]),
    range: from !== "" && to !== "" ? { from, to } : null,
    refresh: text(value["refresh"]),
    variables: list(value["variables"]).map((given) => ownVariable(record(given))),
    sections: [{ title: "", isClosed: false, repeat: "", panels }],
    notes,
  };
}

function languageOf(given: unknown): Language {
  return given === "logql" || given === "graphite" ? given : "promql";
}

function ownPanel(value: Record<string, unknown>, n: number, flow: { x: number; y: number }): Panel {
  const kind = KINDS.find((known) => known === value["kind"]) ?? null;
  const at = list(value["at"]).map(Number);
  const isPlaced = at.length === 4 && at.every((one) => Number.isInteger(one) && one >= 0 && one < 100_000);
  const [x, y, w, h] = isPlaced ? (at as [number, number, number, number]) : [flow.x, flow.y, 12, 8];
  const width = Math.min(24, Math.max(1, w));
  return {
    title: text(value["title"]) || `Panel ${n + 1}`,
    description: text(value["description"]),
    kind,
    reason: kind === null ? `Panels of the kind "${text(value["kind"])}" are not known; known are ${KINDS.join(", ")}.` : "",
    at: { x: Math.min(x, 24 - width), y, w: width, h: Math.min(100, Math.max(2, h)) },
    queries: list(value["queries"]).slice(0, QUERIES_MAX).map((given, place) => {
      const query = record(given);
      return {
        letter: String.fromCharCode(65 + place),
        language: languageOf(query["language"]),
        text: text(query["query"]),
        name: text(query["name"]),
        isInstant: query["instant"] === true,
      };
    }),
    look: { ...PLAIN, unit: text(value["unit"]), calculation: text(value["calculation"]) || "last" },
    text: text(value["text"]),
    repeat: text(value["repeat"]),
    minStep: text(value["step"]),
    notes: [],
  };
}

function ownVariable(value: Record<string, unknown>): Variable {
  const kinds = ["query", "custom", "interval", "constant", "text"] as const;
  const choices = list(value["values"]).map((one) => ({ value: String(one), text: String(one) }));
  const chosen = list(value["chosen"]).map(String);
  return {
    name: text(value["name"]),
    title: text(value["title"]) || text(value["name"]),
    kind: kinds.find((known) => known === value["kind"]) ?? "custom",
    language: languageOf(value["language"]),
    query: text(value["query"]),
    choices,
    isSeveral: value["several"] === true,
    hasAll: value["all"] === true,
    allValue: text(value["allValue"]),
    regex: text(value["regex"]),
    sort: 1,
    chosen: chosen.length > 0 ? chosen : value["all"] === true ? [ALL] : choices.slice(0, 1).map((choice) => choice.value),
    isHidden: false,
    note: "",
  };
}

/** The text of an own dashboard with one more panel. */
export function withPanel(source: string, panel: { title: string; kind: Kind; unit?: string; queries: { language: Language; query: string }[] }): string {
  const value: unknown = JSON.parse(source);
  if (!isRecord(value) || value["sandur"] !== VERSION) throw new Error("Panels can only be added to dashboards of this page.");
  const panels = list(value["panels"]);
  if (panels.length >= PANELS_MAX) throw new Error(`A dashboard has at most ${PANELS_MAX} panels.`);
  return JSON.stringify({ ...value, panels: [...panels, panel] }, null, 2);
}

export function emptyDashboard(title: string): string {
  return JSON.stringify({ sandur: VERSION, title, range: { from: "now-1h", to: "now" }, variables: [], panels: [] }, null, 2);
}

export function isOwn(source: string): boolean {
  try {
    const value: unknown = JSON.parse(source);
    return isRecord(value) && value["sandur"] === VERSION;
  } catch {
    return false;
  }
}

// Rows of a list of lines, made from answers; fields of a line; levels.

import { type Entry, type Labels, type Stream, msOf } from "../api/loki.ts";

export interface Row {
  /** Distinguishes rows of a list; rows of equal content in one answer are one row. */
  id: string;
  ns: string;
  ms: number;
  line: string;
  /** Labels of the stream, shared by its rows. */
  labels: Labels;
  metadata: Labels;
  parsed: Labels;
  level: Level;
}

export const LEVELS = ["critical", "error", "warn", "info", "debug", "trace", "unknown"] as const;
export type Level = (typeof LEVELS)[number];

const SYNONYMS: Record<string, Level> = {
  critical: "critical", crit: "critical", fatal: "critical", emergency: "critical", emerg: "critical",
  alert: "critical", panic: "critical", error: "error", err: "error", eror: "error",
  warn: "warn", warning: "warn", info: "info", information: "info", informational: "info", notice: "info",
  debug: "debug", dbug: "debug", trace: "trace",
};

export function levelOf(name: string | undefined): Level {
  return SYNONYMS[(name ?? "").toLowerCase()] ?? "unknown";
}

const NONE: Labels = {};

function rowOf(stream: string, labels: Labels, [ns, line, more]: Entry): Row {
  const metadata = more?.structuredMetadata ?? NONE;
  const level = metadata["detected_level"] ?? labels["detected_level"] ?? labels["level"];
  return {
    id: `${ns} ${stream} ${line.length} ${hash(line)}`,
    ns,
    ms: msOf(ns),
    line,
    labels,
    metadata,
    parsed: more?.parsed ?? NONE,
    level: levelOf(level),
  };
}

/** FNV-1a over at most 4,096 characters. */
function hash(text: string): number {
  let sum = 0x811c9dc5;
  const end = Math.min(text.length, 4096);
  for (let at = 0; at < end; at += 1) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  return sum >>> 0;
}

/** Compares instants of equal or different numbers of digits. */
export function compareNs(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

/** The rows of an answer, oldest first. Lines of a stream with equal times keep the order of the server. */
export function rowsOf(streams: Stream[], direction: "forward" | "backward" = "forward"): Row[] {
  const rows: Row[] = [];
  for (const { stream, values } of streams) {
    const name = JSON.stringify(stream);
    const key = hash(name).toString(36) + name.length;
    const ordered = direction === "forward" ? values : [...values].reverse();
    for (const entry of ordered) rows.push(rowOf(key, stream, entry));
  }
  return rows.sort((a, b) => compareNs(a.ns, b.ns));
}

export type Origin = "label" | "metadata" | "parsed" | "json" | "logfmt";

export interface Field {
  name: string;
  value: string;
  origin: Origin;
}

/** Longest line whose fields are read here; the server reads longer ones. */
const PARSED_MAX = 64 << 10;
const FIELDS_MAX = 500;

/** All fields of a row; those of JSON and logfmt are named as the stages of LogQL name them. */
export function fieldsOf(row: Row): Field[] {
  const fields: Field[] = [];
  const add = (origin: Origin, labels: Labels) => {
    for (const [name, value] of Object.entries(labels)) fields.push({ name, value, origin });
  };
  add("label", row.labels);
  add("metadata", row.metadata);
  const known = new Set(fields.map((field) => field.name));
  if (Object.keys(row.parsed).length > 0) add("parsed", row.parsed);
  else for (const field of insideOf(row.line)) fields.push(renamed(field, known));
  return fields.slice(0, FIELDS_MAX);
}

function renamed(field: Field, known: Set<string>): Field {
  return known.has(field.name) ? { ...field, name: `${field.name}_extracted` } : field;
}

function insideOf(line: string): Field[] {
  if (line.length > PARSED_MAX) return [];
  const trimmed = line.trim();
  if (trimmed.startsWith("{")) {
    try {
      const fields: Field[] = [];
      flatten(JSON.parse(trimmed), "", fields, 0);
      return fields;
    } catch {
      return [];
    }
  }
  return logfmt(trimmed);
}

function flatten(value: unknown, name: string, fields: Field[], depth: number): void {
  if (fields.length >= FIELDS_MAX || depth > 16 || value === null) return;
  if (Array.isArray(value)) return;
  if (typeof value === "object") {
    for (const [key, inner] of Object.entries(value)) {
      const part = key.replace(/[^A-Za-z0-9_]/g, "_");
      flatten(inner, name === "" ? part.replace(/^(\d)/, "_$1") : `${name}_${part}`, fields, depth + 1);
    }
    return;
  }
  if (name !== "") fields.push({ name, value: String(value), origin: "json" });
}

function logfmt(line: string): Field[] {
  const fields: Field[] = [];
  for (const [, key, quotedValue, plain] of line.matchAll(/(?:^|\s)([A-Za-z_][\w.-]*)=(?:"((?:[^"\\]|\\.)*)"|([^\s"=]*)(?=\s|$))/g)) {
    const value = quotedValue === undefined ? (plain ?? "") : unescaped(quotedValue);
    if (key !== undefined && value !== "") fields.push({ name: key.replace(/[^A-Za-z0-9_]/g, "_"), value, origin: "logfmt" });
    if (fields.length >= FIELDS_MAX) break;
  }
  // One pair may be part of a sentence.
  return fields.length >= 2 ? fields : [];
}

function unescaped(text: string): string {
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return text;
  }
}

/** The value of a column. */
export function columnOf(row: Row, name: string): string {
  const direct = row.parsed[name] ?? row.metadata[name] ?? row.labels[name];
  if (direct !== undefined) return direct;
  return insideOf(row.line).find((field) => field.name === name)?.value ?? "";
}

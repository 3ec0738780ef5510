// Variables in texts: `$name`, `${name}`, `${name:format}`, `[[name]]`, and those of the time range.
//
// Invariants: a value is quoted as the language of the query needs it, so it stays a value. A name that is
// not known stays as it is.

import type { Span } from "../frame/time.ts";
import { length, stepText } from "../frame/time.ts";
import type { Choice, Language } from "./model.ts";

/** A variable with its chosen values. */
export interface Bound {
  values: string[];
  texts: string[];
  /** Whether the variable may have several values; then its values are patterns in PromQL and LogQL. */
  isPattern: boolean;
  /** A text that stands for all values and is not quoted. */
  whole: string | null;
}

export type Scope = ReadonlyMap<string, Bound>;

const VARIABLE = /\$(\w+)|\[\[(\w+?)(?::(\w+))?\]\]|\$\{(\w+)(?:\.[^:^}]+)?(?::([^}]+))?\}/g;
const REFERENCE = new RegExp(VARIABLE.source, "g");
const SCRAPE_MS = 15_000;

/** Names of the variables in a text. */
export function namesIn(text: string): string[] {
  return [...text.matchAll(REFERENCE)].map(([, plain, old, , braced]) => plain ?? old ?? braced ?? "");
}

export function substituted(text: string, scope: Scope, language: Language | "text"): string {
  return text.replace(VARIABLE, (same: string, plain?: string, old?: string, oldFormat?: string, braced?: string, format?: string, at?: number) => {
    const bound = scope.get(plain ?? old ?? braced ?? "");
    if (!bound) return same;
    if (bound.whole !== null) return bound.whole;
    const formatted = inFormat(bound, format ?? oldFormat);
    return formatted ?? inLanguage(isCompared(text.slice(0, at)) ? { ...bound, isPattern: false } : bound, language);
  });
}

/** Whether the place is inside of a string that is compared with `=` or `!=`, where patterns have no meaning. */
function isCompared(before: string): boolean {
  return /[^=!~]\s*!?=\s*["'`][^"'`]*$/.test(before.slice(-400));
}

function inFormat({ values, texts }: Bound, format: string | undefined): string | null {
  switch (format) {
    case "raw":
    case "csv":
      return values.join(",");
    case "pipe":
      return values.join("|");
    case "regex":
      return values.length === 1 ? escaped(values[0] ?? "") : `(${values.map(escaped).join("|")})`;
    case "glob":
      return values.length === 1 ? (values[0] ?? "") : `{${values.join(",")}}`;
    case "text":
      return texts.join(" + ");
    case "json":
      return JSON.stringify(values);
    case "doublequote":
      return values.map((value) => JSON.stringify(value)).join(",");
    case "singlequote":
      return values.map((value) => `'${value.replace(/'/g, "\\'")}'`).join(",");
    case "percentencode":
      return encodeURIComponent(values.join(","));
    default:
      return null;
  }
}

function escaped(value: string): string {
  return value.replace(/[\\^$*+?.()|[\]{}/]/g, "\\$&");
}

function inLanguage({ values, isPattern }: Bound, language: Language | "text"): string {
  if (language === "text") return values.join(", ");
  if (language === "graphite") return values.length === 1 ? (values[0] ?? "") : `{${values.join(",")}}`;
  // The place is inside of a string, in which a backslash is written twice.
  if (!isPattern) return values.map((value) => value.replace(/\\/g, "\\\\").replace(/"/g, '\\"')).join(",");
  const parts = values.map((value) => value.replace(/\\/g, "\\\\\\\\").replace(/"/g, '\\"').replace(/[$^*{}[\]'+?.()|]/g, "\\\\$&"));
  return parts.length === 1 ? (parts[0] ?? "") : `(${parts.join("|")})`;
}

function one(value: string): Bound {
  return { values: [value], texts: [value], isPattern: false, whole: value };
}

/** The variables of the time range and of the step. */
export function withTimes(scope: Scope, span: Span, step: number): Scope {
  const range = span.end - span.start;
  const seconds = Math.max(1, Math.round(range / 1000));
  const rate = Math.max(step + SCRAPE_MS, 4 * SCRAPE_MS);
  const times: [string, string][] = [
    ["__interval", stepText(step)],
    ["__interval_ms", String(step)],
    ["__rate_interval", stepText(rate)],
    ["__auto", stepText(step)],
    ["__range", `${seconds}s`],
    ["__range_s", String(seconds)],
    ["__range_ms", String(Math.round(range))],
    ["__from", String(Math.round(span.start))],
    ["__to", String(Math.round(span.end))],
  ];
  const all = new Map(scope);
  // A variable of intervals may choose the step itself.
  for (const [name, bound] of scope) if (bound.values[0] === "$__auto") all.set(name, one(stepText(step)));
  for (const [name, value] of times) all.set(name, one(value));
  return all;
}

/** A variable with some of its choices. */
export function boundOf(chosen: Choice[], isPattern: boolean, whole: string | null): Bound {
  return { values: chosen.map(({ value }) => value), texts: chosen.map(({ text }) => text), isPattern, whole };
}

/** The scope in which a variable has one of its values, for repeated panels. */
export function withOne(scope: Scope, name: string, value: string): Scope {
  return new Map(scope).set(name, { values: [value], texts: [value], isPattern: scope.get(name)?.isPattern ?? false, whole: null });
}

/** How a step is shown to people. */
export function stepName(step: number): string {
  return length(step);
}

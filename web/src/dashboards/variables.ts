// The choices of the variables of a dashboard, asked from the server, and the values that are chosen.
//
// Invariants: a variable depends only on those before it, so there are no circles. At most `CHOICES_MAX`
// choices are held. A query that fails makes a note, and the variable keeps the values that were given.

import { find } from "../api/graphite.ts";
import * as loki from "../api/loki.ts";
import * as prometheus from "../api/prometheus.ts";
import { isAbort } from "../api/client.ts";
import type { Span } from "../frame/time.ts";
import { nameOf } from "../metrics/frame_data.ts";
import { ALL, type Choice, type Variable } from "./model.ts";
import { type Bound, type Scope, boundOf, namesIn, substituted, withTimes } from "./substitution.ts";

export interface Resolved {
  variable: Variable;
  choices: Choice[];
  /** Chosen values; `ALL` alone if all are chosen. */
  chosen: string[];
  bound: Bound;
  problem: string;
}

export const CHOICES_MAX = 5000;
const STEP_MS = 60_000;

/** Resolves all variables; `given` are the values of the URL. */
export async function resolved(variables: Variable[], given: (name: string) => string[], span: Span, signal: AbortSignal): Promise<Resolved[]> {
  const pending = new Map<string, Promise<Resolved>>();
  for (const variable of variables) {
    const needed = namesIn(variable.query).map((name) => pending.get(name)).filter((one) => one !== undefined);
    pending.set(variable.name, resolvedOne(variable, given(variable.name), needed, span, signal));
  }
  return Promise.all(variables.map(({ name }) => pending.get(name) as Promise<Resolved>));
}

async function resolvedOne(variable: Variable, given: string[], needed: Promise<Resolved>[], span: Span, signal: AbortSignal): Promise<Resolved> {
  const before = new Map((await Promise.all(needed)).map(({ variable: { name }, bound }) => [name, bound]));
  let choices = variable.choices;
  let problem = variable.note;
  if (variable.kind === "query" && variable.query !== "") {
    try {
      const found = await asked(variable, withTimes(before, span, STEP_MS), span, signal);
      choices = selected(found, variable);
      if (choices.length > CHOICES_MAX) problem = `Only ${CHOICES_MAX} of ${choices.length} values are offered.`;
    } catch (error) {
      if (isAbort(error)) throw error;
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  choices = choices.slice(0, CHOICES_MAX);
  const chosen = chosenOf(variable, given, choices);
  return { variable, choices, chosen, bound: bind(variable, chosen, choices), problem };
}

function chosenOf(variable: Variable, given: string[], choices: Choice[]): string[] {
  if (given.length > 0) return given.includes(ALL) ? [ALL] : variable.isSeveral ? given : given.slice(0, 1);
  const kept = variable.chosen.filter((value) => value === ALL || choices.some((choice) => choice.value === value));
  if (variable.kind === "text" || variable.kind === "constant" || variable.kind === "source") return variable.chosen.slice(0, 1);
  if (kept.length > 0) return kept.includes(ALL) ? [ALL] : kept;
  if (variable.hasAll && variable.chosen.length === 0) return [ALL];
  // The values of the file may be those of another installation.
  const first = choices[0]?.value;
  return first === undefined ? variable.chosen.slice(0, 1) : [first];
}

function bind(variable: Variable, chosen: string[], choices: Choice[]): Bound {
  const isPattern = variable.isSeveral || variable.hasAll;
  if (chosen.includes(ALL)) {
    const whole = variable.allValue === "" ? (choices.length === 0 ? ".*" : null) : variable.allValue;
    return boundOf(choices, isPattern, whole);
  }
  const byValue = new Map(choices.map((choice) => [choice.value, choice]));
  const isPlain = ["interval", "constant"].includes(variable.kind);
  const found = chosen.map((value) => byValue.get(value) ?? { value, text: value });
  return boundOf(found, isPattern, isPlain && found[0]?.value !== "$__auto" ? (found[0]?.value ?? "") : null);
}

async function asked(variable: Variable, scope: Scope, span: Span, signal: AbortSignal): Promise<string[]> {
  const query = substituted(variable.query, scope, variable.language).trim();
  if (variable.language === "graphite") return (await find(query, { signal })).map(({ text }) => text);
  const values = /^label_values\(\s*(?:([\s\S]+),\s*)?([^\s,()"{}]+|"[^"]+")\s*\)$/.exec(query);
  if (values) {
    const [selector, label] = [values[1]?.trim() ?? null, (values[2] ?? "").replace(/^"|"$/g, "")];
    if (variable.language === "logql") {
      const bounds = { start: loki.ns(span.start), end: loki.ns(span.end) };
      return loki.labelValues(label, selector, bounds, { signal });
    }
    return prometheus.labelValues(label, selector, span, CHOICES_MAX + 1, { signal });
  }
  if (/^label_names\(.*\)$/.test(query)) {
    const bounds = { start: loki.ns(span.start), end: loki.ns(span.end) };
    return variable.language === "logql" ? loki.labelNames(bounds, { signal }) : prometheus.labelNames(null, span, CHOICES_MAX, { signal });
  }
  const metrics = /^metrics\((.*)\)$/.exec(query);
  if (metrics) {
    const pattern = new RegExp(metrics[1] ?? "");
    return (await prometheus.labelValues("__name__", null, span, 50_000, { signal })).filter((name) => pattern.test(name));
  }
  const expression = /^query_result\(([\s\S]*)\)$/.exec(query);
  if (expression) {
    const { data } = await prometheus.queryInstant(expression[1] ?? "", span.end, { signal });
    if (data.resultType !== "vector") return [];
    return data.result.map(({ metric, value }) => `${nameOf(metric)} ${value?.[1] ?? ""} ${Math.round((value?.[0] ?? 0) * 1000)}`);
  }
  throw new Error(`The query of the variable is not supported: ${query.slice(0, 200)}`);
}

/** Applies the pattern and the order of a variable. */
export function selected(found: string[], variable: Pick<Variable, "regex" | "sort">): Choice[] {
  const pattern = patternOf(variable.regex);
  const choices = new Map<string, Choice>();
  for (const value of found) {
    const matched = pattern === null ? null : pattern.exec(value);
    if (pattern !== null && !matched) continue;
    const groups = matched?.groups;
    const chosen = groups?.["value"] ?? matched?.[1] ?? matched?.[0] ?? value;
    choices.set(chosen, { value: chosen, text: groups?.["text"] ?? chosen });
  }
  return sorted([...choices.values()], variable.sort);
}

function patternOf(text: string): RegExp | null {
  if (text.trim() === "") return null;
  const parts = /^\/([\s\S]*)\/([gimsuy]*)$/.exec(text.trim());
  try {
    return parts ? new RegExp(parts[1] ?? "", (parts[2] ?? "").replace(/[gy]/g, "")) : new RegExp(text);
  } catch {
    throw new Error(`The pattern of the variable is not valid: ${text.slice(0, 100)}`);
  }
}

/** Grafana's orders: 1, 2 by letters, 3, 4 by the first number, 5, 6 without regard to case, 7, 8 natural. */
function sorted(choices: Choice[], sort: number): Choice[] {
  if (sort === 0) return choices;
  const number = ({ text }: Choice) => Number(/\d+(\.\d+)?/.exec(text)?.[0] ?? -1);
  const natural = new Intl.Collator("en", { numeric: sort > 6, sensitivity: sort > 4 ? "accent" : "variant" });
  const ordered = [...choices].sort((a, b) => (sort === 3 || sort === 4 ? number(a) - number(b) : natural.compare(a.text, b.text)));
  return sort % 2 === 0 ? ordered.reverse() : ordered;
}

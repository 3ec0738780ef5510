// Which rules and alerts are shown: by state, kind and text; their numbers by state.

import type { Alert, AlertState, Group, Labels, Rule } from "../api/rules.ts";

/** States of rules by which the page filters; `failing` is a rule whose last evaluation failed. */
export const STATES = ["firing", "pending", "inactive", "failing"] as const;
export type State = (typeof STATES)[number];

export interface Wanted {
  states: ReadonlySet<State>;
  kind: "all" | "alerting" | "recording";
  search: string;
}

export interface FoundAlert {
  alert: Alert;
  rule: Rule;
  group: Group;
}

export interface FoundRule {
  rule: Rule;
  group: Group;
}

function words(search: string): string[] {
  return search.toLowerCase().split(/\s+/).filter((word) => word !== "");
}

function pairs(labels: Labels | undefined): string {
  return Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");
}

/** What is sought in an alert or a rule; it is made once, since a person types letter by letter. */
const sought = new WeakMap<object, string>();

function contains(wanted: string[], of: object, texts: () => string[]): boolean {
  if (wanted.length === 0) return true;
  let text = sought.get(of);
  if (text === undefined) sought.set(of, (text = texts().join(" ").toLowerCase()));
  return wanted.every((word) => text.includes(word));
}

const RANK: Record<AlertState, number> = { firing: 0, pending: 1, inactive: 2 };

/** Alerts that are pending or firing: firing ones first, then those that began last. */
export function alertsOf(groups: Group[], wanted: Wanted): FoundAlert[] {
  const search = words(wanted.search);
  const found: FoundAlert[] = [];
  for (const group of groups) {
    for (const rule of group.rules) {
      for (const alert of rule.alerts ?? []) {
        const isFailing = rule.health === "err" && wanted.states.has("failing");
        if (wanted.states.size > 0 && !wanted.states.has(alert.state) && !isFailing) continue;
        const texts = () => [rule.name, pairs(alert.labels), pairs(alert.annotations), rule.query, group.name, group.file];
        if (contains(search, alert, texts)) found.push({ alert, rule, group });
      }
    }
  }
  return found.sort((a, b) => RANK[a.alert.state] - RANK[b.alert.state] || (timeOf(b.alert.activeAt) ?? 0) - (timeOf(a.alert.activeAt) ?? 0));
}

export function rulesOf(groups: Group[], wanted: Wanted): FoundRule[] {
  const search = words(wanted.search);
  const found: FoundRule[] = [];
  for (const group of groups) {
    for (const rule of group.rules) {
      if (wanted.kind !== "all" && rule.type !== wanted.kind) continue;
      if (wanted.states.size > 0 && !statesOf(rule).some((state) => wanted.states.has(state))) continue;
      const texts = () => [rule.name, rule.query, pairs(rule.labels), pairs(rule.annotations), group.name, group.file, rule.lastError ?? ""];
      if (contains(search, rule, texts)) found.push({ rule, group });
    }
  }
  return found;
}

/** The states that a rule counts for. A recording rule has none but `failing`. */
export function statesOf(rule: Rule): State[] {
  const states: State[] = rule.type === "alerting" ? [rule.state ?? "inactive"] : [];
  return rule.health === "err" ? [...states, "failing"] : states;
}

export function counts(groups: Group[], of: "alerts" | "rules"): Record<State, number> {
  const sums: Record<State, number> = { firing: 0, pending: 0, inactive: 0, failing: 0 };
  for (const { rules } of groups) {
    for (const rule of rules) {
      if (of === "rules") for (const state of statesOf(rule)) sums[state] += 1;
      else for (const { state } of rule.alerts ?? []) sums[state] += 1;
    }
  }
  return sums;
}

/** Milliseconds since 1970; `null` for Go's zero time, which means never. */
export function timeOf(text: string): number | null {
  const at = Date.parse(text);
  return Number.isNaN(at) || at < 0 ? null : at;
}

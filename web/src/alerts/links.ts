// Permalinks to the expression of a rule and to the history of an alert.

import type { Alert, Rule } from "../api/rules.ts";
import { iso } from "../frame/time.ts";
import { type Changes, link } from "../frame/url.ts";
import { timeOf } from "./selection.ts";

/** Time before the beginning of an alert that its links show. */
const BEFORE_MS = 30 * 60_000;

/** The page that shows the expression; `kept` are the parameters that all routes share. */
export function expressionLink(rule: Rule, kept: Changes, alert?: Alert): string {
  if (rule.language === "graphite") return link("graphite", { ...kept, ...rangeOf(alert), target: [rule.query] });
  const route = rule.language === "logql" ? "logs" : "metrics";
  return link(route, { ...kept, ...rangeOf(alert), q: rule.query });
}

/** The states of an alert over time, which the evaluation of rules writes. */
export function historyLink(alert: Alert, kept: Changes): string {
  const pairs = Object.entries(alert.labels).map(([name, value]) => `${labelName(name)}=${JSON.stringify(value)}`);
  return link("metrics", { ...kept, ...rangeOf(alert), q: `ALERTS{${pairs.join(", ")}}` });
}

export function recordedLink(rule: Rule, kept: Changes): string {
  return link("metrics", { ...kept, q: /^[A-Za-z_:][\w:]*$/.test(rule.name) ? rule.name : `{${JSON.stringify(rule.name)}}` });
}

function labelName(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
}

function rangeOf(alert: Alert | undefined): Changes {
  const at = alert ? timeOf(alert.activeAt) : null;
  return at === null ? {} : { from: iso(at - BEFORE_MS), to: "now" };
}

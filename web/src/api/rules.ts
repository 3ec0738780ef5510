// The API of rules: groups with rules, their states and alerts; where alerts are sent.
//
// Invariants: at most `ALERTS_MAX` alerts are held, and what is left out is counted. The list of groups is
// read in parts, and ends after `PARTS_MAX` of them.

import { type Options, json } from "./client.ts";

export type Labels = Record<string, string>;
export type AlertState = "inactive" | "pending" | "firing";

export interface Alert {
  labels: Labels;
  annotations: Labels;
  state: AlertState;
  activeAt: string;
  keepFiringSince?: string;
  value: string;
}

export interface Rule {
  type: "alerting" | "recording";
  name: string;
  query: string;
  language?: string;
  labels?: Labels;
  health: "ok" | "err" | "unknown";
  lastError?: string;
  evaluationTime: number;
  lastEvaluation: string;
  /** Of alerting rules. */
  state?: AlertState;
  duration?: number;
  keepFiringFor?: number;
  annotations?: Labels;
  alerts?: Alert[];
}

export interface Group {
  name: string;
  file: string;
  interval: number;
  limit?: number;
  missedEvaluations?: number;
  evaluationTime: number;
  lastEvaluation: string;
  rules: Rule[];
}

export interface Rules {
  groups: Group[];
  /** Files that are not in use because of an error, and states that other processes did not send. */
  warnings: string[];
  /** Alerts that were answered and are not held. */
  leftOut: number;
  isCut: boolean;
}

export const ALERTS_MAX = 20_000;
const GROUPS_IN_PART = 100;
const PARTS_MAX = 100;

interface Body {
  data?: { groups?: Group[]; groupNextToken?: string };
  warnings?: string[];
}

export async function rules(options: Options = {}): Promise<Rules> {
  const all: Rules = { groups: [], warnings: [], leftOut: 0, isCut: false };
  let held = 0;
  let token: string | null = null;
  for (let part = 0; ; part += 1) {
    const fields: Record<string, string | number | null> = { group_limit: GROUPS_IN_PART, group_next_token: token };
    const { body }: { body: Body } = await json<Body>("api/v1/rules", fields, options);
    for (const group of body.data?.groups ?? []) {
      group.rules ??= [];
      for (const rule of group.rules) {
        const given = rule.alerts ?? [];
        const kept = Math.min(given.length, ALERTS_MAX - held);
        all.leftOut += given.length - kept;
        held += kept;
        if (rule.alerts) rule.alerts = given.slice(0, kept);
      }
      all.groups.push(group);
    }
    all.warnings = [...new Set([...all.warnings, ...(body.warnings ?? [])])];
    const next: string | null = body.data?.groupNextToken ?? null;
    if (next === null || next === "" || next === token) return all;
    if (part + 1 >= PARTS_MAX) return { ...all, isCut: true };
    token = next;
  }
}

export interface Alertmanager {
  url: string;
  queued?: number;
  lastError?: string | null;
}

/** A webhook or a mailbox that is told about groups of alerts. */
export interface Receiver {
  kind: string;
  name: string;
  alerts: number;
  lastError?: string | null;
}

export interface Destinations {
  managers: Alertmanager[];
  receivers: Receiver[];
}

/** Where alerts are sent. */
export async function destinations(options?: Options): Promise<Destinations> {
  type Answer = { data?: { activeAlertmanagers?: Alertmanager[]; receivers?: Receiver[] } };
  const { data } = (await json<Answer>("api/v1/alertmanagers", {}, options)).body;
  return { managers: data?.activeAlertmanagers ?? [], receivers: data?.receivers ?? [] };
}

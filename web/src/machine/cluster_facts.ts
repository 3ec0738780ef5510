// What a report of nodes means: what is wrong, and texts of its values.

import type { ClusterNode, ClusterReport } from "../api/machine.ts";
import { plural } from "../frame/text.ts";
import { length } from "../frame/time.ts";

const ROLES = ["ingest", "query", "compact", "cache", "rules"];
/** Rows that are known to be older than this are marked; 10 s are the default bound of answers. */
const ROWS_AGE_MS = 10_000;

/** The most sentences, and the most versions in one of them. */
const TROUBLES_MAX = 20;
const VERSIONS_MAX = 5;

export interface Trouble {
  text: string;
}

export function rolesOf(node: ClusterNode): string {
  return ROLES.every((role) => node.roles.includes(role)) ? "all" : node.roles.join(", ") || "none";
}

/** How long ago something was; the page is not exact to a millisecond. */
export function ago(ms: number): string {
  return ms < 1 ? "now" : `${length(ms)} ago`;
}

export function dollars(value: number): string {
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: value !== 0 && value < 0.1 ? 4 : 2 })}`;
}

/** Whether the process that answers knows the rows of the node. */
export function isFresh(node: ClusterNode): boolean {
  return node.rows_missing === null && node.rows_age_ms !== null && node.rows_age_ms <= ROWS_AGE_MS;
}

/** What an operator has to know, in at most `TROUBLES_MAX` sentences and one that counts the others. */
export function troubles(report: ClusterReport): Trouble[] {
  const found: string[] = [];
  if (report.held) found.push("Fewer than half of the nodes seem to be alive: the last known nodes keep their work.");
  for (const role of report.unowned_roles) found.push(`No live node has the role ${role}: its work waits.`);
  const versions = [...new Set(report.nodes.map(({ version }) => version).filter((version) => version !== ""))];
  if (versions.length > 1) found.push(`The nodes run different versions: ${versions.slice(0, VERSIONS_MAX).join(", ")}${versions.length > VERSIONS_MAX ? ", and others" : ""}.`);
  for (const node of report.nodes) {
    if (node.rows_missing !== null) found.push(`Rows of ${node.id} may be missing from answers: ${node.rows_missing}`);
    if (node.unanswered !== null) found.push(`${node.id} did not answer: ${node.unanswered}.`);
  }
  const different = [...new Set(found)];
  const shown = different.slice(0, TROUBLES_MAX);
  if (different.length > shown.length) shown.push(`There are ${plural(different.length - shown.length, "further warning")}; the table has the nodes.`);
  return shown.map((text) => ({ text }));
}

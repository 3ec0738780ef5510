// Dashboards that this browser keeps.
//
// Invariants: a dashboard is kept as the text that a person gave, at most `TEXT_MAX` characters of it. The
// list and the texts are separate entries; a text without an entry in the list is not shown.

import { TEXT_MAX, dashboardOf } from "./model.ts";

export interface Kept {
  id: string;
  title: string;
  changed: number;
}

const LIST = "sandur.dashboards";
const PREFIX = "sandur.dashboard.";
const KEPT_MAX = 200;

export function keptDashboards(): Kept[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(LIST) ?? "[]");
    if (!Array.isArray(value)) return [];
    return value.filter((one): one is Kept => typeof one?.id === "string" && typeof one.title === "string" && typeof one.changed === "number");
  } catch {
    return []; // Browsers that block storage throw.
  }
}

export function keptText(id: string): string | null {
  try {
    return localStorage.getItem(PREFIX + id);
  } catch {
    return null;
  }
}

/** Keeps a text as a new dashboard or in place of one. Returns its id; fails with a message for people. */
export function keep(source: string, id: string = freshId()): string {
  if (source.length > TEXT_MAX) throw new Error("The text is longer than 2 MiB.");
  const { title } = dashboardOf(source);
  const others = keptDashboards().filter((one) => one.id !== id);
  if (others.length >= KEPT_MAX) throw new Error(`This browser keeps at most ${KEPT_MAX} dashboards. Remove one first.`);
  try {
    localStorage.setItem(PREFIX + id, source);
    localStorage.setItem(LIST, JSON.stringify([...others, { id, title, changed: Date.now() }]));
  } catch {
    throw new Error("The browser has no room for the dashboard, or does not permit the page to keep data.");
  }
  return id;
}

export function remove(id: string): void {
  try {
    localStorage.setItem(LIST, JSON.stringify(keptDashboards().filter((one) => one.id !== id)));
    localStorage.removeItem(PREFIX + id);
  } catch {
    // Nothing is kept.
  }
}

function freshId(): string {
  const parts = crypto.getRandomValues(new Uint8Array(6));
  return [...parts].map((part) => (part % 36).toString(36)).join("") + Date.now().toString(36);
}

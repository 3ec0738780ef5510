// Groups of the histogram: levels with fixed colours and places, or the values of any field.

import type { Series } from "../api/loki.ts";
import { LEVELS, levelOf } from "./rows.ts";

export interface Group {
  name: string;
  /** A variable of the style sheet. */
  colour: string;
  total: number;
  /** Lines of each bar. */
  counts: number[];
}

export interface Bars {
  /** End of the first bar, in milliseconds. */
  first: number;
  step: number;
  groups: Group[];
  total: number;
  /** Largest sum of a bar. */
  most: number;
}

/** Groups that get a colour of their own. */
export const GROUPS_MAX = 8;

/** Bars of series with the label `by`. With `all`, the number of all lines, what the series lack is a group. */
export function barsOf(series: Series[], by: string, first: number, last: number, step: number, all: Series[] = []): Bars {
  const bars = Math.max(1, Math.round((last - first) / step) + 1);
  const groups = new Map<string, Group>();
  for (const { metric, values } of series) {
    const value = metric[by] ?? "";
    const name = by === "detected_level" ? levelOf(value) : value === "" ? "(none)" : value;
    let group = groups.get(name);
    if (!group) {
      group = { name, colour: "", total: 0, counts: new Array<number>(bars).fill(0) };
      groups.set(name, group);
    }
    for (const [seconds, text] of values ?? []) {
      const bar = Math.round((seconds * 1000 - first) / step);
      const count = Number(text);
      if (bar < 0 || bar >= bars || !Number.isFinite(count)) continue;
      group.counts[bar] = (group.counts[bar] ?? 0) + count;
      group.total += count;
    }
  }
  const ordered = by === "detected_level" ? byLevel(groups) : [...bySize([...groups.values()]), ...restOf(groups, all, first, step, bars)];
  let most = 0;
  for (let bar = 0; bar < bars; bar += 1) {
    most = Math.max(most, ordered.reduce((sum, group) => sum + (group.counts[bar] ?? 0), 0));
  }
  return { first, step, groups: ordered, most, total: ordered.reduce((sum, group) => sum + group.total, 0) };
}

function byLevel(groups: Map<string, Group>): Group[] {
  return LEVELS.flatMap((level) => {
    const group = groups.get(level);
    return group && group.total > 0 ? [{ ...group, colour: `var(--level-${level})` }] : [];
  });
}

function bySize(groups: Group[]): Group[] {
  const sorted = groups.filter((group) => group.total > 0).sort((a, b) => b.total - a.total);
  return sorted.map((group, n) => ({ ...group, colour: `var(--series-${n % 12})` }));
}

/** The lines that are in no group. */
function restOf(groups: Map<string, Group>, all: Series[], first: number, step: number, bars: number): Group[] {
  const rest: Group = { name: "others", colour: "var(--level-unknown)", total: 0, counts: new Array<number>(bars).fill(0) };
  for (const [seconds, text] of all[0]?.values ?? []) {
    const bar = Math.round((seconds * 1000 - first) / step);
    if (bar < 0 || bar >= bars) continue;
    const known = [...groups.values()].reduce((sum, group) => sum + (group.counts[bar] ?? 0), 0);
    // Lines may arrive between the two queries.
    const count = Math.max(0, (Number(text) || 0) - known);
    rest.counts[bar] = count;
    rest.total += count;
  }
  return rest.total > 0 ? [rest] : [];
}

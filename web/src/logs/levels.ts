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
const GROUPS_MAX = 8;

export function barsOf(series: Series[], by: string, first: number, last: number, step: number): Bars {
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
  const ordered = by === "detected_level" ? byLevel(groups) : bySize([...groups.values()], bars);
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

/** The largest groups; the others are one. */
function bySize(groups: Group[], bars: number): Group[] {
  const sorted = groups.filter((group) => group.total > 0).sort((a, b) => b.total - a.total);
  const shown = sorted.slice(0, GROUPS_MAX).map((group, n) => ({ ...group, colour: `var(--series-${n})` }));
  const rest = sorted.slice(GROUPS_MAX);
  if (rest.length === 0) return shown;
  const others: Group = { name: `${rest.length} others`, colour: "var(--level-unknown)", total: 0, counts: new Array<number>(bars).fill(0) };
  for (const group of rest) {
    others.total += group.total;
    group.counts.forEach((count, bar) => (others.counts[bar] = (others.counts[bar] ?? 0) + count));
  }
  return [...shown, others];
}

// Series of an answer as columns for a plot: one list of times, a list of values for each series.
//
// Invariants: at most `DRAWN_MAX` series are drawn, those with the largest values; the others are listed
// and can be chosen. Gaps stay gaps.

import type { Labels } from "../api/prometheus.ts";

export type Value = number | null | undefined;

export interface Plotted {
  labels: Labels;
  name: string;
  /** Place in the answer, which decides the colour. */
  place: number;
  /** `null` is a gap; `undefined` is a time at which this series has no step of its own. */
  values: Value[];
  last: number | null;
  min: number;
  max: number;
  mean: number;
}

export interface Columns {
  /** Seconds. */
  times: number[];
  series: Plotted[];
}

export const DRAWN_MAX = 200;

export interface InputSeries {
  metric: Labels;
  values?: [number, string | number | null][];
  /** A name to show instead of the labels. */
  title?: string;
  /** Whether the series has a longer step than the others; its gaps are values `null`. */
  isSparse?: boolean;
}

/** `name{label="value"}`. */
export function nameOf(labels: Labels): string {
  const { __name__: name, ...others } = labels;
  const pairs = Object.entries(others).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return pairs.length === 0 ? (name ?? "{}") : `${name ?? ""}{${pairs.join(", ")}}`;
}

export function columnsOf(input: InputSeries[], start: number, end: number, step: number): Columns {
  const first = Math.floor(start / step) * step;
  const count = Math.max(1, Math.floor((end - first) / step) + 1);
  const times = Array.from({ length: count }, (_, n) => (first + n * step) / 1000);
  // Answers begin at their own start, so times are rounded to the nearest step.
  const series = input.map(({ metric, values, title, isSparse }, place): Plotted => {
    const column = new Array<Value>(count).fill(isSparse ? undefined : null);
    let [sum, points, min, max] = [0, 0, Infinity, -Infinity];
    let last: number | null = null;
    for (const [seconds, text] of values ?? []) {
      const at = Math.round((seconds * 1000 - first) / step);
      const value = text === null ? NaN : Number(text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : text);
      if (at < 0 || at >= count) continue;
      column[at] = Number.isFinite(value) ? value : null;
      if (!Number.isFinite(value)) continue;
      last = value;
      sum += value;
      points += 1;
      min = Math.min(min, value);
      max = Math.max(max, value);
    }
    const mean = points === 0 ? NaN : sum / points;
    return { labels: metric, name: title ?? nameOf(metric), place, values: column, last, min, max, mean };
  });
  return { times, series };
}

/** The series that are drawn: the chosen ones, or those with the largest values. */
export function drawnOf(series: Plotted[], chosen: ReadonlySet<number>): Plotted[] {
  const candidates = chosen.size > 0 ? series.filter(({ place }) => chosen.has(place)) : series;
  if (candidates.length <= DRAWN_MAX) return candidates;
  const size = ({ max, min }: Plotted) => Math.max(Math.abs(max), Math.abs(min)) || 0;
  const largest = [...candidates].sort((a, b) => size(b) - size(a)).slice(0, DRAWN_MAX);
  return largest.sort((a, b) => a.place - b.place);
}

/** Sums of each series with those before it. */
export function stacked(series: Plotted[]): Value[][] {
  const sums: number[] = [];
  return series.map(({ values }) =>
    values.map((value, n) => {
      // A time without any value so far stays a gap.
      if (typeof value === "number") sums[n] = (sums[n] ?? 0) + value;
      return sums[n] ?? null;
    }),
  );
}

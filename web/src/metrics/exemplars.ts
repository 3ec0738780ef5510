// Exemplars of the series that queries select, as marks of a plot.
//
// Invariant: at most `MARKS_MAX` marks, the newest; what is left out is counted.

import type { Labels, SeriesExemplars } from "../api/prometheus.ts";
import { nameOf } from "./frame_data.ts";

export interface Mark {
  /** Milliseconds since 1970. */
  at: number;
  value: number;
  series: string;
  labels: Labels;
}

export interface Marks {
  marks: Mark[];
  leftOut: number;
}

export const MARKS_MAX = 2000;

/** The newest first. */
export function marksOf(all: SeriesExemplars[]): Marks {
  const marks: Mark[] = [];
  const seen = new Set<string>();
  for (const { seriesLabels, exemplars } of all) {
    const series = nameOf(seriesLabels);
    for (const { labels, value, timestamp } of exemplars) {
      // Two queries may select the same series.
      const key = `${series} ${timestamp} ${value} ${JSON.stringify(labels)}`;
      if (seen.has(key)) continue;
      seen.add(key);
      marks.push({ at: timestamp * 1000, value: Number(value), series, labels });
    }
  }
  marks.sort((a, b) => b.at - a.at);
  return { marks: marks.slice(0, MARKS_MAX), leftOut: Math.max(0, marks.length - MARKS_MAX) };
}

/** The mark within some pixels of a place; `place` gives the pixels of a mark. */
export function nearest(marks: readonly Mark[], left: number, top: number, place: (mark: Mark) => [number, number], within = 10): Mark | null {
  let found: Mark | null = null;
  let best = within;
  for (const mark of marks) {
    const [x, y] = place(mark);
    const distance = Math.hypot(x - left, y - top);
    if (distance < best) [best, found] = [distance, mark];
  }
  return found;
}

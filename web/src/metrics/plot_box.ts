// A box over a plot: times, and values if the box does not have the height of the plot.

import type { Span } from "../frame/time.ts";

export interface PlotBox extends Span {
  /** `null`: no bound. */
  min: number | null;
  max: number | null;
}

/** A box of the URL: `FROM,TO` in milliseconds since 1970, and maybe `,MIN,MAX`; `null` if it is none or outside of the range. */
export function plotBoxOf(text: string | null, range: Span): PlotBox | null {
  const parts = (text ?? "").split(",");
  if (parts.length !== 2 && parts.length !== 4) return null;
  if (!parts.slice(0, 2).every((part) => /^\d{9,16}$/.test(part))) return null;
  const start = Math.max(range.start, Number(parts[0]));
  const end = Math.min(range.end, Number(parts[1]));
  const [min, max] = [bound(parts[2]), bound(parts[3])];
  if (!(start < end) || min === undefined || max === undefined) return null;
  return min !== null && max !== null && min > max ? null : { start, end, min, max };
}

/** A bound of values; `null` if there is none, `undefined` if the text is no number. */
export function bound(text: string | undefined): number | null | undefined {
  const trimmed = (text ?? "").trim();
  if (trimmed === "") return null;
  const value = Number(trimmed);
  return Number.isFinite(value) ? value : undefined;
}

export function boxText({ start, end, min, max }: PlotBox): string {
  const times = `${Math.floor(start)},${Math.ceil(end)}`;
  return min === null && max === null ? times : `${times},${min ?? ""},${max ?? ""}`;
}

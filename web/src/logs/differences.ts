// What differs between the lines inside a box of time and the others: shares of the values of each field.
//
// Invariants: a field has at most `VALUES_MAX` values on each side. If a side has more, counts that are not
// known are taken at their bound in the direction that makes the difference smaller, and the field is marked
// with that bound. A difference counts only if chance is an unlikely reason for it.

export const VALUES_MAX = 200;
/** Deviations beyond which a difference of shares is regarded as real; noise exceeds it in 1 of 370 values. */
const DEVIATIONS = 3;

/** Lines by value: the most frequent ones, at most `VALUES_MAX`. */
export type Counts = ReadonlyMap<string, number>;

export interface Totals {
  inside: number;
  /** All lines of the range, those inside included. */
  whole: number;
}

export interface Difference {
  value: string;
  inside: number;
  outside: number;
  insideShare: number;
  outsideShare: number;
  /** Share inside minus share outside. */
  difference: number;
}

export interface FieldDifference {
  /** The largest difference of a value that is no chance; 0 if there is none. */
  score: number;
  /** Values whose difference is no chance, the largest difference first. */
  values: Difference[];
  isExact: boolean;
  /** Largest error of a share if not exact. */
  error: number;
}

export function compared(inside: Counts, whole: Counts, totals: Totals): FieldDifference {
  const outsideTotal = totals.whole - totals.inside;
  const isCut = { inside: inside.size >= VALUES_MAX, whole: whole.size >= VALUES_MAX };
  const least = { inside: isCut.inside ? Math.min(...inside.values()) : 0, whole: isCut.whole ? Math.min(...whole.values()) : 0 };
  const values: Difference[] = [];
  if (totals.inside > 0 && outsideTotal > 0) {
    for (const value of new Set([...inside.keys(), ...whole.keys()])) {
      const all = whole.get(value) ?? Math.max(least.whole, inside.get(value) ?? 0);
      const within = Math.min(all, inside.get(value) ?? Math.min(least.inside, all));
      const one = differenceOf(value, within, all - within, totals.inside, outsideTotal);
      if (isReal(one, totals.inside, outsideTotal)) values.push(one);
    }
  }
  values.sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || (a.value < b.value ? -1 : 1));
  const error = Math.max(least.inside / Math.max(1, totals.inside), least.whole / Math.max(1, outsideTotal));
  return { score: Math.abs(values[0]?.difference ?? 0), values, isExact: !isCut.inside && !isCut.whole, error };
}

function differenceOf(value: string, inside: number, outside: number, insideTotal: number, outsideTotal: number): Difference {
  const [insideShare, outsideShare] = [inside / insideTotal, outside / outsideTotal];
  return { value, inside, outside, insideShare, outsideShare, difference: insideShare - outsideShare };
}

/** Whether two shares differ by more than samples of their sizes do by chance. */
function isReal({ inside, outside, difference }: Difference, insideTotal: number, outsideTotal: number): boolean {
  const share = (inside + outside) / (insideTotal + outsideTotal);
  const deviation = Math.sqrt(share * (1 - share) * (1 / insideTotal + 1 / outsideTotal));
  // A share of 0 or 1 on both sides is no difference.
  return deviation > 0 && Math.abs(difference) > DEVIATIONS * deviation;
}

/** A box of the URL, `from,to` in milliseconds; `null` if it is none or outside of the range. */
export function boxOf(text: string | null, range: { start: number; end: number }): { start: number; end: number } | null {
  const parts = /^(\d{9,16}),(\d{9,16})$/.exec(text ?? "");
  if (!parts) return null;
  // Windows of LogQL have whole seconds.
  const start = Math.max(Math.floor(range.start / 1000) * 1000, Math.floor(Number(parts[1]) / 1000) * 1000);
  const end = Math.min(Math.ceil(range.end / 1000) * 1000, Math.ceil(Number(parts[2]) / 1000) * 1000);
  return start < end ? { start, end } : null;
}

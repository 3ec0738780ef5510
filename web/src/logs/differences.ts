// The box of the view of differences in the URL.

/** A box, `from,to` in milliseconds; `null` if it is none or outside of the range. */
export function boxOf(text: string | null, range: { start: number; end: number }): { start: number; end: number } | null {
  const parts = /^(\d{9,16}),(\d{9,16})$/.exec(text ?? "");
  if (!parts) return null;
  const start = Math.max(range.start, Number(parts[1]));
  const end = Math.min(range.end, Number(parts[2]));
  return start < end ? { start, end } : null;
}

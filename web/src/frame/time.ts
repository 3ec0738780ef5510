// Times and ranges: text forms in the URL, conversion between time zones, and formats.
//
// Instants are milliseconds since 1970. Nanoseconds of log lines stay decimal strings, because a number
// cannot hold them.

export interface Range {
  from: string;
  to: string;
}

/** A range as instants in milliseconds. */
export interface Span {
  start: number;
  end: number;
}

const UNIT_MS: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_536_000_000,
};

export const RELATIVE_RANGES: [string, string][] = [
  ["5m", "5 minutes"],
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["3h", "3 hours"],
  ["6h", "6 hours"],
  ["12h", "12 hours"],
  ["1d", "24 hours"],
  ["2d", "2 days"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["90d", "90 days"],
];

/** Milliseconds of a duration like `1h30m`; `null` if the text is none. */
export function duration(text: string): number | null {
  if (!/^(\d+(\.\d+)?(ms|[smhdwy]))+$/.test(text)) return null;
  let sum = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdwy])/g)) {
    sum += Number(amount) * (UNIT_MS[unit ?? ""] ?? 0);
  }
  return sum;
}

/** The instant of `now`, `now-1h`, a time since 1970, RFC 3339, or a date and a time in the zone. */
export function instant(text: string, now: number, zone: string): number | null {
  const trimmed = text.trim();
  const relative = /^now(?:\s*([-+])\s*(\S+))?$/.exec(trimmed);
  if (relative) {
    const shift = relative[2] === undefined ? 0 : duration(relative[2]);
    return shift === null ? null : now + (relative[1] === "-" ? -shift : shift);
  }
  if (/^\d{9,19}$/.test(trimmed)) {
    const digits = trimmed.length;
    const number = Number(trimmed);
    if (digits <= 10) return number * 1000;
    return digits <= 13 ? number : Math.floor(number / 10 ** (digits - 13));
  }
  const parts = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?)?\s*(Z|[-+]\d\d:?\d\d)?$/i.exec(trimmed);
  if (!parts) return null;
  const number = (n: number) => Number(parts[n] ?? 0);
  const wall = Date.UTC(number(1), number(2) - 1, number(3), number(4), number(5), number(6)) +
    Math.floor(number(7) * 1000);
  if (new Date(wall).getUTCDate() !== number(3) || number(2) < 1 || number(2) > 12) return null;
  const offset = parts[8];
  if (offset === undefined) return fromWall(wall, zone);
  if (/z/i.test(offset)) return wall;
  const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(-2));
  return wall - (offset.startsWith("-") ? -1 : 1) * minutes * 60_000;
}

/** The instants of a range; the last hour if it is invalid. */
export function span(range: Range, now: number, zone: string): Span {
  const start = instant(range.from, now, zone);
  const end = instant(range.to, now, zone);
  if (start === null || end === null || start >= end) return { start: now - 3_600_000, end: now };
  return { start, end };
}

export function isRelative(range: Range): boolean {
  return range.from.startsWith("now") || range.to.startsWith("now");
}

/** An instant for the URL. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

const formats = new Map<string, Intl.DateTimeFormat>();
const offsets = new Map<string, number>();

/** The browser's own time zone. */
export const LOCAL = "local";

export function zoneName(zone: string): string {
  return zone === LOCAL ? Intl.DateTimeFormat().resolvedOptions().timeZone : zone;
}

export function isZone(zone: string): boolean {
  if (zone === LOCAL) return true;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds that the zone is ahead of UTC at an instant. Zones change at quarters of an hour only. */
export function offset(ms: number, zone: string): number {
  if (zone === "UTC") return 0;
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.6e15) return 0;
  const quarter = Math.floor(ms / 900_000);
  const key = `${zone} ${quarter}`;
  const known = offsets.get(key);
  if (known !== undefined) return known;
  const at = quarter * 900_000;
  const ahead = zone === LOCAL ? -new Date(at).getTimezoneOffset() * 60_000 : computedOffset(at, zone);
  if (offsets.size > 5000) offsets.clear();
  offsets.set(key, ahead);
  return ahead;
}

function computedOffset(ms: number, zone: string): number {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(zone, format);
  }
  const parts: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(ms)) parts[type] = Number(value);
  const part = (name: string) => parts[name] ?? 0;
  return Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"), part("second")) -
    Math.floor(ms / 1000) * 1000;
}

/** The instant at which clocks of the zone show this date and time. */
function fromWall(wall: number, zone: string): number {
  const first = wall - offset(wall, zone);
  return wall - offset(first, zone);
}

function shifted(ms: number, zone: string): string {
  const date = new Date(ms + offset(ms, zone));
  return Number.isNaN(date.getTime()) ? "0000-00-00T00:00:00.000Z" : date.toISOString();
}

/** `2026-11-29 16:04:05`. */
export function dateTime(ms: number, zone: string): string {
  return shifted(ms, zone).slice(0, 19).replace("T", " ");
}

/** `2026-11-29 16:04:05.123`. */
export function exact(ms: number, zone: string): string {
  return shifted(ms, zone).slice(0, 23).replace("T", " ");
}

/** The date and the time of a line, apart, so that a narrow list can leave out the date. */
export function shortParts(ms: number, zone: string): [string, string] {
  const text = shifted(ms, zone);
  return [text.slice(5, 10), text.slice(11, 23)];
}

/** A label of a time axis: as much of the time as distinguishes neighbours. */
export function axisLabel(ms: number, stepMs: number, zone: string): string {
  const text = shifted(ms, zone);
  const clock = text.slice(11, 16);
  if (stepMs < 1000) return text.slice(11, 23);
  if (stepMs < 60_000) return text.slice(11, 19);
  if (stepMs < 86_400_000) return clock === "00:00" ? text.slice(5, 10) : clock;
  return text.slice(5, 10);
}

/** `+02:00`, `UTC`. */
export function offsetName(ms: number, zone: string): string {
  const minutes = Math.round(offset(ms, zone) / 60_000);
  if (minutes === 0) return "UTC";
  const of = Math.abs(minutes);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(of / 60))}:${two(of % 60)}`;
}

/** A range as a person reads it. */
export function rangeName(range: Range, zone: string): string {
  const relative = /^now-(\w+)$/.exec(range.from);
  if (relative && range.to === "now") {
    const known = RELATIVE_RANGES.find(([text]) => text === relative[1]);
    return `Last ${known?.[1] ?? relative[1]}`;
  }
  const name = (text: string) => {
    const at = instant(text, 0, zone);
    return text.startsWith("now") || at === null ? text : dateTime(at, zone);
  };
  const [from, to] = [name(range.from), name(range.to)];
  const sameDay = from.slice(0, 10) === to.slice(0, 10) && /^\d/.test(from);
  return `${from} to ${sameDay ? to.slice(11) : to}`;
}

/** A length of time with one or two units. */
export function length(ms: number): string {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${Number((ms / 1000).toFixed(ms < 10_000 ? 2 : 1))} s`;
  const units: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];
  const first = units.findIndex(([, size]) => ms >= size);
  const [name, size] = units[first] ?? ["s", 1000];
  const whole = Math.floor(ms / size);
  const next = units[first + 1];
  const rest = next ? Math.floor((ms - whole * size) / next[1]) : 0;
  return rest > 0 && next ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
}

/** A step that divides clocks evenly and gives about `count` steps. */
export function niceStep(range: Span, count: number): number {
  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
  const wanted = (range.end - range.start) / count / 1000;
  const found = seconds.find((step) => step >= wanted);
  return (found ?? Math.ceil(wanted / 86_400) * 86_400) * 1000;
}

/** A step for a query: `30s`, `5m`. */
export function stepText(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

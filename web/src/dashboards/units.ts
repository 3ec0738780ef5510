// Values with units, by the names that Grafana uses.

import { bytes, number } from "../frame/text.ts";
import { length } from "../frame/time.ts";

type Shown = (value: number) => string;

const suffixed = (suffix: string): Shown => (value) => `${number(value)} ${suffix}`;
const scaled = (factor: number, shown: Shown): Shown => (value) => shown(value * factor);
const time = (factor: number): Shown => (value) => `${value < 0 ? "-" : ""}${value === 0 ? "0 s" : length(Math.abs(value) * factor)}`;
const size: Shown = (value) => `${value < 0 ? "-" : ""}${bytes(Math.abs(value))}`;

const UNITS: Record<string, Shown> = {
  "": number, none: number, short: number, sishort: number, locale: (value) => value.toLocaleString("en-US"), string: number,
  bytes: size, decbytes: size, bits: suffixed("bit"), decbits: suffixed("bit"),
  kbytes: scaled(1024, size), mbytes: scaled(1024 ** 2, size), gbytes: scaled(1024 ** 3, size),
  deckbytes: scaled(1000, size), decmbytes: scaled(1e6, size), decgbytes: scaled(1e9, size),
  Bps: (value) => `${size(value)}/s`, binBps: (value) => `${size(value)}/s`, bps: suffixed("bit/s"), binbps: suffixed("bit/s"),
  KBs: (value) => `${size(value * 1000)}/s`, KiBs: (value) => `${size(value * 1024)}/s`, MBs: (value) => `${size(value * 1e6)}/s`, MiBs: (value) => `${size(value * 1024 ** 2)}/s`,
  pps: suffixed("packets/s"), ns: time(1e-6), "µs": time(1e-3), us: time(1e-3), ms: time(1), s: time(1000), m: time(60_000), h: time(3_600_000), d: time(86_400_000),
  dtdurations: time(1000), dtdurationms: time(1), clocks: time(1000), clockms: time(1), timeticks: time(10),
  percent: (value) => `${Number(value.toPrecision(4))} %`, percentunit: (value) => `${Number((value * 100).toPrecision(4))} %`,
  reqps: suffixed("req/s"), ops: suffixed("ops/s"), cps: suffixed("/s"), rps: suffixed("reads/s"), wps: suffixed("writes/s"), iops: suffixed("io/s"), eps: suffixed("events/s"), mps: suffixed("messages/s"),
  opm: suffixed("ops/min"), rpm: suffixed("reads/min"), wpm: suffixed("writes/min"), cpm: suffixed("/min"), reqpm: suffixed("req/min"),
  hertz: suffixed("Hz"), rothz: suffixed("Hz"), celsius: suffixed("°C"), fahrenheit: suffixed("°F"), humidity: suffixed("% RH"),
  volt: suffixed("V"), amp: suffixed("A"), watt: suffixed("W"), kwatt: suffixed("kW"), watth: suffixed("Wh"), joule: suffixed("J"), dB: suffixed("dB"), rotrpm: suffixed("rpm"),
  bool: (value) => (value === 0 ? "false" : "true"), bool_yes_no: (value) => (value === 0 ? "no" : "yes"), bool_on_off: (value) => (value === 0 ? "off" : "on"),
  currencyUSD: (value) => `$ ${number(value)}`, currencyEUR: (value) => `€ ${number(value)}`, currencyGBP: (value) => `£ ${number(value)}`,
  dateTimeAsIso: (value) => (Math.abs(value) < 8.6e15 ? new Date(value).toISOString() : number(value)), dateTimeFromNow: (value) => `${length(Math.abs(Date.now() - value))} ago`,
};

export function isUnit(unit: string): boolean {
  return Object.hasOwn(UNITS, unit) || /^(suffix|prefix|si|count|time):/.test(unit);
}

/** How values of a unit are shown; a unit that is not known is a plain number. */
export function shownIn(unit: string, decimals: number | null): Shown {
  const fixed: Shown = decimals === null ? number : (value) => value.toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: Math.min(decimals, 3) });
  const affix = /^(suffix|prefix|si|count):(.*)$/.exec(unit);
  if (affix) return (value) => (affix[1] === "prefix" ? `${affix[2]} ${fixed(value)}` : `${fixed(value)} ${affix[2]}`);
  const shown = Object.hasOwn(UNITS, unit) ? (UNITS[unit] as Shown) : number;
  const safe: Shown = (value) => (Number.isFinite(value) ? shown(value) : number(value));
  return shown === number && decimals !== null ? fixed : safe;
}

// Text of unknown origin as text that a person can see: control characters, marks that change the
// direction of writing, and characters without width are replaced by visible ones.

/** Marks that reorder text, and characters that are drawn as nothing. */
const INVISIBLE = /[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

function picture(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\u2039${code.toString(16).toUpperCase().padStart(4, "0")}\u203a`;
}

/** The text with line breaks and tabs kept. */
export function visible(text: string): string {
  return text.replace(CONTROL, picture).replace(INVISIBLE, picture);
}

/** The beginning of the text on one line. */
export function oneLine(text: string, most: number): string {
  const cut = text.length > most ? text.slice(0, most) : text;
  return visible(cut.replace(/\r?\n/g, "\u21b5").replace(/\t/g, "  "));
}

export function count(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** `1 line`, `2 lines`, `2 processes`. */
export function plural(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A number with four significant digits and a prefix. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : value < 0 ? "-Inf" : "NaN";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e15)) return value.toExponential(2);
  const prefixes: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [from, name] of prefixes) {
    if (size >= from) return Number((value / (name === "k" ? 1e3 : from)).toPrecision(4)) + " " + name;
  }
  return String(Number(value.toPrecision(4)));
}

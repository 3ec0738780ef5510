// Download of lines: as text, as JSON (a line each) or as CSV, read a page at a time.

import { useRef, useState } from "preact/hooks";
import { type Stream, ns, nsPlus, queryRange } from "../api/loki.ts";
import { isAbort } from "../api/client.ts";
import { Popover } from "../frame/popover.tsx";
import { asApiError } from "../frame/answer.tsx";
import { useCancel } from "../frame/keys.ts";
import { count } from "../frame/text.ts";
import { type Span, iso } from "../frame/time.ts";
import { type Row, fieldsOf, rowsOf } from "./rows.ts";

const PAGE = 5000;
const AMOUNTS = [1000, 10_000, 100_000];
type Format = "lines" | "json" | "csv";
const FORMATS: [Format, string, string][] = [
  ["lines", "Lines", "text/plain"],
  ["json", "JSON", "application/x-ndjson"],
  ["csv", "CSV", "text/csv"],
];

/** A time with all its digits. */
function exactTime(row: Row): string {
  return `${iso(row.ms).slice(0, 19)}.${row.ns.slice(-9)}Z`;
}

function cell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function textOf(row: Row, format: Format, columns: string[]): string {
  if (format === "lines") return `${row.line}\n`;
  const labels = { ...row.labels, ...row.metadata, ...row.parsed };
  if (format === "json") return `${JSON.stringify({ timestamp: exactTime(row), line: row.line, labels })}\n`;
  const fields = new Map(fieldsOf(row).map(({ name, value }) => [name, value]));
  return [exactTime(row), ...columns.map((name) => fields.get(name) ?? ""), row.line].map(cell).join(",") + "\r\n";
}

interface DownloadProps {
  query: string;
  span: Span;
  columns: string[];
}

export function Download({ query, span, columns }: DownloadProps) {
  const [format, setFormat] = useState<Format>("lines");
  const [most, setMost] = useState(10_000);
  const [done, setDone] = useState(0);
  const [state, setState] = useState("");
  const abort = useRef<AbortController | null>(null);
  useCancel(() => {
    if (!abort.current) return false;
    abort.current.abort();
    return true;
  });

  const start = async () => {
    const controller = new AbortController();
    abort.current = controller;
    setState("reading");
    setDone(0);
    try {
      const parts: string[] = format === "csv" ? [`${["time", ...columns, "line"].map(cell).join(",")}\r\n`] : [];
      let found = 0;
      for await (const rows of pages(query, span, most, controller.signal)) {
        parts.push(rows.map((row) => textOf(row, format, columns)).join(""));
        found += rows.length;
        setDone(found);
      }
      save(parts, format);
      setState(`${count(found)} lines`);
    } catch (error) {
      setState(isAbort(error) ? "cancelled" : asApiError(error).message);
    }
    abort.current = null;
  };

  return (
    <Popover label="Download" title="Download the lines" align="right" class="quiet">
      {() => (
        <div class="stack">
          <div class="choice" role="group" aria-label="Format">
            {FORMATS.map(([value, name]) => (
              <button key={value} class={format === value ? "chosen" : ""} aria-pressed={format === value} onClick={() => setFormat(value)}>{name}</button>
            ))}
          </div>
          <label>
            Newest lines
            <select value={most} onChange={(event) => setMost(Number(event.currentTarget.value))}>
              {AMOUNTS.map((amount) => <option key={amount} value={amount}>at most {count(amount)}</option>)}
            </select>
          </label>
          {format === "csv" && <p class="muted">Columns: time, {columns.map((name) => `${name}, `)}line</p>}
          <button class="primary" disabled={state === "reading"} onClick={() => void start()}>Download</button>
          <p class="muted" role="status">{state === "reading" ? `${count(done)} lines; Esc cancels` : state}</p>
        </div>
      )}
    </Popover>
  );
}

/** Pages of rows, the newest first. */
async function* pages(query: string, span: Span, most: number, signal: AbortSignal): AsyncGenerator<Row[]> {
  const start = ns(span.start);
  let end = ns(span.end);
  let known = new Set<string>();
  let left = most;
  while (left > 0) {
    const limit = Math.min(PAGE, left + known.size);
    const { body } = await queryRange({ query, start, end, limit, direction: "backward" }, { signal });
    const all = rowsOf(body.result as Stream[], "backward").reverse();
    const rows = all.filter((row) => !known.has(row.id)).slice(0, left);
    if (rows.length > 0) yield rows;
    left -= rows.length;
    const last = all.at(-1);
    if (!last || all.length < limit) return;
    // A page of one instant would be read for ever: go on below it.
    end = rows.length === 0 ? last.ns : nsPlus(last.ns, 1);
    known = new Set(all.filter((row) => row.ns === last.ns).map((row) => row.id));
  }
}

function save(parts: string[], format: Format): void {
  const type = FORMATS.find(([name]) => name === format)?.[2] ?? "text/plain";
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `sandur-${iso(Date.now()).slice(0, 19).replace(/[:T]/g, "-")}.${format === "lines" ? "log" : format === "json" ? "jsonl" : "csv"}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

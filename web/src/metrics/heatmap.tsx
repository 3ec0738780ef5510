// A heatmap of histograms over time: classic ones by their label `le`, native ones by their buckets.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Series } from "../api/prometheus.ts";
import { number } from "../frame/text.ts";
import { type Span, axisLabel, dateTime, niceStep } from "../frame/time.ts";
import { useSize } from "../frame/width.ts";
import { resolved } from "./colours.ts";

const HEIGHT = 320;
const LEFT = 64;
const TOP = 8;
const BOTTOM = 22;
/** Buckets that are drawn at most; neighbours are added up beyond that. */
const ROWS_MAX = 160;

export interface Cells {
  /** Upper bounds of the rows, ascending. */
  bounds: number[];
  /** Values by column and row. */
  values: Float64Array;
  columns: number;
  most: number;
}

/** Adds up histograms to cells; `null` if the series are no histograms. */
export function cellsOf(series: Series[], span: Span, step: number): Cells | null {
  const first = Math.floor(span.start / step) * step;
  const columns = Math.max(1, Math.floor((span.end - first) / step) + 1);
  const sums = new Map<number, Float64Array>();
  const add = (bound: number, column: number, value: number) => {
    if (column < 0 || column >= columns || !Number.isFinite(value)) return;
    let row = sums.get(bound);
    if (!row) sums.set(bound, (row = new Float64Array(columns)));
    row[column] = (row[column] ?? 0) + value;
  };
  const columnOf = (seconds: number) => Math.round((seconds * 1000 - first) / step);
  for (const { metric, values } of series) {
    const le = metric["le"];
    if (le !== undefined) {
      const bound = le === "+Inf" ? Infinity : Number(le);
      for (const [seconds, text] of values ?? []) add(bound, columnOf(seconds), Number(text));
    }
  }
  // Classic buckets contain those below them.
  const cumulative = [...sums.keys()].sort((a, b) => b - a);
  cumulative.forEach((bound, n) => {
    const [row, below] = [sums.get(bound), sums.get(cumulative[n + 1] ?? NaN)];
    if (row && below) row.forEach((value, column) => (row[column] = Math.max(0, value - (below[column] ?? 0))));
  });
  for (const { histograms } of series) {
    for (const [seconds, { buckets }] of histograms ?? []) {
      for (const [, , upper, text] of buckets ?? []) add(Number(upper), columnOf(seconds), Number(text));
    }
  }
  if (sums.size === 0) return null;
  return gathered(sums, columns);
}

function gathered(sums: Map<number, Float64Array>, columns: number): Cells {
  const sorted = [...sums.keys()].sort((a, b) => a - b);
  const each = Math.ceil(sorted.length / ROWS_MAX);
  const bounds = sorted.filter((_, n) => n % each === each - 1 || n === sorted.length - 1);
  const values = new Float64Array(columns * bounds.length);
  sorted.forEach((bound, n) => {
    const row = Math.min(bounds.length - 1, Math.floor(n / each));
    sums.get(bound)?.forEach((value, column) => {
      const at = column * bounds.length + row;
      values[at] = (values[at] ?? 0) + value;
    });
  });
  let most = 0;
  for (const value of values) most = Math.max(most, value);
  return { bounds, values, columns, most };
}

export interface HeatmapProps {
  series: Series[];
  span: Span;
  step: number;
  zone: string;
  height?: number;
}

export function Heatmap({ series, span, step, zone, height = HEIGHT }: HeatmapProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useSize(box);
  const [cursor, setCursor] = useState<{ x: number; y: number } | null>(null);
  const cells = useMemo(() => cellsOf(series, span, step), [series, span.start, span.end, step]);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const listener = () => setTheme((n) => n + 1);
    addEventListener("sandur-theme", listener);
    return () => removeEventListener("sandur-theme", listener);
  }, []);
  useEffect(() => {
    if (canvas.current && cells && width > 0) draw(canvas.current, cells, span, { width, height }, zone);
  }, [cells, width, height, theme, zone]);
  if (!cells) {
    return <p class="empty">A heatmap needs histograms: <code>sum by (le) (increase(NAME_bucket[5m]))</code>, or <code>sum(increase(NAME[5m]))</code> of native ones.</p>;
  }
  const rows = cells.bounds.length;
  const column = cursor ? Math.floor(((cursor.x - LEFT) / (width - LEFT)) * cells.columns) : -1;
  const row = cursor ? rows - 1 - Math.floor(((cursor.y - TOP) / (height - TOP - BOTTOM)) * rows) : -1;
  const isInside = column >= 0 && column < cells.columns && row >= 0 && row < rows;
  const first = Math.floor(span.start / step) * step;
  const style = cursor && cursor.x > width / 2 ? { right: `${width - cursor.x + 12}px` } : { left: `${(cursor?.x ?? 0) + 12}px` };
  return (
    <div ref={box} class="plot" style={{ height: `${height}px` }} role="img" aria-label={`Heatmap of ${rows} buckets`}
      onPointerMove={(event) => {
        const bounds = event.currentTarget.getBoundingClientRect();
        setCursor({ x: event.clientX - bounds.left, y: event.clientY - bounds.top });
      }}
      onPointerLeave={() => setCursor(null)}
    >
      <canvas ref={canvas} />
      {isInside && (
        <div class="tip" style={style}>
          <strong>{dateTime(first + column * step, zone)}</strong>
          <span class="tip-row">{row > 0 ? `${number(cells.bounds[row - 1] ?? 0)} to ` : "up to "}{number(cells.bounds[row] ?? 0)} <b>{number(cells.values[column * rows + row] ?? 0)}</b></span>
        </div>
      )}
    </div>
  );
}

function draw(canvas: HTMLCanvasElement, cells: Cells, span: Span, { width, height }: { width: number; height: number }, zone: string): void {
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  const rows = cells.bounds.length;
  // Edges are whole pixels, so that neighbours neither overlap nor leave gaps.
  const left = (column: number) => LEFT + Math.round((column * (width - LEFT)) / cells.columns);
  const top = (row: number) => TOP + Math.round(((rows - 1 - row) * (height - TOP - BOTTOM)) / rows);
  context.fillStyle = resolved("--accent");
  for (let column = 0; column < cells.columns; column += 1) {
    for (let row = 0; row < rows; row += 1) {
      const value = cells.values[column * rows + row] ?? 0;
      if (value <= 0) continue;
      // A root makes small counts visible beside large ones.
      context.globalAlpha = 0.12 + 0.88 * Math.sqrt(value / cells.most);
      context.fillRect(left(column), top(row), left(column + 1) - left(column), top(row - 1) - top(row));
    }
  }
  context.globalAlpha = 1;
  context.fillStyle = resolved("--muted");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  const each = Math.max(1, Math.ceil(rows / 14));
  for (let row = 0; row < rows; row += each) {
    context.fillText(number(cells.bounds[row] ?? 0), LEFT - 6, (top(row) + top(row - 1)) / 2);
  }
  context.textAlign = "center";
  const step = niceStep(span, Math.max(2, Math.floor(width / 100)));
  for (let at = Math.ceil(span.start / step) * step; at < span.end; at += step) {
    const x = LEFT + ((at - span.start) / (span.end - span.start)) * (width - LEFT);
    if (x > LEFT + 16 && x < width - 16) context.fillText(axisLabel(at, step, zone), x, height - 8);
  }
}

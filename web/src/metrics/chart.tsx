// A plot of series over time with its legend: drag zooms, the legend chooses, the pointer reads values.

import type { ComponentType } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { number, oneLine } from "../frame/text.ts";
import { type Span, axisLabel, dateTime } from "../frame/time.ts";
import { useSize } from "../frame/width.ts";
import { colourOf, resolved } from "./colours.ts";
import { type Columns, DRAWN_MAX, type InputSeries, type Plotted, columnsOf, drawnOf, stacked } from "./frame_data.ts";
import { Legend, type LegendProps } from "./legend.tsx";
import { type Mark, nearest } from "./exemplars.ts";
import type { PlotBox } from "./plot_box.ts";

export interface ChartProps {
  series: InputSeries[];
  span: Span;
  step: number;
  zone: string;
  mode: "lines" | "stacked";
  onZoom: (span: Span) => void;
  /** A drag makes a box of times and values instead of a zoom. */
  onBox?: ((box: PlotBox) => void) | undefined;
  /** The box that is shown. */
  shownBox?: PlotBox | null;
  /** Exemplars. */
  marks?: readonly Mark[];
  height?: number;
  /** How values are shown. */
  format?: (value: number) => string;
  legend?: ComponentType<LegendProps>;
}

const HEIGHT = 320;
const NO_MARKS: readonly Mark[] = [];

/** Where the pointer is: the index of the time, pixels, and what is near. */
interface Cursor {
  index: number;
  left: number;
  top: number;
  near: number | null;
  mark: Mark | null;
}

export function Chart(props: ChartProps) {
  const { series, span, step, zone, mode, height = HEIGHT, format = number, legend: SeriesLegend = Legend } = props;
  const box = useRef<HTMLDivElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const { width } = useSize(box);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [focus, setFocus] = useState<number | null>(null);
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const [theme, setTheme] = useState(0);
  const plot = useRef<uPlot | null>(null);
  const onZoom = useRef(props.onZoom);
  onZoom.current = props.onZoom;
  const onBox = useRef(props.onBox);
  onBox.current = props.onBox;
  const isBoxed = props.onBox !== undefined;
  const shownBox = useRef(props.shownBox ?? null);
  shownBox.current = props.shownBox ?? null;
  const marks = useRef(props.marks ?? NO_MARKS);
  marks.current = props.marks ?? NO_MARKS;

  useEffect(() => setChosen(new Set()), [series]);
  useEffect(() => {
    const listener = () => setTheme((n) => n + 1);
    addEventListener("sandur-theme", listener);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", listener);
    return () => {
      removeEventListener("sandur-theme", listener);
      system.removeEventListener("change", listener);
    };
  }, []);
  const columns = useMemo(() => columnsOf(series, span.start, span.end, step), [series, span.start, span.end, step]);
  const drawn = useMemo(() => drawnOf(columns.series, chosen), [columns, chosen]);

  const hasWidth = width > 0;
  useEffect(() => {
    if (!host.current || !hasWidth) return;
    const made = new uPlot(
      optionsOf({ drawn, columns, zone, mode, width, height, format, span, onZoom: (zoomed) => onZoom.current(zoomed), onBox: isBoxed ? (box) => onBox.current?.(box) : null, shownBox: () => shownBox.current, marks: () => marks.current, onCursor: setCursor }),
      dataOf(columns, drawn, mode),
      host.current,
    );
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
      setCursor(null);
    };
  }, [drawn, columns, zone, mode, theme, hasWidth, isBoxed]);
  useEffect(() => void plot.current?.redraw(false), [props.shownBox, props.marks]);
  useEffect(() => {
    if (hasWidth) plot.current?.setSize({ width, height });
  }, [width, height]);
  useEffect(() => {
    const index = drawn.findIndex(({ place }) => place === focus);
    plot.current?.setSeries(index < 0 ? null : index + 1, { focus: index >= 0 });
  }, [focus]);

  const summary = `Plot of ${columns.series.length.toLocaleString("en-US")} series`;
  return (
    <div class="chart">
      {columns.series.length > drawn.length && chosen.size === 0 && (
        <p class="thinned" role="status">
          {drawn.length} of {columns.series.length.toLocaleString("en-US")} series are drawn: those with the largest values (at most {DRAWN_MAX}). Search and choose others in the legend.
        </p>
      )}
      <div ref={box} class="plot" role="img" aria-label={summary} style={{ height: `${height}px` }}>
        <div ref={host} />
        {cursor && <PlotTip columns={columns} drawn={drawn} cursor={cursor} zone={zone} width={width} format={format} />}
      </div>
      <SeriesLegend series={columns.series} chosen={chosen} onChoose={setChosen} onFocus={setFocus} />
    </div>
  );
}

function dataOf(columns: Columns, drawn: Plotted[], mode: ChartProps["mode"]): uPlot.AlignedData {
  if (mode === "lines") return [columns.times, ...drawn.map(({ values }) => values)];
  // The sum of all is drawn first, so that the areas in front of it show the parts.
  return [columns.times, ...stacked(drawn).reverse()];
}

interface PlotChoices {
  drawn: Plotted[];
  columns: Columns;
  zone: string;
  mode: ChartProps["mode"];
  width: number;
  height: number;
  format: (value: number) => string;
  span: Span;
  onZoom: (span: Span) => void;
  onBox: ((box: PlotBox) => void) | null;
  shownBox: () => PlotBox | null;
  marks: () => readonly Mark[];
  onCursor: (cursor: Cursor | null) => void;
}

function optionsOf(choices: PlotChoices): uPlot.Options {
  const { drawn, zone, mode, width, height, format, span } = choices;
  const [text, line] = [resolved("--muted"), resolved("--grid")];
  const isStacked = mode === "stacked";
  const ordered = isStacked ? [...drawn].reverse() : drawn;
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: text, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  return {
    width,
    height,
    legend: { show: false },
    focus: { alpha: 0.25 },
    cursor: {
      // A drag that is not higher than this has the height of the plot.
      drag: { x: true, y: choices.onBox !== null, uni: 12, setScale: false },
      focus: { prox: 24 },
      points: { size: 6 },
    },
    scales: {
      x: { time: false, range: () => [span.start / 1000, span.end / 1000] },
      y: { range: (_plot, min, max) => valueRange(min, max, isStacked) },
    },
    axes: [
      {
        ...axis,
        space: 90,
        size: 30,
        incrs: [1e-3, 1e-2, 0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000],
        values: (_plot, splits) => {
          const step = ((splits[1] ?? 1) - (splits[0] ?? 0)) * 1000;
          return splits.map((at) => axisLabel(at * 1000, step, zone));
        },
      },
      { ...axis, size: (_plot, values) => axisWidth(values), values: (_plot, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      {},
      ...ordered.map((series) => {
        const colour = resolved(colourOf(series.place));
        return {
          label: series.name,
          stroke: colour,
          width: 1.25,
          spanGaps: false,
          points: { show: isLonely(series), size: 4 },
          ...(isStacked ? { fill: `${colour}55` } : {}),
        };
      }),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: wide } = plot.select;
          if (wide < 4) return;
          if (choices.onBox) {
            choices.onBox(boxOf(plot));
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            return;
          }
          choices.onZoom({ start: Math.floor(plot.posToVal(left, "x") * 1000), end: Math.ceil(plot.posToVal(left + wide, "x") * 1000) });
        },
      ],
      draw: [(plot) => (drawBox(plot, choices.shownBox()), drawMarks(plot, choices.marks()))],
      setCursor: [(plot) => readCursor(plot, choices, ordered)],
    },
  };
}

/** The box that was selected. */
function boxOf(plot: uPlot): PlotBox {
  const { left, top, width, height } = plot.select;
  const isWhole = height >= plot.over.clientHeight - 1;
  return {
    start: Math.floor(plot.posToVal(left, "x") * 1000),
    end: Math.ceil(plot.posToVal(left + width, "x") * 1000),
    min: isWhole ? null : plot.posToVal(top + height, "y"),
    max: isWhole ? null : plot.posToVal(top, "y"),
  };
}

function drawBox(plot: uPlot, box: PlotBox | null): void {
  if (!box) return;
  const { left, top, width, height } = plot.bbox;
  const at = (value: number, scale: "x" | "y", least: number, most: number) => Math.min(most, Math.max(least, plot.valToPos(value, scale, true)));
  const [from, to] = [at(box.start / 1000, "x", left, left + width), at(box.end / 1000, "x", left, left + width)];
  const high = box.max === null ? top : at(box.max, "y", top, top + height);
  const low = box.min === null ? top + height : at(box.min, "y", top, top + height);
  const { ctx } = plot;
  ctx.save();
  ctx.strokeStyle = resolved("--accent");
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  ctx.strokeRect(from, high, to - from, low - high);
  ctx.fillStyle = `${resolved("--accent")}22`;
  ctx.fillRect(from, high, to - from, low - high);
  ctx.restore();
}

/** The pixels of a mark below the left upper corner of the plot; marks beyond the values are at its edge. */
function placeOf(plot: uPlot, { at, value }: Mark): [number, number] {
  const height = plot.over.clientHeight;
  return [plot.valToPos(at / 1000, "x"), Math.min(height - 3, Math.max(3, plot.valToPos(value, "y")))];
}

/** Draws the marks as diamonds. */
function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  if (marks.length === 0) return;
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.fillStyle = resolved("--text");
  ctx.strokeStyle = resolved("--ground");
  ctx.lineWidth = ratio;
  for (const mark of marks) {
    const [left, top] = placeOf(plot, mark);
    if (left < 0 || left > plot.over.clientWidth || !Number.isFinite(top)) continue;
    const [x, y, size] = [bbox.left + left * ratio, bbox.top + top * ratio, 4 * ratio];
    ctx.beginPath();
    ctx.moveTo(x, y - size);
    ctx.lineTo(x + size, y);
    ctx.lineTo(x, y + size);
    ctx.lineTo(x - size, y);
    ctx.closePath();
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

function readCursor(plot: uPlot, choices: PlotChoices, ordered: Plotted[]): void {
  const { idx, left, top } = plot.cursor;
  if (idx === null || idx === undefined || left === undefined || top === undefined || left < 0) {
    choices.onCursor(null);
    return;
  }
  let near: number | null = null;
  let best = Infinity;
  ordered.forEach((series, n) => {
    const value = plot.data[n + 1]?.[idx];
    if (value === null || value === undefined) return;
    const distance = Math.abs(plot.valToPos(value, "y") - top);
    if (distance < best) [best, near] = [distance, series.place];
  });
  const mark = nearest(choices.marks(), left, top, (one) => placeOf(plot, one));
  choices.onCursor({ index: idx, left: left + plot.bbox.left / devicePixelRatio, top, near, mark });
}

/** Width of the axis of values, so that its longest label is not cut. */
function axisWidth(labels: string[] | null): number {
  const longest = (labels ?? []).reduce((most, label) => Math.max(most, label?.length ?? 0), 0);
  return Math.min(130, Math.max(64, longest * 6.4 + 14));
}

/** A range with room above and below; one value is in the middle. */
function valueRange(min: number | null, max: number | null, fromZero: boolean): [number, number] {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  const [low, high] = [fromZero || (min >= 0 && min < max * 0.7) ? Math.min(0, min) : min, fromZero ? Math.max(0, max) : max];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low === 0 ? 0 : low - room, high === 0 && low < 0 ? 0 : high + room];
}

/** Whether the series has single points that a line would not show. */
function isLonely({ values }: Plotted): boolean {
  return values.some((value, n) => value !== null && (values[n - 1] ?? null) === null && (values[n + 1] ?? null) === null);
}

const TIP_ROWS = 12;
const TIP_LABELS = 8;

function MarkTip({ mark, zone, format }: { mark: Mark; zone: string; format: (value: number) => string }) {
  return (
    <>
      <strong>Exemplar {format(mark.value)}, {dateTime(mark.at, zone)}</strong>
      {Object.entries(mark.labels).slice(0, TIP_LABELS).map(([name, value]) => <span key={name} class="tip-row near"><bdi>{oneLine(name, 60)}</bdi> <b>{oneLine(value, 90)}</b></span>)}
    </>
  );
}

interface TipProps {
  columns: Columns;
  drawn: Plotted[];
  cursor: Cursor;
  zone: string;
  width: number;
  format: (value: number) => string;
}

function PlotTip({ columns, drawn, cursor, zone, width, format }: TipProps) {
  const at = (columns.times[cursor.index] ?? 0) * 1000;
  const here = drawn
    .map((series) => ({ series, value: series.values[cursor.index] ?? null }))
    .filter((entry): entry is { series: Plotted; value: number } => entry.value !== null)
    .sort((a, b) => Number(b.series.place === cursor.near) - Number(a.series.place === cursor.near) || b.value - a.value);
  const isRight = cursor.left > width / 2;
  const style = isRight ? { right: `${width - cursor.left + 14}px` } : { left: `${cursor.left + 14}px` };
  return (
    <div class="tip" style={style}>
      {cursor.mark && <MarkTip mark={cursor.mark} zone={zone} format={format} />}
      <strong>{dateTime(at, zone)}</strong>
      {here.slice(0, TIP_ROWS).map(({ series, value }) => (
        <span key={series.place} class={series.place === cursor.near ? "tip-row near" : "tip-row"}>
          <i style={{ background: `var(${colourOf(series.place)})` }} />
          <bdi>{oneLine(series.name, 90)}</bdi> <b>{format(value)}</b>
        </span>
      ))}
      {here.length > TIP_ROWS && <span class="muted">and {here.length - TIP_ROWS} more</span>}
      {here.length === 0 && <span class="muted">no values</span>}
    </div>
  );
}

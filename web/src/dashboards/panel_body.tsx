// What a panel draws: a plot, numbers, tables, lines or a heatmap.

import { useMemo } from "preact/hooks";
import { oneLine } from "../frame/text.ts";
import type { Span } from "../frame/time.ts";
import { Chart } from "../metrics/chart.tsx";
import type { InputSeries, Plotted } from "../metrics/frame_data.ts";
import { Heatmap } from "../metrics/heatmap.tsx";
import type { LegendProps } from "../metrics/legend.tsx";
import { ValueTable } from "../metrics/value_table.tsx";
import { colourOf } from "../metrics/colours.ts";
import { LogLines } from "./log_lines.tsx";
import type { Panel } from "./model.ts";
import { type PanelAnswer, calculated } from "./panel_data.ts";
import { shownIn } from "./units.ts";

interface BodyProps {
  panel: Panel;
  answer: PanelAnswer;
  span: Span;
  zone: string;
  /** Height in pixels. */
  room: number;
  onZoom: (span: Span) => void;
}

const LEGEND_MAX = 100;
const STATS_MAX = 60;

export function Body(props: BodyProps) {
  const { panel, answer, span, zone, room } = props;
  const rows = useMemo(() => answer.queries.flatMap(({ rows: found }) => found), [answer]);
  const format = useMemo(() => shownIn(panel.look.unit, panel.look.decimals), [panel.look]);
  if (panel.kind === "logs" || (rows.length > 0 && answer.queries.every(({ series }) => series.length === 0))) return <LogLines rows={rows} zone={zone} />;
  if (panel.kind === "lines" || panel.kind === "stacked") return <Plot {...props} format={format} />;
  if (panel.kind === "stat") return <Stats {...props} format={format} />;
  if (panel.kind === "heatmap") {
    const plain = answer.queries.flatMap(({ plain: found }) => found);
    return plain.length === 0 ? <Nothing /> : <Heatmap series={plain} span={span} step={answer.step} zone={zone} height={Math.max(90, room - 12)} />;
  }
  return <Tables {...props} format={format} />;
}

type FormattedProps = BodyProps & { format: (value: number) => string };

function Nothing() {
  return <p class="muted nothing">No series match in this time range.</p>;
}

/** Series with the letter of their query if several queries have series of the same name. */
function allSeries(answer: PanelAnswer): InputSeries[] {
  return answer.queries.flatMap(({ series }) => series);
}

function Plot({ panel, answer, span, zone, room, onZoom, format }: FormattedProps) {
  const series = useMemo(() => allSeries(answer), [answer]);
  // Answers of Graphite have a step of their own, which may be longer than that of the panel.
  const step = useMemo(() => longestStep(series, answer.step), [series, answer.step]);
  if (series.length === 0) return <Nothing />;
  const legend = series.length > 6 ? 66 : series.length > 1 ? 46 : 26;
  return <Chart series={series} span={span} step={step} zone={zone} mode={panel.kind === "stacked" ? "stacked" : "lines"} onZoom={onZoom} height={Math.max(80, room - legend)} format={format} legend={ShortLegend} />;
}

function longestStep(series: InputSeries[], step: number): number {
  const sparse = series.filter(({ isSparse }) => isSparse === true);
  if (sparse.length < series.length || sparse.length === 0) return step;
  const steps = sparse.map(({ values }) => ((values?.[1]?.[0] ?? 0) - (values?.[0]?.[0] ?? 0)) * 1000).filter((one) => one > 0);
  return steps.length > 0 ? Math.max(1000, Math.min(...steps)) : step;
}

/** Names with colours; a click draws only that series. */
function ShortLegend({ series, chosen, onChoose, onFocus }: LegendProps) {
  const choose = (place: number, several: boolean) => {
    if (!several) return onChoose(chosen.size === 1 && chosen.has(place) ? new Set() : new Set([place]));
    const next = new Set(chosen);
    if (!next.delete(place)) next.add(place);
    onChoose(next);
  };
  return (
    <div class="short-legend" onMouseLeave={() => onFocus(null)} tabIndex={0} role="group" aria-label="Series">
      {series.slice(0, LEGEND_MAX).map(({ place, name }: Plotted) => (
        <button key={place} class={chosen.size > 0 && !chosen.has(place) ? "quiet off" : "quiet"} aria-pressed={chosen.has(place)} onMouseEnter={() => onFocus(place)} onClick={(event) => choose(place, event.ctrlKey || event.metaKey || event.shiftKey)}>
          <i style={{ background: `var(${colourOf(place)})` }} /> <bdi>{oneLine(name, 120)}</bdi>
        </button>
      ))}
      {series.length > LEGEND_MAX && <span class="muted">and {series.length - LEGEND_MAX} more</span>}
    </div>
  );
}

function Stats({ panel, answer, format }: FormattedProps) {
  const { look } = panel;
  const stats = useMemo(() => allSeries(answer).map(({ title, values }) => {
    const numbers = (values ?? []).map(([, value]) => numberOf(value));
    return { name: title ?? "", value: calculated(numbers, look.calculation), values: numbers };
  }), [answer]);
  if (stats.length === 0) return <Nothing />;
  const isSeveral = stats.length > 1;
  return (
    <div class={isSeveral ? "stats several" : "stats"}>
      {stats.slice(0, STATS_MAX).map(({ name, value, values }, n) => (
        <div key={n} class="stat">
          <b class={value === null ? "muted" : colourClass(panel, value)}>{value === null ? "no value" : (mapped(panel, value) ?? format(value))}</b>
          {(isSeveral || panel.queries[0]?.name !== "") && <span class="muted"><bdi>{oneLine(name, 120)}</bdi></span>}
          {!isSeveral && <Trace values={values} />}
        </div>
      ))}
      {stats.length > STATS_MAX && <span class="muted">and {stats.length - STATS_MAX} more</span>}
    </div>
  );
}

function numberOf(value: string | number | null): number | null {
  return value === null ? null : Number(value === "+Inf" ? Infinity : value === "-Inf" ? -Infinity : value);
}

function mapped({ look }: Panel, value: number): string | undefined {
  return look.mappings.find(({ from, to }) => value >= from && value <= to)?.text;
}

/** Grafana's colours as those of the theme; others have no meaning here. */
function colourClass({ look }: Panel, value: number): string {
  const reached = look.thresholds.filter(({ from }) => value >= from).at(-1);
  if (look.thresholds.length < 2 || !reached) return "";
  if (/red|#f2495c|#e02f44|#d44a3a|#c4162a/i.test(reached.colour)) return "wrong";
  if (/orange|yellow|#ff9830|#fade2a|rgba\(237, 129, 40/i.test(reached.colour)) return "warning";
  return /green|#73bf69|#299c46|rgba\(50, 172, 45/i.test(reached.colour) ? "good" : "";
}

function Trace({ values }: { values: (number | null | undefined)[] }) {
  const known = values.flatMap((value, n) => (typeof value === "number" && Number.isFinite(value) ? [[n, value] as const] : []));
  if (known.length < 3) return null;
  const all = known.map(([, value]) => value);
  const [least, most] = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  const points = known.map(([n, value]) => `${((n / Math.max(1, values.length - 1)) * 100).toFixed(1)},${(28 - ((value - least) / (most - least || 1)) * 26).toFixed(1)}`);
  return <svg class="trace" viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true"><polyline points={points.join(" ")} /></svg>;
}

function Tables({ answer, zone, format, panel }: FormattedProps) {
  const shown = panel.look.unit === "" && panel.look.decimals === null ? {} : { format };
  return (
    <div class="panel-tables">
      {answer.queries.map(({ query, text, series, plain, error }) => {
        if (error) return null;
        const result = plain.length > 0 ? plain : series.map(({ metric, title, values }) => ({ metric: { ...metric, series: title ?? "" }, value: lastOf(values) }));
        return <ValueTable key={query.letter} query={answer.queries.length > 1 ? text : ""} data={{ resultType: "vector", result }} zone={zone} {...shown} />;
      })}
    </div>
  );
}

function lastOf(values: InputSeries["values"]): [number, string] {
  const last = values?.filter(([, value]) => value !== null).at(-1);
  return last ? [last[0], String(last[1])] : [0, ""];
}

// The answers of the queries of a panel, as series, values at an instant, or lines.

import { ApiError, isAbort } from "../api/client.ts";
import * as graphite from "../api/graphite.ts";
import * as loki from "../api/loki.ts";
import * as prometheus from "../api/prometheus.ts";
import { asApiError } from "../frame/answer.tsx";
import { type Span, duration, niceStep, stepText } from "../frame/time.ts";
import { type InputSeries, nameOf } from "../metrics/frame_data.ts";
import { type Row, rowsOf } from "../logs/rows.ts";
import type { Panel, PanelQuery } from "./model.ts";
import { type Scope, substituted, withTimes } from "./substitution.ts";

export interface QueryAnswer {
  query: PanelQuery;
  /** The query with the values of variables. */
  text: string;
  series: InputSeries[];
  /** Series with histograms, for heatmaps. */
  plain: prometheus.Series[];
  rows: Row[];
  error: ApiError | null;
  warnings: string[];
}

export interface PanelAnswer {
  step: number;
  queries: QueryAnswer[];
}

const POINTS = 240;
export const LINES_MAX = 200;

export function stepOf(panel: Panel, span: Span, scope: Scope): number {
  const given = substituted(panel.minStep, withTimes(scope, span, niceStep(span, POINTS)), "text").replace(/^>?=?/, "");
  return Math.max(1000, niceStep(span, POINTS), duration(given) ?? 0);
}

export async function panelAnswer(panel: Panel, scope: Scope, span: Span, signal: AbortSignal): Promise<PanelAnswer> {
  const step = stepOf(panel, span, scope);
  const all = withTimes(scope, span, step);
  const one = async (query: PanelQuery): Promise<QueryAnswer> => {
    const text = substituted(query.text, all, query.language);
    const nothing = { query, text, series: [], plain: [], rows: [], error: null, warnings: [] };
    try {
      return { ...nothing, ...(await asked(panel, query, text, span, step, all, signal)) };
    } catch (error) {
      const failure = asApiError(error);
      // A server that is away is asked again for all queries.
      if (isAbort(error) || failure.status === 0 || failure.status === 503) throw error;
      return { ...nothing, error: failure };
    }
  };
  return { step, queries: await Promise.all(panel.queries.map(one)) };
}

type Found = Partial<Pick<QueryAnswer, "series" | "plain" | "rows" | "warnings">>;

async function asked(panel: Panel, query: PanelQuery, text: string, span: Span, step: number, scope: Scope, signal: AbortSignal): Promise<Found> {
  const start = Math.floor(span.start / step) * step;
  // Values of a table are those at the end of the range.
  const isInstant = query.isInstant || panel.kind === "table";
  if (query.language === "graphite") {
    const { targets, warnings } = await graphite.render([text], span.start, span.end, POINTS, { signal });
    return { series: targets.map((target) => graphiteSeries(target, query, scope)), warnings };
  }
  if (query.language === "promql") {
    const { data, warnings } = isInstant
      ? await prometheus.queryInstant(text, span.end, { signal })
      : await prometheus.queryRange(text, start, span.end, step, { signal });
    const plain = seriesOf(data);
    return { plain, series: plain.map((series) => titled(series, query, scope)), warnings };
  }
  if (panel.kind === "logs") {
    const asking = { query: text, start: loki.ns(span.start), end: loki.ns(span.end), limit: LINES_MAX, direction: "backward" as const };
    const { body, warnings } = await loki.queryRange(asking, { signal });
    if (body.resultType === "streams") return { rows: rowsOf(body.result, "backward").reverse(), warnings };
    throw new ApiError(400, "This query has no lines; show it as a plot.");
  }
  const { body, warnings } = isInstant
    ? await loki.queryInstant(text, loki.ns(span.end), { signal })
    : await loki.queryRange({ query: text, start: loki.ns(start), end: loki.ns(span.end), step: stepText(step), limit: LINES_MAX }, { signal });
  if (body.resultType === "streams") return { rows: rowsOf(body.result, "backward").reverse(), warnings };
  const plain = seriesOf(body);
  return { plain, series: plain.map((series) => titled(series, query, scope)), warnings };
}

type Values = { resultType: "matrix" | "vector"; result: prometheus.Series[] } | { resultType: "scalar" | "string"; result: prometheus.Point };

/** Series of any answer with values. */
function seriesOf(data: Values): prometheus.Series[] {
  if (data.resultType === "matrix") return data.result;
  if (data.resultType === "vector") return data.result.map((series) => ({ ...series, ...(series.value ? { values: [series.value] } : {}) }));
  return data.resultType === "scalar" ? [{ metric: {}, value: data.result, values: [data.result] }] : [];
}

function titled(series: prometheus.Series, query: PanelQuery, scope: Scope): InputSeries {
  return { metric: series.metric, values: series.values ?? [], title: titleOf(series.metric, query, scope) };
}

/** The name of a series by the template of its query. */
export function titleOf(labels: Record<string, string>, query: PanelQuery, scope: Scope): string {
  if (query.name === "") return nameOf(labels);
  const filled = query.name.replace(/\{\{\s*([^{}]+?)\s*\}\}/g, (_, name: string) => labels[name] ?? "");
  return substituted(filled, scope, "text") || nameOf(labels);
}

function graphiteSeries(target: graphite.Target, query: PanelQuery, scope: Scope): InputSeries {
  const title = query.name === "" ? target.target : titleOf(target.tags ?? {}, query, scope);
  return { metric: target.tags ?? {}, title, values: target.datapoints.map(([value, at]) => [at, value]), isSparse: true };
}

/** One value of the values of a series. */
export function calculated(values: (number | null | undefined)[], calculation: string): number | null {
  const known = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return null;
  const sum = known.reduce((all, value) => all + value, 0);
  const least = known.reduce((a, b) => Math.min(a, b));
  const most = known.reduce((a, b) => Math.max(a, b));
  switch (calculation) {
    case "first": return first;
    case "mean": return sum / known.length;
    case "min": return least;
    case "max": return most;
    case "sum": return sum;
    case "count": return known.length;
    case "range": return most - least;
    case "difference": return last - first;
    default: return last;
  }
}

// Prometheus's API: queries, names, metadata, cardinality.

import { ApiError, type Options, json, send, form } from "./client.ts";

export type Labels = Record<string, string>;
export type Point = [number, string];

export interface Histogram {
  count: string;
  sum: string;
  /** Kind of bounds, lower bound, upper bound, count. */
  buckets?: [number, string, string, string][];
}

export interface Series {
  metric: Labels;
  values?: Point[];
  value?: Point;
  histograms?: [number, Histogram][];
  histogram?: [number, Histogram];
}

export interface Statistics {
  timings: Record<string, number>;
  samples: { totalQueryableSamples: number; peakSamples: number };
  phases?: Record<string, number>;
  amounts?: Record<string, number>;
}

export type Data =
  | { resultType: "matrix" | "vector"; result: Series[]; stats?: Statistics }
  | { resultType: "scalar" | "string"; result: Point; stats?: Statistics };

export interface Answer {
  data: Data;
  warnings: string[];
}

interface Body<T> {
  status: string;
  data: T;
  warnings?: string[];
  infos?: string[];
}

async function query(path: string, fields: Record<string, string | number>, options: Options): Promise<Answer> {
  const { body, warnings } = await json<Body<Data>>(path, { ...fields, stats: "all" }, options);
  return { data: body.data, warnings: [...new Set([...(body.warnings ?? []), ...(body.infos ?? []), ...warnings])] };
}

const seconds = (ms: number) => (ms / 1000).toFixed(3);

export function queryRange(expr: string, start: number, end: number, stepMs: number, options: Options = {}): Promise<Answer> {
  const fields = { query: expr, start: seconds(start), end: seconds(end), step: stepMs / 1000 };
  return query("api/v1/query_range", fields, options);
}

export function queryInstant(expr: string, time: number, options: Options = {}): Promise<Answer> {
  return query("api/v1/query", { query: expr, time: seconds(time) }, options);
}

interface Bounds {
  start: number;
  end: number;
}

function within(bounds: Bounds) {
  return { start: seconds(bounds.start), end: seconds(bounds.end) };
}

export async function labelNames(match: string | null, bounds: Bounds, limit: number, options?: Options): Promise<string[]> {
  return (await json<Body<string[]>>("api/v1/labels", { "match[]": match, limit, ...within(bounds) }, options)).body.data;
}

export async function labelValues(name: string, match: string | null, bounds: Bounds, limit: number, options?: Options): Promise<string[]> {
  const path = `api/v1/label/${encodeURIComponent(name)}/values`;
  return (await json<Body<string[]>>(path, { "match[]": match, limit, ...within(bounds) }, options)).body.data;
}

export function metricNames(bounds: Bounds, limit: number): Promise<string[]> {
  return labelValues("__name__", null, bounds, limit);
}

export interface SeriesExemplars {
  seriesLabels: Labels;
  /** Times are seconds since 1970. */
  exemplars: { labels: Labels; value: string; timestamp: number }[];
}

export async function queryExemplars(query: string, bounds: Bounds, options?: Options): Promise<SeriesExemplars[]> {
  return (await json<Body<SeriesExemplars[]>>("api/v1/query_exemplars", { query, ...within(bounds) }, options)).body.data;
}

export interface Metadata {
  type: string;
  help: string;
  unit: string;
}

export async function metadata(limit: number, options?: Options): Promise<Record<string, Metadata[]>> {
  return (await json<Body<Record<string, Metadata[]>>>("api/v1/metadata", { limit }, options)).body.data;
}

export interface FoundMetric {
  name: string;
  type?: string;
  help?: string;
  unit?: string;
}

/** Names of metrics that contain a text, or whose letters contain it in order. */
export async function searchMetrics(search: string, bounds: Bounds, limit: number, options: Options = {}): Promise<{ found: FoundMetric[]; hasMore: boolean }> {
  const fields = {
    "search[]": search === "" ? null : search,
    include_metadata: "true",
    case_sensitive: "false",
    sort_by: search === "" ? "alpha" : "score",
    limit,
    batch_size: limit,
    ...within(bounds),
  };
  const response = await send("api/v1/search/metric_names", form(fields), options);
  const found: FoundMetric[] = [];
  let hasMore = false;
  for (const line of (await response.text()).split("\n")) {
    if (line.trim() === "") continue;
    const part = JSON.parse(line) as { results?: FoundMetric[]; has_more?: boolean; status?: string; error?: string };
    if (part.status === "error") throw new ApiError(422, part.error ?? "The search failed.");
    found.push(...(part.results ?? []));
    hasMore ||= part.has_more === true;
  }
  return { found, hasMore };
}

export interface TsdbStatus {
  headStats: { numSeries: number; numLabelPairs: number; chunkCount: number; minTime: number; maxTime: number };
  seriesCountByMetricName: { name: string; value: number }[];
  labelValueCountByLabelName: { name: string; value: number }[];
  memoryInBytesByLabelName: { name: string; value: number }[];
  seriesCountByLabelValuePair: { name: string; value: number }[];
}

export async function tsdbStatus(limit: number, bounds: Bounds | null, options?: Options): Promise<TsdbStatus> {
  const fields = { limit, ...(bounds ? within(bounds) : {}) };
  return (await json<Body<TsdbStatus>>("api/v1/status/tsdb", fields, options)).body.data;
}

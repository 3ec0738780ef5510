// Loki's API: lines, counts, labels, fields, patterns.

import { type Answer, type Options, json } from "./client.ts";

export type Labels = Record<string, string>;

/** A line as the server sends it: nanoseconds, text, and labels that are not those of the stream. */
export type Entry = [string, string, { structuredMetadata?: Labels; parsed?: Labels }?];

export interface Stream {
  stream: Labels;
  values: Entry[];
}

export interface Series {
  metric: Labels;
  values?: [number, string][];
  value?: [number, string];
}

export interface Statistics {
  summary: {
    totalBytesProcessed: number;
    totalLinesProcessed: number;
    execTime: number;
    queueTime: number;
    totalEntriesReturned: number;
    splits: number;
    shards: number;
    totalPostFilterLines: number;
  };
  querier: {
    querierExecTime: number;
    store: { totalChunksRef: number; totalChunksDownloaded: number; chunksDownloadTime: number; chunkRefsFetchTime: number };
  };
  ingester: { totalReached: number; totalLinesSent: number };
  cache: Record<string, { entriesFound: number; entriesRequested: number; bytesReceived?: number }>;
  index: { totalChunks: number; postFilterChunks: number; totalStreams: number };
}

export type Result =
  | { resultType: "streams"; result: Stream[]; stats: Statistics }
  | { resultType: "matrix" | "vector"; result: Series[]; stats: Statistics }
  | { resultType: "scalar"; result: [number, string]; stats: Statistics };

interface Wrapped<T> {
  status: string;
  data?: T;
}

export interface RangeQuery {
  query: string;
  /** Nanoseconds since 1970, in decimal. */
  start: string;
  end: string;
  limit?: number;
  direction?: "forward" | "backward";
  step?: string;
}

const CATEGORIES = { "X-Loki-Response-Encoding-Flags": "categorize-labels" };

export async function queryRange(query: RangeQuery, options: Options = {}): Promise<Answer<Result>> {
  const headers = { ...CATEGORIES, ...options.headers };
  const answer = await json<Wrapped<Result>>("loki/api/v1/query_range", { ...query }, { ...options, headers });
  return { body: answer.body.data as Result, warnings: answer.warnings };
}

export async function queryInstant(query: string, time: string, options: Options = {}): Promise<Answer<Result>> {
  const answer = await json<Wrapped<Result>>("loki/api/v1/query", { query, time }, options);
  return { body: answer.body.data as Result, warnings: answer.warnings };
}

export interface Bounds {
  start: string;
  end: string;
}

export async function labelNames(bounds: Bounds, options?: Options): Promise<string[]> {
  return (await json<Wrapped<string[]>>("loki/api/v1/labels", { ...bounds }, options)).body.data ?? [];
}

export async function labelValues(name: string, query: string | null, bounds: Bounds, options?: Options): Promise<string[]> {
  const path = `loki/api/v1/label/${encodeURIComponent(name)}/values`;
  return (await json<Wrapped<string[]>>(path, { query, ...bounds }, options)).body.data ?? [];
}

/** Bytes by the values of a label, largest first. */
export async function volume(label: string, query: string, bounds: Bounds, limit: number, options?: Options): Promise<Series[]> {
  const fields = { query, targetLabels: label, limit, ...bounds };
  const answer = await json<Wrapped<{ result: Series[] }>>("loki/api/v1/index/volume", fields, options);
  return answer.body.data?.result ?? [];
}

export interface DetectedField {
  label: string;
  type: string;
  cardinality: number;
  parsers: string[] | null;
}

export async function detectedFields(query: string, bounds: Bounds, options?: Options): Promise<DetectedField[]> {
  const fields = { query, line_limit: 500, ...bounds };
  return (await json<{ fields?: DetectedField[] }>("loki/api/v1/detected_fields", fields, options)).body.fields ?? [];
}

export async function detectedLabels(query: string | null, bounds: Bounds, options?: Options): Promise<{ label: string; cardinality: number }[]> {
  type Body = { detectedLabels?: { label: string; cardinality: number }[] };
  return (await json<Body>("loki/api/v1/detected_labels", { query, ...bounds }, options)).body.detectedLabels ?? [];
}

export interface QueryPart {
  depth: number;
  title: string;
  text: string;
  /** A query for an instant that does the work of the part and returns one number. */
  counting: string;
  counts: "lines" | "series";
}

export async function queryParts(query: string, bounds: Bounds, options?: Options): Promise<{ parts: QueryPart[]; hasMore: boolean }> {
  return (await json<{ parts: QueryPart[]; hasMore: boolean }>("sandur/query_parts", { query, ...bounds }, options)).body;
}

export interface Pattern {
  pattern: string;
  level: string;
  samples: [number, number][];
}

export async function patterns(query: string, bounds: Bounds, step: string, options?: Options): Promise<Pattern[]> {
  return (await json<Wrapped<Pattern[]>>("loki/api/v1/patterns", { query, step, ...bounds }, options)).body.data ?? [];
}

/** Nanoseconds of an instant in milliseconds. */
export function ns(ms: number): string {
  return `${Math.round(ms)}000000`;
}

export function msOf(nanoseconds: string): number {
  return Number(nanoseconds.slice(0, -6)) || 0;
}

/** Nanoseconds later or earlier. */
export function nsPlus(nanoseconds: string, by: number): string {
  return (BigInt(nanoseconds) + BigInt(by)).toString();
}

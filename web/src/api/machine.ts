// APIs about the process itself.

import { ApiError, type Options, json, send, text } from "./client.ts";

export interface BuildInfo {
  version: string;
  revision: string;
}

export async function buildInfo(options?: Options): Promise<BuildInfo> {
  return (await json<BuildInfo>("loki/api/v1/status/buildinfo", {}, options)).body;
}

export interface RuntimeInfo {
  startTime: string;
  serverTime: string;
  storageRetention: string;
}

export async function runtimeInfo(options?: Options): Promise<RuntimeInfo> {
  return (await json<{ data: RuntimeInfo }>("api/v1/status/runtimeinfo", {}, options)).body.data;
}

/** The text of `/ready`, whatever its status. */
export async function readiness(purpose: "" | "push" | "query", options: Options = {}): Promise<{ isReady: boolean; text: string }> {
  const params = new URLSearchParams(purpose === "" ? {} : { for: purpose });
  try {
    return { isReady: true, text: (await (await send("ready", params, options)).text()).trim() };
  } catch (error) {
    if (error instanceof ApiError && error.status === 503) return { isReady: false, text: error.message };
    throw error;
  }
}

export interface SlowQuery {
  tenant: string;
  ended_ms: number;
  signal: string;
  query_type: string;
  query: string;
  start_ms: number;
  end_ms: number;
  step_ms: number;
  status: number;
  error: string | null;
  duration_ms: number;
  queue_ms: number;
  index_ms: number;
  store_ms: number;
  execution_ms: number;
  total_bytes: number;
  total_lines: number;
  store_bytes: number;
  returned_entries: number;
  user_agent: string;
  tags: string;
}

export async function slowQueries(ofAll: boolean, limit: number, options?: Options): Promise<SlowQuery[]> {
  const path = ofAll ? "sandur/slow_queries/all" : "sandur/slow_queries";
  return (await json<{ slow_queries: SlowQuery[] }>(path, { limit }, options)).body.slow_queries;
}

export interface RunningQuery {
  id: string;
  /** The node that runs it. */
  node: string;
  tenant: string;
  signal: string;
  query_type: string;
  query: string;
  start_ms: number;
  end_ms: number;
  elapsed_ms: number;
  queue_ms: number;
  store_ms: number;
  execution_ms: number;
  memory_bytes: number;
  total_bytes: number;
  total_lines: number;
  user_agent: string;
}

export interface RunningQueries {
  queries: RunningQuery[];
  /** Queries that run but are not listed. */
  left_out: number;
  /** How many processes answered. */
  answered: number;
  unanswered: { node: string; process: string; reason: string }[];
}

export async function runningQueries(ofAll: boolean, options?: Options): Promise<RunningQueries> {
  return (await json<RunningQueries>(ofAll ? "sandur/queries/all" : "sandur/queries", {}, options)).body;
}

/** Ends a query; it fails for its client. */
export async function endQuery(id: string): Promise<void> {
  await send(`sandur/queries/${encodeURIComponent(id)}`, new URLSearchParams(), { method: "DELETE" });
}

export interface ClusterNode {
  id: string;
  zone: string;
  roles: string[];
  state: string;
  version: string;
  address: string;
  incarnation: string;
  started_ms: number;
  cache_bytes: number;
  /** `null`: the process has ended. */
  silent_ms: number | null;
  /** The last entry of the catalog that it had read; `null`: not known. */
  catalog: number | null;
  member: boolean;
  shares_percent: Record<string, number>;
  windows: number;
  /** `null`: its rows were never all known. */
  rows_age_ms: number | null;
  rows_missing: string | null;
  /** `null`: it did not answer. */
  store_requests: number | null;
  dollars: number | null;
  dollars_per_month: number | null;
  unanswered: string | null;
}

export interface ClusterReport {
  node: string;
  catalog: number;
  catalog_age_ms: number;
  writes: string;
  held: boolean;
  unowned_roles: string[];
  nodes: ClusterNode[];
}

export async function cluster(options?: Options): Promise<ClusterReport> {
  return (await json<ClusterReport>("sandur/cluster", {}, options)).body;
}

export interface SampleBlock {
  ulid: string;
  minTime: number;
  maxTime: number;
  stats: { numSamples?: number; numSeries?: number; numChunks?: number };
  compaction: { level: number };
}

export async function sampleBlocks(options?: Options): Promise<SampleBlock[]> {
  return (await json<{ data: { blocks: SampleBlock[] } }>("api/v1/status/tsdb/blocks", {}, options)).body.data.blocks ?? [];
}

export function configuration(mode: "" | "diff", options?: Options): Promise<string> {
  return text("config", mode === "" ? {} : { mode }, options);
}

export function tenantLimits(options?: Options): Promise<string> {
  return text("config/tenant/v1/limits", {}, options);
}

export function storeReport(options?: Options): Promise<string> {
  return text("sandur/store", {}, options);
}

export interface OwnSample {
  name: string;
  labels: string;
  value: number;
  help: string;
  type: string;
}

/** Longest answer that is parsed, in samples. */
const SAMPLES_MAX = 20_000;

/** The metrics of the process, from Prometheus's text format. */
export async function ownMetrics(options?: Options): Promise<OwnSample[]> {
  const help = new Map<string, string>();
  const types = new Map<string, string>();
  const samples: OwnSample[] = [];
  const body = await text("metrics", {}, { accept: "text/plain;version=0.0.4", ...options });
  for (const line of body.split("\n")) {
    const about = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
    if (about) {
      (about[1] === "HELP" ? help : types).set(about[2] ?? "", about[3] ?? "");
      continue;
    }
    const sample = /^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
    if (!sample || samples.length >= SAMPLES_MAX) continue;
    const name = sample[1] ?? "";
    const family = types.has(name) ? name : name.replace(/_(bucket|sum|count|total)$/, "");
    samples.push({
      name,
      labels: sample[2] ?? "",
      value: sample[3] === "+Inf" ? Infinity : Number(sample[3]),
      help: help.get(family) ?? "",
      type: types.get(family) ?? "",
    });
  }
  return samples;
}

export interface ValueShare {
  /** `null`: the line does not have the field. */
  value: string | null;
  inside: number;
  outside: number;
}

export interface FieldDifference {
  name: string;
  origin: "label" | "metadata" | "parsed" | "json" | "logfmt";
  /** The largest difference of shares; 0 if chance explains all of them. */
  score: number;
  number: number;
  restInside: number;
  restOutside: number;
  /** The largest score that one of the values beyond the counted ones can have. */
  restScoreMax: number;
  valuesLeftOut: number;
  values: ValueShare[];
}

export interface Differences {
  inside: number;
  outside: number;
  everyInside: number;
  everyOutside: number;
  hasMoreFields: boolean;
  fields: FieldDifference[];
}

/** Compares the lines inside a box of time with the others; all times in nanoseconds since 1970. */
export async function differences(asked: { query: string; start: string; end: string; box_start: string; box_end: string }, options?: Options): Promise<Differences> {
  return (await json<Differences>("sandur/differences", asked, options)).body;
}

interface SeriesAsked {
  query: string;
  /** Milliseconds since 1970. */
  span: { start: number; end: number };
  step: number;
  box: { start: number; end: number; min: number | null; max: number | null };
}

/** Compares the series in a box of a plot with the others. */
export async function seriesDifferences({ query, span, step, box }: SeriesAsked, options?: Options): Promise<Differences> {
  const seconds = (ms: number) => (ms / 1000).toFixed(3);
  const start = Math.floor(span.start / step) * step;
  const asked = { query, start: seconds(start), end: seconds(span.end), step: seconds(step), box_start: seconds(box.start), box_end: seconds(box.end), box_min: box.min, box_max: box.max };
  return (await json<Differences>("sandur/differences/series", asked, options)).body;
}

export interface TenantIngest {
  tenant: string;
  since_ms: number;
  /** 0 if nothing was accepted. */
  accepted_ms: number;
  lines: number;
  line_bytes: number;
  samples: number;
  histograms: number;
  exemplars: number;
  refused: { reason: string; pushes: number; entries: number }[];
}

export async function ingest(ofAll: boolean, options?: Options): Promise<TenantIngest[]> {
  return (await json<{ tenants: TenantIngest[] }>(ofAll ? "sandur/ingest/all" : "sandur/ingest", {}, options)).body.tenants;
}

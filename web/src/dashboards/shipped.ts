// The dashboards that come with the page. They show the metrics of Sandur itself, which the server stores if
// it scrapes itself.

export interface Shipped {
  id: string;
  about: string;
  source: string;
}

type Query = string | [query: string, name: string];

interface Plan {
  title: string;
  kind: string;
  unit?: string;
  at: [number, number, number, number];
  queries: Query[];
}

function text(title: string, panels: Plan[]): string {
  const variables = [
    { name: "instance", title: "Process", kind: "query", language: "promql", query: "label_values(sandur_build_info, instance)", several: true, all: true, allValue: ".*" },
  ];
  const drawn = panels.map(({ queries, ...panel }) => ({
    ...panel,
    queries: queries.map((given) => {
      const [query, name] = typeof given === "string" ? [given, ""] : given;
      return { language: "promql", query: query.replaceAll("{I}", '{instance=~"$instance"}').replaceAll("{I,", '{instance=~"$instance",'), name };
    }),
  }));
  return JSON.stringify({ sandur: 1, title, range: { from: "now-1h", to: "now" }, refresh: "30s", variables, panels: drawn }, null, 2);
}

const RATE = "[$__rate_interval]";

const OVERVIEW: Plan[] = [
  { title: "Lines per second", kind: "stat", at: [0, 0, 4, 4], queries: [`sum(rate(sandur_push_entries_total{I}${RATE}))`] },
  { title: "Samples per second", kind: "stat", at: [4, 0, 4, 4], queries: [`sum(rate(sandur_push_samples_total{I}${RATE}))`] },
  { title: "Queries per second", kind: "stat", at: [8, 0, 4, 4], queries: [`sum(rate(sandur_queries_total{I}${RATE}))`] },
  { title: "Hits of the cache", kind: "stat", unit: "percentunit", at: [12, 0, 4, 4], queries: [`sum(rate(sandur_cache_lookups_total{I,tier!="miss"}${RATE})) / sum(rate(sandur_cache_lookups_total{I}${RATE}))`] },
  { title: "Dollars per month", kind: "stat", unit: "currencyUSD", at: [16, 0, 4, 4], queries: ["sum(sandur_store_cost_dollars_per_month{I})"] },
  { title: "Memory of the process", kind: "stat", unit: "bytes", at: [20, 0, 4, 4], queries: ["sum(process_resident_memory_bytes{I} and on (instance) sandur_build_info)"] },
  { title: "Lines and samples that arrive", kind: "lines", at: [0, 4, 12, 8], queries: [[`sum(rate(sandur_push_entries_total{I}${RATE}))`, "lines"], [`sum(rate(sandur_push_samples_total{I}${RATE}))`, "samples"], [`sum(rate(sandur_push_refused_entries_total{I}${RATE}))`, "refused lines"]] },
  { title: "Bytes of lines that arrive", kind: "lines", unit: "Bps", at: [12, 4, 12, 8], queries: [[`sum by (instance) (rate(sandur_push_line_bytes_total{I}${RATE}))`, "{{instance}}"]] },
  { title: "Queries", kind: "lines", at: [0, 12, 8, 8], queries: [["sum(sandur_queries_running{I})", "running"], ["sum(sandur_queries_waiting{I})", "waiting"]] },
  { title: "Time until a push is durable, 0.5 and 0.99", kind: "lines", unit: "s", at: [8, 12, 8, 8], queries: [[`histogram_quantile(0.5, sum by (le) (rate(sandur_engine_push_seconds_bucket{I}${RATE})))`, "0.5"], [`histogram_quantile(0.99, sum by (le) (rate(sandur_engine_push_seconds_bucket{I}${RATE})))`, "0.99"]] },
  { title: "Data that is not flushed yet", kind: "lines", unit: "bytes", at: [16, 12, 8, 8], queries: [["sum by (instance) (sandur_engine_head_line_bytes{I})", "{{instance}}"]] },
  { title: "Memory budgets in use", kind: "stacked", unit: "bytes", at: [0, 20, 12, 9], queries: [['sum by (budget) (sandur_memory_budget_used_bytes{I,budget!="memory of all parts"})', "{{budget}}"]] },
  { title: "CPU time", kind: "lines", at: [12, 20, 12, 9], queries: [[`sum by (instance) (rate(process_cpu_seconds_total{I}${RATE}) and on (instance) sandur_build_info)`, "{{instance}}"]] },
  { title: "Requests to the store by operation", kind: "stacked", unit: "reqps", at: [0, 29, 12, 8], queries: [[`sum by (operation) (rate(sandur_store_requests_total{I}${RATE}))`, "{{operation}}"]] },
  { title: "Flushes and blocks", kind: "lines", at: [12, 29, 12, 8], queries: [[`sum(rate(sandur_engine_flushes_total{I}${RATE})) * 60`, "flushes per minute"], ["max(sandur_catalog_blocks{I})", "blocks"]] },
];

const CACHE: Plan[] = [
  { title: "Hits", kind: "stat", unit: "percentunit", at: [0, 0, 6, 4], queries: [`sum(rate(sandur_cache_lookups_total{I,tier!="miss"}${RATE})) / sum(rate(sandur_cache_lookups_total{I}${RATE}))`] },
  { title: "Memory in use", kind: "stat", unit: "bytes", at: [6, 0, 6, 4], queries: ["sum(sandur_cache_memory_used_bytes{I})"] },
  { title: "Memory at most", kind: "stat", unit: "bytes", at: [12, 0, 6, 4], queries: ["sum(sandur_cache_memory_limit_bytes{I})"] },
  { title: "Items", kind: "stat", at: [18, 0, 6, 4], queries: ["sum(sandur_cache_items{I})"] },
  { title: "Look-ups by tier", kind: "stacked", unit: "ops", at: [0, 4, 12, 8], queries: [[`sum by (tier) (rate(sandur_cache_lookups_total{I}${RATE}))`, "{{tier}}"]] },
  { title: "Predicted hits by size of the cache", kind: "lines", unit: "percentunit", at: [12, 4, 12, 8], queries: [["avg by (scale) (sandur_cache_mrc_hit_ratio{I})", "{{scale}} times the size"], ["avg(sandur_cache_mrc_measured_hit_ratio{I})", "measured"]] },
  { title: "Predicted requests to the store", kind: "lines", unit: "percentunit", at: [0, 12, 12, 8], queries: [["avg by (scale) (sandur_cache_mrc_store_requests_ratio{I})", "{{scale}} times the size"]] },
  { title: "What leaves memory, by reason", kind: "stacked", unit: "ops", at: [12, 12, 12, 8], queries: [[`sum by (why) (rate(sandur_cache_ram_left_total{I}${RATE}))`, "{{why}}"]] },
  { title: "Time of a look-up, 0.99", kind: "lines", unit: "s", at: [0, 20, 12, 8], queries: [[`histogram_quantile(0.99, sum by (le, tier) (rate(sandur_cache_lookup_seconds_bucket{I}${RATE})))`, "{{tier}}"]] },
  { title: "Bytes from and to the store", kind: "lines", unit: "Bps", at: [12, 20, 12, 8], queries: [[`sum by (operation) (rate(sandur_store_transferred_bytes_total{I}${RATE}))`, "{{operation}}"]] },
];

export const SHIPPED: Shipped[] = [
  { id: "overview", about: "Writes, queries, memory and the store of Sandur", source: text("Sandur: overview", OVERVIEW) },
  { id: "cache", about: "Hits, churn and the predicted hits of other sizes", source: text("Sandur: cache", CACHE) },
];

// The tree of an expression with the cost of each part.
//
// Each part is asked at the end of the time range.

import { ApiError } from "../api/client.ts";
import { type Statistics, queryInstant } from "../api/prometheus.ts";
import { type Page, shared } from "../frame/frame.tsx";
import { type PartCost, QueryTree, failureOf, useTree } from "../frame/query_tree.tsx";
import { bytes, count } from "../frame/text.ts";
import { link } from "../frame/url.ts";
import { PARTS_MAX, type Part, counting, partsOf } from "./tree.ts";

const COLUMNS = ["Series", "Samples", "Pages", "Store requests", "Memory"];
const NOTE = "Each part was asked by itself at the end of the time range; its cost contains those of the parts below it.";

export function TreeView({ query, page }: { query: string; page: Page }) {
  const parts = partsOf(query);
  const tree = useTree<Part>(
    query,
    () => ({ parts, hasMore: parts.length >= PARTS_MAX }),
    (part, signal) => costOf(part, page.span.end, signal),
    [page.span.end, page.runs],
  );
  if (parts.length === 0) return <p class="empty">The query has an error, or is only a number.</p>;
  const url = (part: Part) => (part.isRange ? null : link("metrics", { ...shared(page.place.params), q: part.text }));
  return <QueryTree tree={tree} columns={COLUMNS} url={url} note={NOTE} />;
}

async function costOf(part: Part, at: number, signal: AbortSignal): Promise<PartCost> {
  try {
    const { data } = await queryInstant(counting(part), at, { signal });
    const first = data.resultType === "vector" ? data.result[0]?.value?.[1] : undefined;
    return cost(Number(first ?? 0), data.stats ?? null);
  } catch (error) {
    // A scalar or a text cannot be counted.
    return direct(part, at, signal, failureOf(error));
  }
}

async function direct(part: Part, at: number, signal: AbortSignal, before: ApiError): Promise<PartCost> {
  if (before.status !== 400) return { seconds: null, cells: [], error: before.message };
  try {
    const { data } = await queryInstant(part.text, at, { signal });
    const series = data.resultType === "scalar" || data.resultType === "string" ? null : data.result.length;
    return cost(series, data.stats ?? null);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { seconds: null, cells: [], error: error.message };
  }
}

function cost(series: number | null, statistics: Statistics | null): PartCost {
  const amount = (name: string) => statistics?.amounts?.[name] ?? 0;
  const shown = series === null ? "" : count(series);
  if (!statistics) return { seconds: null, cells: [shown], error: "" };
  const cells = [shown, count(statistics.samples.totalQueryableSamples), count(amount("pagesRead")), count(amount("storeRequests")), bytes(amount("memoryPeakBytes"))];
  return { seconds: statistics.timings["execTotalTime"] ?? 0, cells, error: "" };
}

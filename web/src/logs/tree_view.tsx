// The tree of a query of LogQL with the cost of each part.
//
// Each part is asked at the end of the time range, by a query that counts its lines or its series.

import { type QueryPart, ns, queryInstant, queryParts } from "../api/loki.ts";
import { type Page, shared } from "../frame/frame.tsx";
import { type PartCost, QueryTree, failureOf, useTree } from "../frame/query_tree.tsx";
import { bytes, count, plural } from "../frame/text.ts";
import { length } from "../frame/time.ts";
import { link } from "../frame/url.ts";

const COLUMNS = ["Result", "Lines read", "Bytes read", "Pages", "Store, cache"];
const NOTE = "Each part was asked by itself at the end of the time range; its cost contains those of the parts below it. Lines that are counted by the index are not read.";

export function LogTree({ query, page }: { query: string; page: Page }) {
  const { span } = page;
  const tree = useTree<QueryPart>(
    query,
    (signal) => queryParts(query, { start: ns(span.start), end: ns(span.end) }, { signal }),
    (part, signal) => costOf(part, span.end, signal),
    [span.start, span.end, page.runs],
  );
  const url = (part: QueryPart) => link("logs", { ...shared(page.place.params), q: part.text });
  return <QueryTree tree={tree} columns={COLUMNS} url={url} note={NOTE} />;
}

async function costOf(part: QueryPart, at: number, signal: AbortSignal): Promise<PartCost> {
  try {
    const { body } = await queryInstant(part.counting, ns(at), { signal });
    const number = Number((body.resultType === "vector" ? body.result[0]?.value?.[1] : undefined) ?? 0);
    const result = part.counts === "lines" ? plural(number, "line") : `${count(number)} series`;
    if (!body.stats) return { seconds: null, cells: [result], error: "" };
    const { summary, querier: { store } } = body.stats;
    const cells = [result, count(summary.totalLinesProcessed), bytes(summary.totalBytesProcessed), count(store.totalChunksDownloaded), length(store.chunksDownloadTime / 1e6)];
    return { seconds: summary.execTime, cells, error: "" };
  } catch (error) {
    return { seconds: null, cells: [], error: failureOf(error).message };
  }
}

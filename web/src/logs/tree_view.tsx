// The tree of a query of LogQL with the cost of each part.
//
// Each part is asked by itself, one after the other, at the end of the time range, by a query that counts its
// lines or its series. So the cost of a part contains those of the parts below it.

import { useState } from "preact/hooks";
import { ApiError } from "../api/client.ts";
import { type QueryPart, type Statistics, ns, queryInstant, queryParts } from "../api/loki.ts";
import { Problem, Progress, asApiError, useAnswer } from "../frame/answer.tsx";
import { type Page, shared } from "../frame/frame.tsx";
import { bytes, count, oneLine, plural } from "../frame/text.ts";
import { length } from "../frame/time.ts";
import { follow, link } from "../frame/url.ts";

interface Cost {
  number: number | null;
  statistics: Statistics | null;
  error: string;
}

export function LogTree({ query, page }: { query: string; page: Page }) {
  const { span } = page;
  const [costs, setCosts] = useState<ReadonlyMap<number, Cost>>(new Map());
  const [parts, setParts] = useState<QueryPart[]>([]);
  const answer = useAnswer(
    async (signal) => {
      setCosts(new Map());
      const found = await queryParts(query, { start: ns(span.start), end: ns(span.end) }, { signal });
      setParts(found.parts);
      for (const [n, part] of found.parts.entries()) {
        const cost = await costOf(part, span.end, signal);
        setCosts((old) => new Map(old).set(n, cost));
      }
      return found;
    },
    [query, span.start, span.end, page.runs],
  );
  const most = Math.max(1e-9, ...[...costs.values()].map(({ statistics }) => statistics?.summary.execTime ?? 0));
  return (
    <section class="query-tree" aria-label="Parts of the query">
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {parts.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Tree with costs">
          <table class="data">
            <thead>
              <tr><th>Part</th><th>Time</th><th class="number">Took</th><th class="number">Result</th><th class="number">Lines read</th><th class="number">Bytes read</th><th class="number">Pages</th><th class="number">Store, cache</th></tr>
            </thead>
            <tbody>{parts.map((part, n) => <PartRow key={n} part={part} cost={costs.get(n) ?? null} most={most} page={page} />)}</tbody>
          </table>
        </div>
      )}
      <p class="muted pad" role="status">
        {answer.loading ? `${costs.size} of ${plural(parts.length, "part")} asked. Escape stops.` : answer.cancelled ? `Stopped after ${plural(costs.size, "part")}.` : parts.length === 0 ? "" : "Each part was asked by itself at the end of the time range; its cost contains those of the parts below it. Lines that are counted by the index are not read."}
        {answer.data?.hasMore && ` Only the first ${plural(parts.length, "part")} are shown.`}
      </p>
    </section>
  );
}

async function costOf(part: QueryPart, at: number, signal: AbortSignal): Promise<Cost> {
  try {
    const { body } = await queryInstant(part.counting, ns(at), { signal });
    const first = body.resultType === "vector" ? body.result[0]?.value?.[1] : undefined;
    return { number: Number(first ?? 0), statistics: body.stats, error: "" };
  } catch (error) {
    const failure = asApiError(error);
    // A server that is away is asked again for all parts; other failures are those of the part.
    if (!(error instanceof ApiError) || failure.status === 0 || failure.status === 503) throw error;
    return { number: null, statistics: null, error: failure.message };
  }
}

function PartRow({ part, cost, most, page }: { part: QueryPart; cost: Cost | null; most: number; page: Page }) {
  const url = link("logs", { ...shared(page.place.params), q: part.text });
  const statistics = cost?.statistics ?? null;
  const took = statistics?.summary.execTime ?? 0;
  return (
    <tr>
      <td class="query">
        <span class="tree-part" style={{ "--depth": Math.min(part.depth, 12) }} title={oneLine(part.text, 2000)}>
          <a href={url} onClick={(event) => follow(event, url)}><code>{oneLine(part.title, 300)}</code></a>
        </span>
        {cost !== null && cost.error !== "" && <p class="wrong">{oneLine(cost.error, 300)}</p>}
      </td>
      <td><span class="tree-time"><span style={{ width: `${(took / most) * 100}%` }} /></span></td>
      <td class="number">{statistics ? length(took * 1000) : ""}</td>
      <td class="number">{cost?.number == null ? "" : part.counts === "lines" ? plural(cost.number, "line") : `${count(cost.number)} series`}</td>
      <td class="number">{statistics ? count(statistics.summary.totalLinesProcessed) : ""}</td>
      <td class="number">{statistics ? bytes(statistics.summary.totalBytesProcessed) : ""}</td>
      <td class="number">{statistics ? count(statistics.querier.store.totalChunksDownloaded) : ""}</td>
      <td class="number">{statistics ? length(statistics.querier.store.chunksDownloadTime / 1e6) : ""}</td>
    </tr>
  );
}

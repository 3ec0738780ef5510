// The tree of an expression with the cost of each part.
//
// Each part is asked by itself, one after the other, at the end of the time range, so the cost of a part
// contains those of the parts below it.

import { useState } from "preact/hooks";
import { ApiError } from "../api/client.ts";
import { type Answer, type Statistics, queryInstant } from "../api/prometheus.ts";
import { Problem, asApiError, useAnswer } from "../frame/answer.tsx";
import { type Page, shared } from "../frame/frame.tsx";
import { bytes, count, oneLine, plural } from "../frame/text.ts";
import { length } from "../frame/time.ts";
import { follow, link } from "../frame/url.ts";
import { PARTS_MAX, type Part, counting, partsOf } from "./tree.ts";

interface Cost {
  series: number | null;
  statistics: Statistics | null;
  error: string;
}

export function TreeView({ query, page }: { query: string; page: Page }) {
  const parts = partsOf(query);
  const [costs, setCosts] = useState<ReadonlyMap<number, Cost>>(new Map());
  const answer = useAnswer(
    async (signal) => {
      setCosts(new Map());
      for (const [n, part] of parts.entries()) {
        const cost = await costOf(part, page.span.end, signal);
        setCosts((old) => new Map(old).set(n, cost));
      }
      return true;
    },
    [query, page.span.end, page.runs],
  );
  if (parts.length === 0) return <p class="empty">The query has an error, or is only a number.</p>;
  const most = Math.max(1e-9, ...[...costs.values()].map(({ statistics }) => seconds(statistics)));
  return (
    <section class="query-tree" aria-label="Parts of the query">
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Tree with costs">
        <table class="data">
          <thead>
            <tr><th>Part</th><th>Time</th><th class="number">Took</th><th class="number">Series</th><th class="number">Samples</th><th class="number">Pages</th><th class="number">Store requests</th><th class="number">Memory</th></tr>
          </thead>
          <tbody>
            {parts.map((part, n) => <PartRow key={n} part={part} cost={costs.get(n) ?? null} most={most} page={page} />)}
          </tbody>
        </table>
      </div>
      <p class="muted pad">
        {answer.loading ? `${costs.size} of ${plural(parts.length, "part")} asked. Escape stops.` : answer.cancelled ? `Stopped after ${plural(costs.size, "part")}.` : "Each part was asked by itself at the end of the time range; its cost contains those of the parts below it."}
        {parts.length >= PARTS_MAX && ` Only the first ${PARTS_MAX} parts are shown.`}
      </p>
    </section>
  );
}

async function costOf(part: Part, at: number, signal: AbortSignal): Promise<Cost> {
  try {
    return costIn(await queryInstant(counting(part), at, { signal }));
  } catch (error) {
    const failure = asApiError(error);
    if (!(error instanceof ApiError) || failure.status === 0 || failure.status === 503) throw error;
    // A scalar or a text cannot be counted.
    return direct(part, at, signal, failure);
  }
}

async function direct(part: Part, at: number, signal: AbortSignal, before: ApiError): Promise<Cost> {
  if (before.status !== 400) return { series: null, statistics: null, error: before.message };
  try {
    const { data } = await queryInstant(part.text, at, { signal });
    const series = data.resultType === "scalar" || data.resultType === "string" ? null : data.result.length;
    return { series, statistics: data.stats ?? null, error: "" };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { series: null, statistics: null, error: error.message };
  }
}

function costIn({ data }: Answer): Cost {
  const first = data.resultType === "vector" ? data.result[0]?.value?.[1] : undefined;
  return { series: Number(first ?? 0), statistics: data.stats ?? null, error: "" };
}

function seconds(statistics: Statistics | null): number {
  return statistics?.timings["execTotalTime"] ?? 0;
}

function PartRow({ part, cost, most, page }: { part: Part; cost: Cost | null; most: number; page: Page }) {
  const url = part.isRange ? null : link("metrics", { ...shared(page.place.params), q: part.text });
  const statistics = cost?.statistics ?? null;
  const amount = (name: string) => statistics?.amounts?.[name] ?? 0;
  const title = <code>{oneLine(part.title, 300)}</code>;
  return (
    <tr>
      <td class="query">
        <span class="tree-part" style={{ "--depth": part.depth }} title={oneLine(part.text, 2000)}>
          {url === null ? title : <a href={url} onClick={(event) => follow(event, url)}>{title}</a>}
        </span>
        {cost !== null && cost.error !== "" && <p class="wrong">{oneLine(cost.error, 300)}</p>}
      </td>
      <td><span class="tree-time"><span style={{ width: `${(seconds(statistics) / most) * 100}%` }} /></span></td>
      <td class="number">{statistics ? length(seconds(statistics) * 1000) : ""}</td>
      <td class="number">{cost?.series == null ? "" : count(cost.series)}</td>
      <td class="number">{statistics ? count(statistics.samples.totalQueryableSamples) : ""}</td>
      <td class="number">{statistics ? count(amount("pagesRead")) : ""}</td>
      <td class="number">{statistics ? count(amount("storeRequests")) : ""}</td>
      <td class="number">{statistics ? bytes(amount("memoryPeakBytes")) : ""}</td>
    </tr>
  );
}

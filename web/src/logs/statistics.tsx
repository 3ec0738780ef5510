// What an answer cost, by phase.

import type { Statistics } from "../api/loki.ts";
import { Popover } from "../frame/popover.tsx";
import { bytes, count } from "../frame/text.ts";
import { length } from "../frame/time.ts";

const seconds = (value: number) => length(value * 1000);
const nanoseconds = (value: number) => length(value / 1e6);

export function LogStatistics({ statistics }: { statistics: Statistics }) {
  const { summary, querier, index, ingester } = statistics;
  const pages = statistics.cache["chunk"] ?? { entriesFound: 0, entriesRequested: 0 };
  const parts = statistics.cache["index"] ?? { entriesFound: 0, entriesRequested: 0 };
  const share = (found: number, asked: number) => (asked === 0 ? "nothing needed" : `${count(found)} of ${count(asked)}`);
  const rows: [string, string][] = [
    ["Waiting in the queue", seconds(summary.queueTime)],
    ["Selecting pages (index)", nanoseconds(querier.store.chunkRefsFetchTime)],
    ["Reading pages (cache, store)", nanoseconds(querier.store.chunksDownloadTime)],
    ["Execution, all threads", seconds(querier.querierExecTime)],
    ["Whole query", seconds(summary.execTime)],
    ["Lines processed", count(summary.totalLinesProcessed)],
    ["Bytes processed", bytes(summary.totalBytesProcessed)],
    ["Lines that passed the filters", count(summary.totalPostFilterLines)],
    ["Pages that matched", count(index.totalChunks)],
    ["Pages after needle filters", count(index.postFilterChunks)],
    ["Pages from the cache", share(pages.entriesFound, pages.entriesRequested)],
    ["Index parts from the cache", share(parts.entriesFound, parts.entriesRequested)],
    ["Heads in memory", count(ingester.totalReached)],
    ["Pieces by time, parallel pieces", `${count(summary.splits)}, ${count(summary.shards)}`],
  ];
  return (
    <Popover label={<span class="figures">{bytes(summary.totalBytesProcessed)} in {seconds(summary.execTime)}</span>} title="What the last request cost" align="left" class="quiet">
      {() => (
        <table class="statistics">
          <tbody>{rows.map(([name, value]) => <tr key={name}><th scope="row">{name}</th><td>{value}</td></tr>)}</tbody>
        </table>
      )}
    </Popover>
  );
}

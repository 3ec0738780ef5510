// The blocks of samples in the store.

import { useMemo } from "preact/hooks";
import { sampleBlocks } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count } from "../frame/text.ts";
import { dateTime, length } from "../frame/time.ts";
import type { TabProps } from "./page.tsx";

const ROWS_MAX = 1000;

export function Blocks({ page }: TabProps) {
  const answer = useAnswer((signal) => sampleBlocks({ signal }), [page.runs]);
  const blocks = useMemo(() => [...(answer.data ?? [])].sort((a, b) => b.maxTime - a.maxTime), [answer.data]);
  const sum = (of: (block: (typeof blocks)[number]) => number | undefined) => blocks.reduce((all, block) => all + (of(block) ?? 0), 0);
  return (
    <section aria-label="Blocks">
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && blocks.length === 0 && <p class="empty">No blocks of samples: all samples are still in memory and in the WAL.</p>}
      {blocks.length > 0 && (
        <>
          <p class="row"><b>{count(blocks.length)}</b> blocks of samples with <b>{count(sum(({ stats }) => stats.numSamples))}</b> samples. Blocks of lines have no API yet: <code>sandur inspect catalog</code> lists them.</p>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Blocks of samples">
            <table class="data">
              <thead><tr><th>First sample</th><th>Last sample</th><th class="number">Length</th><th class="number">Series</th><th class="number">Samples</th><th class="number">Level</th><th>Name</th></tr></thead>
              <tbody>
                {blocks.slice(0, ROWS_MAX).map((block) => (
                  <tr key={block.ulid}>
                    <td class="nowrap">{dateTime(block.minTime, page.zone)}</td>
                    <td class="nowrap">{dateTime(block.maxTime, page.zone)}</td>
                    <td class="number">{length(block.maxTime - block.minTime)}</td>
                    <td class="number">{count(block.stats.numSeries ?? 0)}</td>
                    <td class="number">{count(block.stats.numSamples ?? 0)}</td>
                    <td class="number">{block.compaction.level}</td>
                    <td><code>{block.ulid}</code></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {blocks.length > ROWS_MAX && <p class="muted pad">The newest {ROWS_MAX} blocks.</p>}
        </>
      )}
    </section>
  );
}

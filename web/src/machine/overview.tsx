// The state of the process: readiness, version, memory, cache, requests to the store and their cost.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { type OwnSample, buildInfo, ownMetrics, readiness, runtimeInfo, storeReport } from "../api/machine.ts";
import { type Answered, Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { bytes, count, visible } from "../frame/text.ts";
import { dateTime, length } from "../frame/time.ts";
import type { TabProps } from "./page.tsx";

const AGAIN_MS = 10_000;

export function Overview({ page }: TabProps) {
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && page.run(), AGAIN_MS);
    return () => clearInterval(timer);
  });
  const ready = useAnswer(
    async (signal) => ({
      push: await readiness("push", { signal }),
      query: await readiness("query", { signal }),
      all: await readiness("", { signal }),
    }),
    [page.runs],
  );
  const about = useAnswer(async (signal) => ({ build: await buildInfo({ signal }), runtime: await runtimeInfo({ signal }) }), [page.runs]);
  const metrics = useAnswer((signal) => ownMetrics({ signal }), [page.runs]);
  const store = useAnswer((signal) => storeReport({ signal }), [page.runs]);
  return (
    <section aria-label="Overview">
      <Progress on={ready.loading || about.loading || metrics.loading || store.loading} />
      <div class="cards">
        <Card title="Ready" of={ready}>
          {(data) => (
            <dl>
              <State name="Pushes" isGood={data.push.isReady} text={data.push.text} />
              <State name="Queries" isGood={data.query.isReady} text={data.query.text} />
              <State name="Process" isGood={data.all.isReady && data.all.text === "ready"} text={data.all.text} />
            </dl>
          )}
        </Card>
        <Card title="Process" of={about}>
          {({ build, runtime }) => (
            <dl>
              <Line name="Version" value={build.version} />
              <Line name="Started" value={dateTime(Date.parse(runtime.startTime), page.zone)} />
              <Line name="Running for" value={length(Date.parse(runtime.serverTime) - Date.parse(runtime.startTime))} />
              <Line name="Retention of samples" value={runtime.storageRetention} />
            </dl>
          )}
        </Card>
        <Card title="Work" of={metrics}>{(samples) => <Work samples={samples} />}</Card>
        <Card title="Memory" of={metrics}>{(samples) => <Memory samples={samples} />}</Card>
        <Card title="Cache, and what other sizes would give" of={metrics}>{(samples) => <Cache samples={samples} />}</Card>
      </div>
      <section class="card">
        <h2>Requests to the store, and their cost</h2>
        {store.error ? <Problem error={store.error} retry={store.retry} /> : <pre class="report" tabIndex={0}>{visible(store.data ?? "")}</pre>}
      </section>
    </section>
  );
}

function Card<T>({ title, of, children }: { title: string; of: Answered<T>; children: (data: T) => ComponentChildren }) {
  return (
    <section class="card">
      <h2>{title}</h2>
      {of.error ? <Problem error={of.error} retry={of.retry} /> : of.data !== null && children(of.data)}
    </section>
  );
}

function Line({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

function State({ name, isGood, text }: { name: string; isGood: boolean; text: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd class={isGood ? "good" : "bad"}>{isGood ? "✓" : "✕"} {visible(text)}</dd>
    </>
  );
}

/** The value of a label in the text of labels. */
function labelOf(labels: string, name: string): string {
  return new RegExp(`${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(labels)?.[1] ?? "";
}

class Reader {
  constructor(private readonly samples: OwnSample[]) {}

  all(name: string): OwnSample[] {
    return this.samples.filter((sample) => sample.name === name);
  }

  sum(name: string, part = ""): number {
    return this.all(name).filter(({ labels }) => labels.includes(part)).reduce((sum, { value }) => sum + value, 0);
  }
}

function Work({ samples }: { samples: OwnSample[] }) {
  const read = new Reader(samples);
  const figures: [string, string][] = [
    ["Queries that run", count(read.sum("sandur_queries_running"))],
    ["Queries that wait", count(read.sum("sandur_queries_waiting"))],
    ["Queries since the start", count(read.sum("sandur_queries_total"))],
    ["Cancelled by clients", count(read.sum("sandur_queries_cancelled_total"))],
    ["Live tails", count(read.sum("sandur_followers"))],
    ["Lines acknowledged", count(read.sum("sandur_push_entries_total"))],
    ["Samples acknowledged", count(read.sum("sandur_push_samples_total"))],
    ["Entries refused", count(read.sum("sandur_push_refused_entries_total"))],
    ["Rows in memory, not in blocks", count(read.sum("sandur_engine_head_rows"))],
    ["Blocks", count(read.sum("sandur_catalog_blocks"))],
  ];
  return <dl>{figures.map(([name, value]) => <Line key={name} name={name} value={value} />)}</dl>;
}

function Memory({ samples }: { samples: OwnSample[] }) {
  const read = new Reader(samples);
  const budgets = read.all("sandur_memory_budget_limit_bytes")
    .map(({ labels, value }) => ({ name: labelOf(labels, "budget"), limit: value, used: read.sum("sandur_memory_budget_used_bytes", labels) }))
    .sort((a, b) => b.limit - a.limit);
  return (
    <>
      <dl><Line name="Resident" value={bytes(read.sum("process_resident_memory_bytes"))} /></dl>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Memory budgets"><table class="data">
        <thead><tr><th>Budget</th><th class="number">Reserved</th><th class="number">Limit</th></tr></thead>
        <tbody>{budgets.map(({ name, used, limit }) => <tr key={name}><td>{name}</td><td class="number">{bytes(used)}</td><td class="number">{bytes(limit)}</td></tr>)}</tbody>
      </table></div>
    </>
  );
}

function Cache({ samples }: { samples: OwnSample[] }) {
  const read = new Reader(samples);
  const lookups = (tier: string) => read.sum("sandur_cache_lookups_total", `tier="${tier}"`);
  const all = lookups("ram") + lookups("flash") + lookups("miss");
  const share = (part: number) => (all === 0 ? "no look-ups yet" : `${((part / all) * 100).toFixed(1)} % of ${count(all)}`);
  const percent = (value: number | undefined) => (value === undefined || !Number.isFinite(value) ? "" : `${(value * 100).toFixed(1)} %`);
  const at = (name: string, labels: string) => read.all(name).find((sample) => sample.labels === labels)?.value;
  const scales = read.all("sandur_cache_mrc_capacity_bytes");
  const hasReads = read.sum("sandur_cache_mrc_sampled_reads") > 0;
  return (
    <>
      <dl>
        <Line name="Memory" value={`${bytes(read.sum("sandur_cache_memory_used_bytes"))} of ${bytes(read.sum("sandur_cache_memory_limit_bytes"))}`} />
        <Line name="Found in memory" value={share(lookups("ram"))} />
        <Line name="Found on flash" value={share(lookups("flash"))} />
        <Line name="Not found" value={share(lookups("miss"))} />
      </dl>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Predicted hits by capacity"><table class="data">
        <thead><tr><th class="number">Capacity</th><th class="number">Bytes</th><th class="number">Predicted hits</th><th class="number">Requests to the store</th></tr></thead>
        <tbody>
          {scales.map(({ labels, value }) => (
            <tr key={labels}>
              <td class="number">{labelOf(labels, "scale")} ×</td>
              <td class="number">{bytes(value)}</td>
              <td class="number">{hasReads ? percent(at("sandur_cache_mrc_hit_ratio", labels)) : "no reads yet"}</td>
              <td class="number">{hasReads ? percent(at("sandur_cache_mrc_store_requests_ratio", labels)) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table></div>
    </>
  );
}

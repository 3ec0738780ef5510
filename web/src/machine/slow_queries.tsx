// The last slow queries, and where their time went.

import { useState } from "preact/hooks";
import { type SlowQuery, slowQueries } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { bytes, count, oneLine } from "../frame/text.ts";
import { dateTime, iso, length } from "../frame/time.ts";
import { type Changes, follow, link } from "../frame/url.ts";
import type { TabProps } from "./page.tsx";

const PHASES: [keyof SlowQuery, string][] = [
  ["queue_ms", "queue"],
  ["index_ms", "index"],
  ["store_ms", "reading pages"],
  ["execution_ms", "execution"],
];

/** The page that asks the query again. */
function again(query: SlowQuery): string | null {
  if (query.query === "") return null;
  const range: Changes = { from: iso(query.start_ms), to: iso(query.end_ms) };
  if (query.signal === "logs") return link("logs", { ...range, q: query.query });
  if (query.query_type === "render") return link("graphite", { ...range, target: query.query });
  if (query.query_type === "metric") return link("metrics", { ...range, q: query.query });
  return null;
}

export function SlowQueries({ page }: TabProps) {
  const [ofAll, setOfAll] = useState(false);
  const answer = useAnswer((signal) => slowQueries(ofAll, 200, { signal }), [ofAll, page.runs]);
  const found = answer.data ?? [];
  return (
    <section aria-label="Slow queries">
      <div class="row">
        <label class="inline"><input type="checkbox" checked={ofAll} onChange={() => setOfAll(!ofAll)} /> of all tenants (needs the scope admin)</label>
        <span class="legend">{PHASES.map(([field, name], n) => <span key={field}><i style={{ background: `var(--series-${n})` }} /> {name}</span>)}</span>
        <span class="muted">Queries that took at least <code>query.slow_threshold</code>, newest first.</span>
      </div>
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && found.length === 0 && <p class="empty">No slow queries since this process started.</p>}
      {found.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of slow queries">
          <table class="data">
            <thead>
              <tr><th>Ended</th><th class="number">Took</th><th>Phases</th><th>Query</th><th class="number">Read</th><th class="number">Lines</th><th class="number">Status</th><th>Tenant</th><th>Client</th></tr>
            </thead>
            <tbody>
              {found.map((query, n) => {
                const url = again(query);
                return (
                  <tr key={n}>
                    <td class="nowrap">{dateTime(query.ended_ms, page.zone)}</td>
                    <td class="number">{length(query.duration_ms + query.queue_ms)}</td>
                    <td><Phases query={query} /></td>
                    <td class="query">
                      {url === null ? <code>{oneLine(query.query, 400) || query.query_type}</code> : <a href={url} onClick={(event) => follow(event, url)}><code>{oneLine(query.query, 400)}</code></a>}
                      {query.error && <p class="wrong">{oneLine(query.error, 300)}</p>}
                    </td>
                    <td class="number">{bytes(query.total_bytes)}</td>
                    <td class="number">{count(query.total_lines)}</td>
                    <td class="number">{query.status}</td>
                    <td><bdi>{oneLine(query.tenant, 60)}</bdi></td>
                    <td class="muted"><bdi>{oneLine(query.user_agent, 60)}</bdi></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Phases({ query }: { query: SlowQuery }) {
  const parts = PHASES.map(([field, name], n) => ({ name, value: Number(query[field]) || 0, n }));
  const sum = Math.max(1e-9, parts.reduce((all, { value }) => all + value, 0));
  const text = parts.map(({ name, value }) => `${name} ${length(value)}`).join(", ");
  return (
    <span class="phases" title={text} role="img" aria-label={text}>
      {parts.map(({ name, value, n }) => <span key={name} style={{ width: `${(value / sum) * 100}%`, background: `var(--series-${n})` }} />)}
    </span>
  );
}

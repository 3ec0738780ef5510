// The queries that run now in all processes of the store, and a button that ends one.

import { useEffect, useState } from "preact/hooks";
import { type RunningQueries as Running, type RunningQuery, endQuery, runningQueries } from "../api/machine.ts";
import type { ApiError } from "../api/client.ts";
import { Problem, asApiError, useAnswer } from "../frame/answer.tsx";
import { bytes, count, oneLine, plural } from "../frame/text.ts";
import { length } from "../frame/time.ts";
import type { TabProps } from "./page.tsx";

const AGAIN_MS = 2000;
const ROWS_MAX = 500;
const UNANSWERED_MAX = 5;
const NOTHING: Running = { queries: [], left_out: 0, answered: 0, unanswered: [] };

export function RunningQueries({ page }: TabProps) {
  const [ofAll, setOfAll] = useState(false);
  const [asked, setAsked] = useState(0);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const answer = useAnswer((signal) => runningQueries(ofAll, { signal }), [ofAll, page.runs, asked]);
  useEffect(() => {
    // An answer may take as long as the pause, and a new question would cancel it.
    if (answer.loading) return;
    const timer = setInterval(() => document.visibilityState === "visible" && setAsked((n) => n + 1), AGAIN_MS);
    return () => clearInterval(timer);
  }, [answer.loading]);
  const end = async (id: string) => {
    try {
      await endQuery(id);
      setFailure(null);
    } catch (error) {
      setFailure(asApiError(error));
    }
    setAsked((n) => n + 1);
  };
  const { queries: found, left_out, answered, unanswered } = answer.data ?? NOTHING;
  const isCluster = answered + unanswered.length > 1;
  return (
    <section aria-label="Running queries">
      <div class="row">
        <label class="inline"><input type="checkbox" checked={ofAll} onChange={() => setOfAll(!ofAll)} /> of all tenants (needs the scope admin)</label>
        <span class="muted">Read again two seconds after each answer. Ending a query needs the scope admin.</span>
      </div>
      {failure && <Problem error={failure} />}
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {unanswered.length > 0 && (
        <ul class="problem warning" role="status">
          {unanswered.slice(0, UNANSWERED_MAX).map(({ node, process, reason }) => <li key={process}>The queries of <b><bdi>{oneLine(node, 60)}</bdi></b> are not known: {oneLine(reason, 300)}.</li>)}
          {unanswered.length > UNANSWERED_MAX && <li>And those of {plural(unanswered.length - UNANSWERED_MAX, "further process")}.</li>}
        </ul>
      )}
      {answer.data && found.length === 0 && <p class="empty">{unanswered.length > 0 ? `No queries run in the ${plural(answered, "process")} that answered.` : "No queries run."}</p>}
      {found.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of running queries">
          <table class="data">
            <thead>
              <tr><th class="number">Runs for</th><th class="number">In the queue</th><th>Query</th><th class="number">Memory</th><th class="number">Read</th><th class="number">Lines</th>{isCluster && <th>Node</th>}<th>Tenant</th><th>Client</th><th><span class="hidden">Actions</span></th></tr>
            </thead>
            <tbody>{found.slice(0, ROWS_MAX).map((query) => <QueryRow key={query.id} query={query} isCluster={isCluster} onEnd={() => void end(query.id)} />)}</tbody>
          </table>
        </div>
      )}
      {found.length + left_out > Math.min(found.length, ROWS_MAX) && <p class="muted pad">{count(Math.min(found.length, ROWS_MAX))} of {count(found.length + left_out)} running queries are shown, the oldest first.</p>}
    </section>
  );
}

/** The button asks once more, since the client of the query loses its answer. */
function QueryRow({ query, isCluster, onEnd }: { query: RunningQuery; isCluster: boolean; onEnd: () => void }) {
  const [isSure, setIsSure] = useState(false);
  return (
    <tr>
      <td class="number">{length(query.elapsed_ms)}</td>
      <td class="number">{length(query.queue_ms)}</td>
      <td class="query"><code>{oneLine(query.query, 400) || query.query_type}</code></td>
      <td class="number">{bytes(query.memory_bytes)}</td>
      <td class="number">{bytes(query.total_bytes)}</td>
      <td class="number">{count(query.total_lines)}</td>
      {isCluster && <td><bdi>{oneLine(query.node, 60)}</bdi></td>}
      <td><bdi>{oneLine(query.tenant, 60)}</bdi></td>
      <td class="muted"><bdi>{oneLine(query.user_agent, 60)}</bdi></td>
      <td class="actions">
        <button onClick={() => (isSure && onEnd(), setIsSure(!isSure))} onBlur={() => setIsSure(false)}>{isSure ? "End it now" : "End"}</button>
      </td>
    </tr>
  );
}

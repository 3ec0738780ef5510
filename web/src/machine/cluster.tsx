// The nodes that share the store, as the process that answers sees them.

import { useEffect, useState } from "preact/hooks";
import { type ClusterNode, cluster } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { bytes, count, oneLine, plural } from "../frame/text.ts";
import { dateTime, length } from "../frame/time.ts";
import { type Trouble, ago, dollars, isFresh, rolesOf, troubles } from "./cluster_facts.ts";
import type { TabProps } from "./page.tsx";

const AGAIN_MS = 5000;
const ROWS_MAX = 500;

export function Cluster({ page }: TabProps) {
  const [asked, setAsked] = useState(0);
  const answer = useAnswer((signal) => cluster({ signal }), [page.runs, asked]);
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && setAsked((n) => n + 1), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  const found = answer.data;
  const sum = (of: (node: ClusterNode) => number | null) => (found?.nodes ?? []).reduce((all, node) => all + (of(node) ?? 0), 0);
  const priced = (found?.nodes ?? []).filter((node) => node.dollars_per_month !== null).length;
  return (
    <section aria-label="Cluster">
      <Progress on={answer.loading && found === null} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {found && (
        <>
          <p class="row">
            <span><b>{plural(found.nodes.length, "process")}</b>, as <b><bdi>{oneLine(found.node, 80)}</bdi></b> sees them.</span>
            <span class="muted">Catalog entry {count(found.catalog)}, read {length(found.catalog_age_ms)} ago. Writes {oneLine(found.writes, 80)}. Read again every five seconds.</span>
          </p>
          <Troubles list={troubles(found)} />
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of nodes">
            <table class="data nodes">
              <thead>
                <tr>
                  <th>Node</th><th>Zone</th><th>State</th><th>Roles</th><th>Version</th><th class="number">Runs for</th>
                  <th class="number" title="Since when no newer heartbeat was seen; 10 s are usual">Seen</th>
                  <th class="number" title="Entries of the catalog that the node had not read at its last heartbeat">Behind</th>
                  <th class="number" title="How old the view of the rows that the process has acknowledged is">Rows known</th>
                  <th class="number" title="Share of the windows that the node merges, and those with blocks">Merges</th>
                  <th class="number">Cache</th><th class="number">Requests</th><th class="number" title="Of requests to the store, at the rate of the last hour">A month</th><th>Address</th>
                </tr>
              </thead>
              <tbody>{found.nodes.slice(0, ROWS_MAX).map((node) => <Row key={node.incarnation} node={node} own={found.node} catalog={found.catalog} zone={page.zone} />)}</tbody>
              {found.nodes.length > 1 && priced > 0 && (
                <tfoot>
                  <tr>
                    <th scope="row">{priced < found.nodes.length ? `${priced} that answered` : "All"}</th>
                    <td colSpan={8} />
                    <td class="number">{count(sum(({ windows }) => windows))}</td>
                    <td class="number">{bytes(sum(({ cache_bytes }) => cache_bytes))}</td>
                    <td class="number">{count(sum(({ store_requests }) => store_requests))}</td>
                    <td class="number">{dollars(sum(({ dollars_per_month }) => dollars_per_month))}</td>
                    <td />
                  </tr>
                </tfoot>
              )}
            </table>
          </div>
          {found.nodes.length > ROWS_MAX && <p class="muted pad">The first {ROWS_MAX} of {count(found.nodes.length)}.</p>}
        </>
      )}
    </section>
  );
}

function Troubles({ list }: { list: Trouble[] }) {
  if (list.length === 0) return null;
  return <ul class="problem warning" role="status">{list.map(({ text }) => <li key={text}>{oneLine(text, 400)}</li>)}</ul>;
}

function Row({ node, own, catalog, zone }: { node: ClusterNode; own: string; catalog: number; zone: string }) {
  const dash = <span class="muted">–</span>;
  const share = node.shares_percent["compact"];
  return (
    <tr>
      <th scope="row"><bdi>{oneLine(node.id, 60)}</bdi>{node.id === own && <span class="muted"> (answers)</span>}</th>
      <td>{node.zone === "" ? dash : <bdi>{oneLine(node.zone, 40)}</bdi>}</td>
      <td class={node.state === "serving" && node.member ? "good" : "bad"}>{node.state}{!node.member && <span title="The node has no share of the work"> (out)</span>}</td>
      <td>{rolesOf(node)}</td>
      <td>{node.version === "" ? dash : oneLine(node.version, 20)}</td>
      <td class="number" title={`Since ${dateTime(node.started_ms, zone)}`}>{length(Math.max(0, Date.now() - node.started_ms))}</td>
      <td class="number">{node.silent_ms === null ? "ended" : ago(node.silent_ms)}</td>
      <td class="number">{node.catalog === null ? dash : count(Math.max(0, catalog - node.catalog))}</td>
      <td class={isFresh(node) ? "number" : "number bad"} title={node.rows_missing ?? ""}>{node.rows_age_ms === null ? "never" : ago(node.rows_age_ms)}</td>
      <td class="number">{share === undefined ? "" : `${share.toFixed(share < 10 ? 1 : 0)} %, `}{plural(node.windows, "window")}</td>
      <td class="number">{node.cache_bytes === 0 ? dash : bytes(node.cache_bytes)}</td>
      <td class="number">{node.store_requests === null ? <span class="muted" title={node.unanswered ?? ""}>no answer</span> : count(node.store_requests)}</td>
      <td class="number" title={node.dollars === null ? "" : `${dollars(node.dollars)} since it started`}>{node.dollars_per_month === null ? dash : dollars(node.dollars_per_month)}</td>
      <td>{node.address === "" ? dash : <code>{oneLine(node.address, 80)}</code>}</td>
    </tr>
  );
}

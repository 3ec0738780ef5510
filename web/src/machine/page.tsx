// The route of the machine: state, nodes, slow queries, ingest, cardinality, blocks, cost, metrics of the process, settings.

import type { ComponentType } from "preact";
import type { Page } from "../frame/frame.tsx";
import { change } from "../frame/url.ts";
import { Blocks } from "./blocks.tsx";
import { Cardinality } from "./cardinality.tsx";
import { Cluster } from "./cluster.tsx";
import { Ingest } from "./ingest.tsx";
import { Overview } from "./overview.tsx";
import { OwnMetrics } from "./own_metrics.tsx";
import { RunningQueries } from "./running_queries.tsx";
import { Settings } from "./settings.tsx";
import { SlowQueries } from "./slow_queries.tsx";

export interface TabProps {
  page: Page;
}

const TABS: [string, string, ComponentType<TabProps>][] = [
  ["overview", "Overview", Overview],
  ["cluster", "Cluster", Cluster],
  ["running", "Running queries", RunningQueries],
  ["queries", "Slow queries", SlowQueries],
  ["ingest", "Ingest", Ingest],
  ["cardinality", "Cardinality", Cardinality],
  ["blocks", "Blocks", Blocks],
  ["metrics", "Own metrics", OwnMetrics],
  ["settings", "Settings", Settings],
];

export default function MachinePage({ page }: { page: Page }) {
  const chosen = page.place.params.get("tab") ?? "overview";
  const [name, , View] = TABS.find(([known]) => known === chosen) ?? (TABS[0] as (typeof TABS)[number]);
  return (
    <section class="machine">
      <div class="toolbar">
        <div class="tabs" role="group" aria-label="Parts of the machine">
          {TABS.map(([tab, title]) => (
            <button key={tab} class={tab === name ? "chosen" : ""} aria-pressed={tab === name} onClick={() => change({ tab: tab === "overview" ? null : tab })}>{title}</button>
          ))}
        </div>
      </div>
      <div class="machine-body"><View key={name} page={page} /></div>
    </section>
  );
}

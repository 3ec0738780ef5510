// The route of dashboards: a list of those of this browser, of the server and of the page, or one of them.

import { useEffect, useMemo, useState } from "preact/hooks";
import { OF_SERVER, servedDashboard } from "../api/dashboards.ts";
import { Progress, useAnswer } from "../frame/answer.tsx";
import type { Page } from "../frame/frame.tsx";
import { oneLine } from "../frame/text.ts";
import { change } from "../frame/url.ts";
import { DashboardList } from "./list.tsx";
import { type Dashboard, dashboardOf } from "./model.ts";
import { unpacked } from "./share.ts";
import { SHIPPED } from "./shipped.ts";
import { keptText } from "./store.ts";
import { DashboardView } from "./view.tsx";

/** Where a dashboard comes from; only that of the browser can be changed in place. */
export interface Origin {
  kind: "shipped" | "kept" | "link" | "server";
  id: string;
  source: string;
}

export default function DashboardsPage({ page }: { page: Page }) {
  const { params } = page.place;
  const [id, shared] = [params.get("d"), params.get("def")];
  const [version, setVersion] = useState(0);
  const { origin, problem } = useOrigin(page, id, shared, version);
  const read = useMemo(() => (origin ? parsed(origin.source) : null), [origin]);
  if (id === null && shared === null) return <DashboardList page={page} />;
  const failure = problem !== "" ? problem : read && "problem" in read ? read.problem : "";
  if (failure !== "") {
    return (
      <section>
        <div class="problem" role="alert">
          <strong>This dashboard cannot be shown</strong>
          <p>{oneLine(failure, 500)}</p>
          <button onClick={() => change({ d: null, def: null })}>All dashboards</button>
        </div>
      </section>
    );
  }
  if (!origin || !read || !("dashboard" in read)) return <section><Progress on /></section>;
  return <DashboardView key={`${origin.kind} ${origin.id}`} page={page} origin={origin} dashboard={read.dashboard} onChanged={() => setVersion((n) => n + 1)} />;
}

function parsed(source: string): { dashboard: Dashboard } | { problem: string } {
  try {
    return { dashboard: dashboardOf(source) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

interface Found {
  origin: Origin | null;
  problem: string;
}

const AWAITED: Found = { origin: null, problem: "" };

function useOrigin(page: Page, id: string | null, shared: string | null, version: number): Found {
  const linked = useLinked(shared);
  const served = useServed(page, shared === null && id?.startsWith(OF_SERVER) ? id.slice(OF_SERVER.length) : null);
  return useMemo(() => {
    if (shared !== null) return linked;
    if (id === null) return AWAITED;
    if (id.startsWith(OF_SERVER)) return served;
    const shipped = SHIPPED.find((one) => one.id === id);
    if (shipped) return { origin: { kind: "shipped", id, source: shipped.source }, problem: "" };
    const source = keptText(id);
    return source === null ? { origin: null, problem: "This browser does not keep this dashboard. Whoever sent the link can export it, or send a link with the dashboard in it." } : { origin: { kind: "kept", id, source }, problem: "" };
  }, [id, shared, linked, served, version]);
}

/** The dashboard that is in a link. */
function useLinked(shared: string | null): Found {
  const [linked, setLinked] = useState<{ shared: string; source: string; problem: string } | null>(null);
  useEffect(() => {
    if (shared === null) return;
    unpacked(shared).then(
      (source) => setLinked({ shared, source, problem: "" }),
      (error: unknown) => setLinked({ shared, source: "", problem: error instanceof Error ? error.message : String(error) }),
    );
  }, [shared]);
  return useMemo(() => {
    if (shared === null || linked?.shared !== shared) return AWAITED;
    return linked.problem === "" ? { origin: { kind: "link", id: "", source: linked.source }, problem: "" } : { origin: null, problem: linked.problem };
  }, [shared, linked]);
}

/** The dashboard of the server with this name. It is asked for once: what is shown stays until it is opened again. */
function useServed(page: Page, name: string | null): Found {
  const tenant = page.place.params.get("tenant");
  const { data, error } = useAnswer((signal) => (name === null ? null : servedDashboard(name, { signal }).then((source) => ({ name, source }))), [name, tenant]);
  return useMemo(() => {
    if (name === null) return AWAITED;
    if (error) return { origin: null, problem: [error.message.trim(), error.hint].filter((part) => part !== "").join(" ") };
    return data?.name === name ? { origin: { kind: "server", id: name, source: data.source }, problem: "" } : AWAITED;
  }, [name, data, error]);
}

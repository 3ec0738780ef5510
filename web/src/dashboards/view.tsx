// One dashboard: variables, sections with panels, automatic refresh, export and edit.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { copyText } from "../frame/clipboard.ts";
import { Dialog } from "../frame/dialog.tsx";
import { type Page, shared } from "../frame/frame.tsx";
import { useKeys } from "../frame/keys.ts";
import { Popover } from "../frame/popover.tsx";
import { oneLine, plural } from "../frame/text.ts";
import { duration, instant, iso } from "../frame/time.ts";
import { change, link, show } from "../frame/url.ts";
import { PLACED_MAX, type PlacedSection, placed } from "./layout.ts";
import { type Dashboard, dashboardOf } from "./model.ts";
import type { Origin } from "./page.tsx";
import { PanelView } from "./panel.tsx";
import { packed } from "./share.ts";
import { keep } from "./store.ts";
import { VariableBar } from "./variable_bar.tsx";
import { resolved } from "./variables.ts";

interface ViewProps {
  page: Page;
  origin: Origin;
  dashboard: Dashboard;
  onChanged: () => void;
}

const PREFIX = "var-";

export function DashboardView({ page, origin, dashboard, onChanged }: ViewProps) {
  const { params } = page.place;
  const [isEditing, setIsEditing] = useState(false);
  const pending = useRef(0);
  const rangeNote = useOwnRange(page, dashboard);
  const refresh = params.get("refresh") ?? dashboard.refresh;
  useRefresh(refresh, page.run, pending);
  const given = [...params].filter(([name]) => name.startsWith(PREFIX));
  const variables = useAnswer(
    (signal) => resolved(dashboard.variables, (name) => given.filter(([key]) => key === PREFIX + name).map(([, value]) => value), page.span, signal),
    [dashboard, given.join("\u0000"), page.range.from, page.range.to],
  );
  const { sections, isCut } = useMemo(() => {
    const scope = new Map((variables.data ?? []).map(({ variable, bound }) => [variable.name, bound]));
    return placed(dashboard.sections, scope);
  }, [dashboard, variables.data]);
  useKeys([{ key: "e", does: "Edit the dashboard as JSON", run: () => setIsEditing(true) }]);
  const cut = isCut ? [`Only the first ${PLACED_MAX} panels are shown, repeated ones included.`] : [];
  const notes = [...dashboard.notes, ...cut, ...(rangeNote === "" ? [] : [rangeNote])];
  const refused = dashboard.sections.flatMap(({ panels }) => panels).filter(({ kind }) => kind === null).length;
  return (
    <section class="dashboard">
      <div class="toolbar">
        <button class="quiet" onClick={() => change({ d: null, def: null, refresh: null, ...Object.fromEntries(given.map(([name]) => [name, null])) })}>‹ All dashboards</button>
        <h2 title={dashboard.description === "" ? undefined : oneLine(dashboard.description, 1000)}><bdi>{oneLine(dashboard.title, 120)}</bdi></h2>
        {(notes.length > 0 || refused > 0) && (
          <Popover label={<span class="warning">{plural(notes.length + (refused > 0 ? 1 : 0), "note")}</span>} title="What is not supported" class="quiet">
            {() => <ul class="notes">{refused > 0 && <li>{plural(refused, "panel")} not supported; each says why.</li>}{notes.map((note) => <li key={note}>{oneLine(note, 500)}</li>)}</ul>}
          </Popover>
        )}
        <span class="spring" />
        <Refresh refresh={refresh} />
        {origin.kind === "server" && <KeepCopy source={origin.source} />}
        <Share origin={origin} />
        <Export title={dashboard.title} source={origin.source} />
        <button class="quiet" title="Edit as JSON (e)" onClick={() => setIsEditing(true)}>Edit</button>
      </div>
      {variables.data && <VariableBar variables={variables.data} onChoose={(name, values) => change({ [PREFIX + name]: values }, "replace")} />}
      <Progress on={variables.loading && variables.data === null} />
      {variables.error && <Problem error={variables.error} retry={variables.retry} />}
      <div class="dashboard-body">
        {variables.data && sections.map((section) => <SectionView key={section.key} section={section} page={page} onPending={(by) => (pending.current += by)} />)}
        {dashboard.sections.every(({ panels }) => panels.length === 0) && (
          <div class="empty">
            <h2>No panels</h2>
            <p>Write a query on the page of logs, metrics or Graphite and choose "Add to a dashboard", or edit the dashboard as JSON.</p>
          </div>
        )}
      </div>
      {isEditing && <Edit origin={origin} onClose={() => setIsEditing(false)} onChanged={onChanged} />}
    </section>
  );
}

function SectionView({ section, page, onPending }: { section: PlacedSection; page: Page; onPending: (by: 1 | -1) => void }) {
  const [isClosed, setIsClosed] = useState(section.isClosed);
  const kept = shared(page.place.params);
  return (
    <section class="dashboard-section" aria-label={section.title === "" ? "Panels" : oneLine(section.title, 120)}>
      {section.title !== "" && (
        <button class="quiet section-title" aria-expanded={!isClosed} onClick={() => setIsClosed(!isClosed)}>{isClosed ? "▸" : "▾"} <bdi>{oneLine(section.title, 160)}</bdi> <span class="muted">{plural(section.panels.length, "panel")}</span></button>
      )}
      {!isClosed && (
        <div class="panels">
          {section.panels.map((one) => (
            <PanelView key={one.key} placed={one} page={page} kept={kept} onPending={onPending} onZoom={(zoomed) => page.setRange({ from: iso(zoomed.start), to: iso(zoomed.end) })} />
          ))}
        </div>
      )}
    </section>
  );
}

/** Takes the range of the dashboard if the URL has none. Returns a note if the page does not know its form. */
function useOwnRange(page: Page, { range }: Dashboard): string {
  const has = page.place.params.has("from") || page.place.params.has("to");
  const isKnown = range !== null && instant(range.from, Date.now(), page.zone) !== null && instant(range.to, Date.now(), page.zone) !== null;
  useEffect(() => {
    if (!has && isKnown && range) change({ from: range.from, to: range.to }, "replace");
  }, []);
  return range !== null && !isKnown ? `The time range "${range.from}" to "${range.to}" has a form that the page does not know.` : "";
}

const REFRESHES = ["5s", "10s", "30s", "1m", "5m", "15m", "1h"];
const REFRESH_MIN_MS = 1000;

/** Asks again at intervals while the page is visible and no panel awaits an answer. */
function useRefresh(refresh: string, run: () => void, pending: { current: number }): void {
  const latest = useRef(run);
  latest.current = run;
  const every = duration(refresh);
  useEffect(() => {
    if (every === null || every <= 0) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && pending.current === 0) latest.current();
    }, Math.max(REFRESH_MIN_MS, every));
    return () => clearInterval(timer);
  }, [every]);
}

function Refresh({ refresh }: { refresh: string }) {
  const isOn = duration(refresh) !== null;
  const offered = isOn && !REFRESHES.includes(refresh) ? [refresh, ...REFRESHES] : REFRESHES;
  return (
    <label class="inline">
      <span class="muted">Refresh</span>{" "}
      <select value={isOn ? refresh : "off"} onChange={(event) => change({ refresh: event.currentTarget.value }, "replace")}>
        <option value="off">off</option>
        {offered.map((text) => <option key={text} value={text}>{text}</option>)}
      </select>
    </label>
  );
}

/** Copies a link; for a dashboard of this browser the link contains it. */
function Share({ origin }: { origin: Origin }) {
  const [state, setState] = useState("");
  const share = async () => {
    const target = new URL(location.href);
    if (origin.kind === "kept") {
      const parameter = await packed(origin.source);
      if (parameter === null) return setState("Too large for a link: export it");
      target.searchParams.delete("d");
      target.searchParams.set("def", parameter);
    }
    setState((await copyText(target.href)) ? "Copied" : "The browser does not permit it");
  };
  return <button class="quiet" title="Copy a link that opens this dashboard in any browser" onClick={() => void share()} onBlur={() => setState("")}>{state === "" ? "Copy link" : state}</button>;
}

/** Keeps a dashboard of the server in the browser, where it can be changed. */
function KeepCopy({ source }: { source: string }) {
  const [problem, setProblem] = useState("");
  const save = () => {
    try {
      show(link("dashboards", { ...shared(new URLSearchParams(location.search)), d: keep(source) }));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      {problem !== "" && <span class="wrong" role="status">{oneLine(problem, 200)}</span>}
      <button class="quiet" title="The file on the server stays as it is" onClick={save}>Save a copy in this browser</button>
    </>
  );
}

function Export({ title, source }: { title: string; source: string }) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([source], { type: "application/json" }));
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = `${title.replace(/[^\w-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "dashboard"}.json`;
    anchor.click();
    URL.revokeObjectURL(url);
  };
  return <button class="quiet" title="Save the JSON as a file" onClick={save}>Export</button>;
}

function Edit({ origin, onClose, onChanged }: { origin: Origin; onClose: () => void; onChanged: () => void }) {
  const [text, setText] = useState(origin.source);
  const [problem, setProblem] = useState("");
  const isKept = origin.kind === "kept";
  const save = () => {
    try {
      dashboardOf(text);
      const id = keep(text, isKept ? origin.id : undefined);
      onClose();
      if (isKept) onChanged();
      else show(link("dashboards", { ...shared(new URLSearchParams(location.search)), d: id }));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <Dialog title="Edit as JSON" wide onClose={onClose}>
      <label>
        <span class="muted">{isKept ? "The dashboard is kept in this browser." : "A copy is kept in this browser."}</span>
        <textarea class="edit-text" spellcheck={false} aria-label="JSON of the dashboard" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <p class="wrong" role="status">{oneLine(problem, 500)}</p>
      <div><button class="primary" onClick={save}>{isKept ? "Save" : "Keep a copy"}</button></div>
    </Dialog>
  );
}

// The list of dashboards, and the import of a file or a text.

import { useState } from "preact/hooks";
import { OF_SERVER, type Served, type ServedFile, servedDashboards } from "../api/dashboards.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { type Page, shared } from "../frame/frame.tsx";
import { oneLine } from "../frame/text.ts";
import { dateTime } from "../frame/time.ts";
import { follow, link, show } from "../frame/url.ts";
import { TEXT_MAX, emptyDashboard } from "./model.ts";
import { SHIPPED } from "./shipped.ts";
import { keep, keptDashboards, remove } from "./store.ts";

export function DashboardList({ page }: { page: Page }) {
  const [kept, setKept] = useState(keptDashboards);
  const [problem, setProblem] = useState("");
  const common = { tz: shared(page.place.params)["tz"] ?? null, tenant: shared(page.place.params)["tenant"] ?? null };
  const url = (id: string) => link("dashboards", { ...common, d: id });
  const open = (source: string) => {
    try {
      show(url(keep(source)));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const sorted = [...kept].sort((a, b) => a.title.localeCompare(b.title));
  return (
    <section class="dashboards">
      <div class="dashboard-lists">
        <section class="card" aria-label="Dashboards of this browser">
          <h2>In this browser</h2>
          {sorted.length === 0 && <p class="muted">None yet. Import one of Grafana, or add a panel from the pages of logs, metrics or Graphite.</p>}
          <ul>
            {sorted.map(({ id, title, changed }) => (
              <li key={id}>
                <a href={url(id)} onClick={(event) => follow(event, url(id))}><bdi>{oneLine(title, 120)}</bdi></a>
                <span class="muted">{dateTime(changed, page.zone)}</span>
                <Remove title={title} onRemove={() => (remove(id), setKept(keptDashboards()))} />
              </li>
            ))}
          </ul>
          <div><button onClick={() => open(emptyDashboard("New dashboard"))}>New dashboard</button></div>
        </section>
        <OfServer page={page} url={(name) => url(OF_SERVER + name)} />
        <section class="card" aria-label="Dashboards of Sandur">
          <h2>Of Sandur itself</h2>
          <ul>
            {SHIPPED.map(({ id, about }) => (
              <li key={id}><a href={url(id)} onClick={(event) => follow(event, url(id))}>{id[0]?.toUpperCase()}{id.slice(1)}</a> <span class="muted">{about}</span></li>
            ))}
          </ul>
          <p class="muted">They show the metrics of Sandur, which the server stores if it scrapes itself: <code>sandur serve --scrape localhost:3100</code>.</p>
        </section>
        <Import onText={open} problem={problem} />
      </div>
    </section>
  );
}

/** The dashboards that an operator provides; a file that cannot be used is shown with the reason. */
function OfServer({ page, url }: { page: Page; url: (name: string) => string }) {
  const { data, error, loading, retry } = useAnswer((signal) => servedDashboards({ signal }), [page.place.params.get("tenant"), page.runs]);
  return (
    <section class="card" aria-label="Dashboards of the server">
      <h2>On the server</h2>
      <Progress on={loading && data === null} />
      {error ? <Problem error={error} retry={retry} /> : data && <ServedList served={data} page={page} url={url} />}
    </section>
  );
}

function ServedList({ served, page, url }: { served: Served; page: Page; url: (name: string) => string }) {
  if (!served.configured) return <p class="muted">None. <code>sandur serve --dashboards FOLDER</code> offers the dashboards of a folder to everyone.</p>;
  return (
    <>
      {served.notes.map((note) => <p key={note} class="warning">{oneLine(note, 500)}</p>)}
      {served.dashboards.length === 0 && <p class="muted">The folder has no files NAME.json.</p>}
      <ul>{served.dashboards.map((file) => <ServedRow key={file.name} file={file} page={page} url={url(file.name)} />)}</ul>
    </>
  );
}

function ServedRow({ file, page, url }: { file: ServedFile; page: Page; url: string }) {
  if (file.error !== undefined) {
    return <li class="unusable"><bdi>{oneLine(file.name, 120)}</bdi> <span class="wrong">{oneLine(file.error, 400)}</span></li>;
  }
  const title = file.title ? file.title : file.name;
  return (
    <li>
      <a href={url} title={`${oneLine(file.name, 200)}.json`} onClick={(event) => follow(event, url)}><bdi>{oneLine(title, 120)}</bdi></a>
      <span class="muted">{file.kind === "grafana" ? "Grafana, " : ""}{file.modified_ms === null ? "" : dateTime(file.modified_ms, page.zone)}</span>
    </li>
  );
}

/** The button asks once more, since a dashboard that is removed cannot be had again. */
function Remove({ title, onRemove }: { title: string; onRemove: () => void }) {
  const [isSure, setIsSure] = useState(false);
  return <button class="quiet tiny" aria-label={`${isSure ? "Remove now" : "Remove"} ${oneLine(title, 60)}`} onClick={() => (isSure ? onRemove() : setIsSure(true))} onBlur={() => setIsSure(false)}>{isSure ? "Remove now" : "✕"}</button>;
}

function Import({ onText, problem }: { onText: (text: string) => void; problem: string }) {
  const [text, setText] = useState("");
  const [unread, setUnread] = useState("");
  const read = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > TEXT_MAX) return setUnread("The file is larger than 2 MiB.");
    setUnread("");
    onText(await file.text());
  };
  return (
    <section class="card" aria-label="Import">
      <h2>Import</h2>
      <p class="muted">A dashboard of Grafana (JSON) or one that was exported here. It stays in this browser.</p>
      <label>
        A file
        <input type="file" accept=".json,application/json" onChange={(event) => void read(event.currentTarget.files?.[0])} />
      </label>
      <label>
        Or its text
        <textarea rows={6} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <p class="wrong" role="status">{unread || oneLine(problem, 500)}</p>
      <div><button class="primary" disabled={text.trim() === ""} onClick={() => onText(text)}>Import</button></div>
    </section>
  );
}

// The route of logs: a query, its histogram, its lines or patterns, live tail.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ns } from "../api/loki.ts";
import { Problem, Progress } from "../frame/answer.tsx";
import { AddToDashboard } from "../frame/add_to_dashboard.tsx";
import type { Page } from "../frame/frame.tsx";
import { remember } from "../frame/history.ts";
import { useKeys } from "../frame/keys.ts";
import { QueryMenu } from "../frame/query_menu.tsx";
import { oneLine, plural } from "../frame/text.ts";
import { type Span, iso } from "../frame/time.ts";
import { change } from "../frame/url.ts";
import { Editor } from "../editor/editor.tsx";
import { logql } from "../editor/logql.ts";
import { Context, contextText } from "./context.tsx";
import { Detail } from "./detail.tsx";
import { Download } from "./download.tsx";
import { boxOf } from "./differences.ts";
import { Differences } from "./differences_view.tsx";
import { LogTree } from "./tree_view.tsx";
import { FieldBar } from "./field_bar.tsx";
import { filtered } from "./filters.ts";
import { useSought } from "./highlight.tsx";
import { Histogram } from "./histogram.tsx";
import type { Bars } from "./levels.ts";
import { type End, LogList } from "./list.tsx";
import { LogMetric } from "./log_metric.tsx";
import { logNames } from "./names.ts";
import { Patterns } from "./patterns.tsx";
import { type Operator, kindOf, streamSelector, withCondition } from "./query.ts";
import { type Field, type Row, fieldsOf } from "./rows.ts";
import { Start } from "./start.tsx";
import { LogStatistics } from "./statistics.tsx";
import { useTail } from "./tail.ts";
import { type Grouping, LEVEL, groupingOf, useBars } from "./use_bars.ts";
import { type Order, type WindowState, useWindow } from "./use_window.ts";

export default function LogsPage({ page }: { page: Page }) {
  const { params } = page.place;
  const query = params.get("q") ?? "";
  const [draft, setDraft] = useState(query);
  const [version, setVersion] = useState(0);
  useEffect(() => setDraft(query), [query, version]);
  useEffect(() => remember("logql", query), [query]);
  const span = useRef(page.span);
  span.current = page.span;
  const language = useMemo(() => logql(logNames(() => span.current)), []);
  const kind = kindOf(query);
  const context = params.get("context");
  const setQuery = (changed: string) => {
    change({ q: changed.trim(), at: null });
    setVersion((n) => n + 1);
  };
  const submit = () => {
    if (draft.trim() !== query) setQuery(draft);
    else page.run();
  };
  return (
    <section class="logs">
      <div class="query-bar">
        <Editor value={query} version={version} label="LogQL query" hint='{service_name="api"} |= "timeout"' language={language} onChange={setDraft} onRun={submit} />
        <button class="primary" onClick={submit}>Run</button>
        <QueryMenu language="logql" text={draft} onChoose={setQuery} />
      </div>
      {kind === "empty" && <Start span={page.span} onQuery={setQuery} />}
      {kind === "metric" && <Metric page={page} query={query} />}
      {kind === "lines" && <Lines page={page} query={query} setQuery={setQuery} />}
      {context !== null && <Context text={context} zone={page.zone} onClose={() => change({ context: null })} />}
    </section>
  );
}

/** A metric query as a plot or as the tree of its parts. */
function Metric({ page, query }: { page: Page; query: string }) {
  const isTree = page.place.params.get("view") === "tree";
  return (
    <>
      <div class="toolbar">
        <div class="tabs" role="group" aria-label="View">
          <button aria-pressed={!isTree} class={isTree ? "" : "chosen"} onClick={() => change({ view: null })}>Plot</button>
          <button aria-pressed={isTree} class={isTree ? "chosen" : ""} title="The parts of the query with their costs" onClick={() => change({ view: "tree" })}>Tree</button>
        </div>
      </div>
      {isTree ? <LogTree page={page} query={query} /> : <LogMetric page={page} query={query} />}
    </>
  );
}

interface LinesProps {
  page: Page;
  query: string;
  setQuery: (query: string) => void;
}

function Lines({ page, query, setQuery }: LinesProps) {
  const { params } = page.place;
  const view = {
    columns: (params.get("cols") ?? "").split(",").filter((name) => name !== ""),
    wrap: params.get("wrap") === "1",
    order: (params.get("order") === "oldest" ? "oldest" : "newest") as Order,
    isLive: params.get("live") === "1",
    isPatterns: params.get("view") === "patterns",
    isDifferences: params.get("view") === "differences",
    isTree: params.get("view") === "tree",
    at: params.get("at"),
    by: groupingOf(params.get("by")),
    fields: params.get("fields") === "1",
  };
  const isList = !view.isLive && !view.isPatterns && !view.isDifferences && !view.isTree;
  const box = view.isDifferences ? boxOf(params.get("box"), page.span) : null;
  const [paused, setPaused] = useState(false);
  const [seen, setSeen] = useState<Span | null>(null);
  const lines = useWindow(query, page.span, view.order, view.at, page.runs, isList);
  const tail = useTail(query, view.isLive, paused);
  const bars = useBars(query, page, view.by, !view.isLive);
  const sought = useSought(query);
  const toggle = (name: string, on: boolean) => change({ [name]: on ? "1" : null }, "replace");
  const onColumn = (name: string) => {
    const columns = view.columns.includes(name) ? view.columns.filter((kept) => kept !== name) : [...view.columns, name];
    change({ cols: columns.join(",") }, "replace");
  };
  const onFilter = (field: Field, operator: Operator, value: string) => setQuery(filtered(query, field, operator, value));
  const onContext = (row: Row) => change({ context: contextText(row.ns, streamSelector(row.labels)) });
  const live = () => change({ live: view.isLive ? null : "1", view: null, box: null });
  useKeys([
    { key: "l", does: "Live tail on or off", run: live },
    { key: "p", does: "Pause the live tail, or go on", run: () => setPaused(!paused) },
    { key: "w", does: "Wrap long lines", run: () => toggle("wrap", !view.wrap) },
    { key: "d", does: "Differences between a part of the time range and the rest", run: () => change({ view: "differences", live: null }) },
    { key: "f", does: "Show the fields", run: () => toggle("fields", !view.fields) },
  ]);
  const detail = (row: Row) => (
    <Detail row={row} query={query} span={page.span} zone={page.zone} columns={view.columns} onFilter={onFilter} onColumn={onColumn} onContext={onContext} />
  );
  const onSeen = (first: Row, last: Row) => {
    const [start, end] = [Math.min(first.ms, last.ms), Math.max(first.ms, last.ms)];
    setSeen((old) => (old && old.start === start && old.end === end ? old : { start, end }));
  };

  return (
    <>
      {!view.isLive && (
        <div class="histogram-box">
          <Progress on={bars.loading} />
          <Histogram
            bars={bars.data}
            span={page.span}
            zone={page.zone}
            seen={view.isDifferences ? box : isList ? seen : null}
            onZoom={(zoomed) => (view.isDifferences ? change({ box: `${zoomed.start},${zoomed.end}` }, "replace") : page.setRange({ from: iso(zoomed.start), to: iso(zoomed.end) }))}
            onJump={(ms) => change({ at: ns(ms), view: null, box: null }, "replace")}
          />
          {bars.error && <p class="wrong">The histogram failed: {oneLine(bars.error.message, 300)}</p>}
        </div>
      )}
      <div class="toolbar">
        <div class="tabs" role="group" aria-label="View">
          <button aria-pressed={isList || view.isLive} class={isList || view.isLive ? "chosen" : ""} onClick={() => change({ view: null, box: null })}>Lines</button>
          <button aria-pressed={view.isPatterns} class={view.isPatterns ? "chosen" : ""} onClick={() => change({ view: "patterns", live: null, box: null })}>Patterns</button>
          <button aria-pressed={view.isDifferences} class={view.isDifferences ? "chosen" : ""} title="Compare a part of the time range with the rest (d)" onClick={() => change({ view: "differences", live: null })}>Differences</button>
          <button aria-pressed={view.isTree} class={view.isTree ? "chosen" : ""} title="The parts of the query with their costs" onClick={() => change({ view: "tree", live: null, box: null })}>Tree</button>
        </div>
        <button class={view.isLive ? "live on" : "live"} aria-pressed={view.isLive} onClick={live} title="Live tail (l)">● Live</button>
        {view.isLive && <button onClick={() => setPaused(!paused)} title="Pause (p)">{paused ? `Go on (${tail.waiting} waiting)` : "Pause"}</button>}
        {!view.isLive && <Legend bars={bars.data} onFilter={view.by.label === LEVEL ? (level) => setQuery(withLevel(query, level)) : null} />}
        <span class="spring" />
        {!view.isLive && <GroupBy by={view.by} seen={lines.window?.rows.at(-1)} />}
        <button aria-pressed={view.fields} class={view.fields ? "quiet chosen" : "quiet"} onClick={() => toggle("fields", !view.fields)} title="Fields (f)">Fields</button>
        <button aria-pressed={view.wrap} class={view.wrap ? "quiet chosen" : "quiet"} onClick={() => toggle("wrap", !view.wrap)} title="Wrap long lines (w)">Wrap</button>
        {!view.isLive && (
          <button class="quiet" onClick={() => change({ order: view.order === "newest" ? "oldest" : null, at: null }, "replace")}>
            {view.order === "newest" ? "Newest first" : "Oldest first"}
          </button>
        )}
        {!view.isLive && <AddToDashboard panel={{ language: "logql", queries: [query], kind: "logs" }} />}
        <Download query={query} span={page.span} columns={view.columns} />
      </div>
      <div class={view.fields ? "logs-body with-fields" : "logs-body"}>
        {view.fields && <FieldBar query={query} span={page.span} columns={view.columns} onFilter={onFilter} onColumn={onColumn} />}
        {view.isPatterns ? (
          <Patterns query={query} span={page.span} runs={page.runs} onQuery={(changed) => (setQuery(changed), change({ view: null }, "replace"))} />
        ) : view.isDifferences ? (
          <Differences query={query} span={page.span} box={box} zone={page.zone} runs={page.runs} onFilter={onFilter} />
        ) : view.isTree ? (
          <LogTree query={query} page={page} />
        ) : view.isLive ? (
          <LiveList tail={tail} list={{ zone: page.zone, columns: view.columns, wrap: view.wrap, sought, detail, onColumn }} onScrolled={(isAtTop) => setPaused(!isAtTop)} />
        ) : (
          <RangeList lines={lines} order={view.order} list={{ zone: page.zone, columns: view.columns, wrap: view.wrap, sought, detail, onColumn, onSeen }} onRetry={page.run} />
        )}
      </div>
      {isList && <Status lines={lines} total={bars.data?.total ?? null} onRun={page.run} />}
      {view.isLive && <TailStatus tail={tail} />}
    </>
  );
}

function withLevel(query: string, level: string): string {
  return level === "unknown" ? query : withCondition(query, LEVEL, "=", level, null);
}

type ListChoices = Pick<Parameters<typeof LogList>[0], "zone" | "columns" | "wrap" | "sought" | "detail" | "onColumn" | "onSeen">;

function RangeList({ lines, order, list, onRetry }: { lines: WindowState; order: Order; list: ListChoices; onRetry: () => void }) {
  const { window } = lines;
  const held = window?.rows;
  const rows = useMemo(() => (order === "newest" ? [...(held ?? [])].reverse() : (held ?? [])), [held, order]);
  if (!window) return null;
  const first = window.sides[order === "newest" ? "older" : "newer"];
  if (rows.length === 0 && first.error) return <Problem error={first.error} retry={onRetry} />;
  if (rows.length === 0 && !lines.loading && (first.done || lines.cancelled)) {
    return (
      <div class="empty">
        <h2>{lines.cancelled ? "Cancelled" : "No lines match"}</h2>
        <p>{lines.cancelled ? "The query was cancelled, also on the server." : "Choose a longer time range, or remove a filter."}</p>
      </div>
    );
  }
  const end = (side: "older" | "newer", done: string): End => ({ state: window.sides[side], load: () => void window.load(side), done });
  const [older, newer] = [end("older", "Beginning of the time range"), end("newer", "End of the time range")];
  return (
    <LogList
      key={`${window.asked.query} ${window.asked.start} ${window.asked.end} ${order}`}
      rows={rows}
      {...list}
      label="Lines"
      top={order === "newest" ? newer : older}
      bottom={order === "newest" ? older : newer}
    />
  );
}

function LiveList({ tail, list, onScrolled }: { tail: ReturnType<typeof useTail>; list: ListChoices; onScrolled: (isAtTop: boolean) => void }) {
  if (tail.rows.length === 0) {
    return (
      <div class="empty" role={tail.state === "refused" ? "alert" : undefined}>
        <h2>{tail.state === "refused" ? "The live tail was refused" : "Waiting for lines"}</h2>
        <p>{tail.problem}</p>
      </div>
    );
  }
  return <LogList rows={tail.rows} {...list} follow label="Live lines" top={null} bottom={null} onScrolled={onScrolled} />;
}

function Legend({ bars, onFilter }: { bars: Bars | null; onFilter: ((name: string) => void) | null }) {
  return (
    <div class="legend" role="group" aria-label="Groups">
      {(bars?.groups ?? []).map(({ name, colour, total }) => {
        const content = (
          <>
            <i style={{ background: colour }} /> <bdi>{oneLine(name, 40)}</bdi> <b>{total.toLocaleString("en-US")}</b>
          </>
        );
        return onFilter && name !== "unknown" ? (
          <button key={name} class="quiet" title={`Only ${name}`} onClick={() => onFilter(name)}>{content}</button>
        ) : (
          <span key={name}>{content}</span>
        );
      })}
    </div>
  );
}

/** Labels and fields of a line that is shown, by which the histogram can group. */
function GroupBy({ by, seen }: { by: Grouping; seen: Row | undefined }) {
  const fields = seen ? fieldsOf(seen).map(({ name, origin }) => (origin === "json" || origin === "logfmt" ? `${origin}:${name}` : name)) : [];
  const names = [...new Set([LEVEL, by.text, ...fields])].filter((name) => groupingOf(name).text === name).slice(0, 100);
  return (
    <label class="inline">
      <span class="muted">by</span>{" "}
      <select aria-label="Group the histogram by" value={by.text} onChange={(event) => change({ by: event.currentTarget.value === LEVEL ? null : event.currentTarget.value }, "replace")}>
        {names.map((name) => <option key={name} value={name}>{name === LEVEL ? "level" : groupingOf(name).label}</option>)}
      </select>
    </label>
  );
}

function Status({ lines, total, onRun }: { lines: WindowState; total: number | null; onRun: () => void }) {
  const { window } = lines;
  if (!window) return null;
  return (
    <div class="status" role="status">
      <span>{plural(window.rows.length, "line")} here{total !== null && ` of ${total.toLocaleString("en-US")}`}</span>
      {window.statistics && <LogStatistics statistics={window.statistics} />}
      {lines.loading && <button class="quiet" onClick={lines.cancel}>Cancel (Esc)</button>}
      {lines.cancelled && <span class="wrong">Cancelled <button class="quiet" onClick={onRun}>Run again</button></span>}
      {[...window.warnings, window.notice].filter((text) => text !== "").map((text) => <span key={text} class="warning">{oneLine(text, 300)}</span>)}
    </div>
  );
}

function TailStatus({ tail }: { tail: ReturnType<typeof useTail> }) {
  const states = { connecting: "Connecting", open: "Live", lost: "Connecting again", refused: "Refused" };
  return (
    <div class="status">
      <span role="status">{states[tail.state]}{tail.state === "lost" && tail.problem !== "" && `: ${tail.problem}`}</span>
      <span>{tail.perSecond.toLocaleString("en-US")} lines/s</span>
      <span>{plural(tail.rows.length, "line")} here</span>
      {tail.waiting > 0 && <span>{plural(tail.waiting, "line")} waiting</span>}
      {tail.dropped > 0 && <span class="warning">{plural(tail.dropped, "line")} left out: more lines than can be sent or held</span>}
      {tail.warnings.map((text) => <span key={text} class="warning" role="status">{oneLine(text, 300)}</span>)}
    </div>
  );
}

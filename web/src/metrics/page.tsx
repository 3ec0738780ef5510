// The route of metrics: queries of PromQL as a plot, stacked, as a heatmap, a table or a tree; differences of
// a box; names of metrics.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isAbort } from "../api/client.ts";
import { type Answer, type Series, queryExemplars, queryInstant, queryRange } from "../api/prometheus.ts";
import { Problem, Progress, asApiError, useAnswer } from "../frame/answer.tsx";
import type { ApiError } from "../api/client.ts";
import { AddToDashboard } from "../frame/add_to_dashboard.tsx";
import type { Page } from "../frame/frame.tsx";
import { remember } from "../frame/history.ts";
import { useKeys } from "../frame/keys.ts";
import { QueryMenu } from "../frame/query_menu.tsx";
import type { Filter } from "../frame/difference_list.tsx";
import { oneLine } from "../frame/text.ts";
import { duration, iso, length, niceStep } from "../frame/time.ts";
import { change } from "../frame/url.ts";
import { Editor } from "../editor/editor.tsx";
import { promql } from "../editor/promql.ts";
import { Chart } from "./chart.tsx";
import { ExemplarTable } from "./exemplar_table.tsx";
import { type Marks, marksOf } from "./exemplars.ts";
import { nameOf } from "./frame_data.ts";
import { Heatmap } from "./heatmap.tsx";
import { withMatcher } from "./matchers.ts";
import { MetricNames } from "./metric_names.tsx";
import { type PlotBox, boxText, plotBoxOf } from "./plot_box.ts";
import { BoxForm, SeriesDifferences } from "./series_differences.tsx";
import { PromStatistics } from "./statistics.tsx";
import { TreeView } from "./tree_view.tsx";
import { ValueTable } from "./value_table.tsx";

const VIEWS = ["lines", "stacked", "heatmap", "table", "tree", "differences"] as const;
type View = (typeof VIEWS)[number];
const VIEW_NAMES: Record<View, string> = { lines: "Lines", stacked: "Stacked", heatmap: "Heatmap", table: "Table", tree: "Tree", differences: "Differences" };
const POINTS = 300;
const QUERIES_MAX = 20;

interface One {
  query: string;
  answer: Answer | null;
  error: ApiError | null;
}

export default function MetricsPage({ page }: { page: Page }) {
  const { params } = page.place;
  const queries = params.getAll("q");
  const [drafts, setDrafts] = useState(queries.length > 0 ? queries : [""]);
  useEffect(() => setDrafts(queries.length > 0 ? queries : [""]), [queries.join("\u0000")]);
  useEffect(() => queries.forEach((query) => remember("promql", query)), [queries.join("\u0000")]);
  const view = VIEWS.find((name) => name === params.get("view")) ?? "lines";
  const stepGiven = params.get("step") ?? "";
  const step = Math.max(1000, duration(stepGiven) ?? niceStep(page.span, POINTS));
  const hasNames = params.get("names") === "1" || queries.length === 0;
  const span = useRef(page.span);
  span.current = page.span;
  const language = useMemo(() => promql(() => span.current), []);
  const answers = useAnswers(queries, view, page, step);
  const hasExemplars = params.get("exemplars") === "1" && view === "lines";
  const exemplars = useAnswer<Marks>(
    (signal) => (hasExemplars && queries.length > 0 ? Promise.all(queries.map((query) => queryExemplars(query, page.span, { signal }))).then((all) => marksOf(all.flat())) : null),
    [queries.join("\u0000"), page.span.start, page.span.end, hasExemplars, page.runs],
  );
  const box = view === "differences" ? plotBoxOf(params.get("box"), page.span) : null;
  const submit = (changed = drafts) => {
    const kept = changed.map((text) => text.trim()).filter((text) => text !== "");
    if (kept.join("\u0000") === queries.join("\u0000")) page.run();
    else change({ q: kept });
  };
  const set = (n: number, text: string) => setDrafts(drafts.map((draft, at) => (at === n ? text : draft)));
  const add = (expression: string) => {
    const kept = drafts.filter((text) => text.trim() !== "");
    submit([...kept.slice(0, QUERIES_MAX - 1), expression]);
  };
  const onBox = (drawn: PlotBox) => change({ box: boxText(drawn) }, "replace");
  useKeys([
    ...VIEWS.slice(0, 5).map((name, n) => ({ key: String(n + 1), does: VIEW_NAMES[name], run: () => change({ view: n === 0 ? null : name }, "replace") })),
    { key: "d", does: "Differences between series in a box and the others", run: () => change({ view: "differences" }) },
    { key: "n", does: "Names of metrics", run: () => change({ names: hasNames ? null : "1" }, "replace") },
  ]);
  return (
    <section class={hasNames ? "metrics with-names" : "metrics"}>
      {hasNames && <MetricNames span={page.span} onQuery={add} />}
      <div class="metrics-main">
        {drafts.map((_, n) => (
          <div class="query-bar" key={n}>
            {drafts.length > 1 && <span class="letter">{letter(n)}</span>}
            <Editor value={queries[n] ?? ""} version={queries.join("\u0000")} label={`PromQL query ${letter(n)}`} hint="sum by (job) (rate(http_requests_total[5m]))" language={language} onChange={(text) => set(n, text)} onRun={() => submit()} />
            {drafts.length > 1 && (
              <button class="quiet" aria-label={`Remove query ${letter(n)}`} title="Remove the query" onClick={() => submit(drafts.filter((_, at) => at !== n))}>✕</button>
            )}
            {n === 0 && <button class="primary" onClick={() => submit()}>Run</button>}
            {n === 0 && <QueryMenu language="promql" text={drafts[0] ?? ""} onChoose={(query) => submit([query, ...drafts.slice(1)])} />}
          </div>
        ))}
        <div class="toolbar">
          <div class="tabs" role="group" aria-label="View">
            {VIEWS.map((name) => (
              <button key={name} class={view === name ? "chosen" : ""} aria-pressed={view === name} onClick={() => change({ view: name === "lines" ? null : name }, "replace")}>{VIEW_NAMES[name]}</button>
            ))}
          </div>
          {drafts.length < QUERIES_MAX && <button class="quiet" onClick={() => setDrafts([...drafts, ""])}>Add a query</button>}
          {queries.length > 0 && <AddToDashboard panel={{ language: "promql", queries, kind: view === "tree" || view === "differences" ? "lines" : view }} />}
          {view === "lines" && queries.length > 0 && <button class={hasExemplars ? "quiet chosen" : "quiet"} aria-pressed={hasExemplars} title="Draw the exemplars of the selected series" onClick={() => change({ exemplars: hasExemplars ? null : "1" }, "replace")}>Exemplars</button>}
          <span class="spring" />
          <label class="inline">
            <span class="muted">Step</span>{" "}
            <input class="step" size={6} placeholder={length(step)} value={stepGiven} aria-label="Step, like 30s or 5m" onChange={(event) => change({ step: event.currentTarget.value.trim() }, "replace")} />
          </label>
          {queries.length > 0 && <button class={hasNames ? "quiet chosen" : "quiet"} aria-pressed={hasNames} onClick={() => change({ names: hasNames ? null : "1" }, "replace")}>Names</button>}
        </div>
        <Progress on={answers.loading} />
        {answers.error && <Problem error={answers.error} retry={answers.retry} />}
        {answers.cancelled && <p class="wrong pad">Cancelled, also on the server. <button onClick={page.run}>Run again</button></p>}
        {view === "tree" && queries.map((query, n) => (
          <section key={query}>
            {queries.length > 1 && <h2 class="pad">{letter(n)}</h2>}
            <TreeView query={query} page={page} />
          </section>
        ))}
        {view === "differences" && queries.length > 0 && <BoxForm box={box} page={page} onBox={onBox} />}
        {answers.data && <Results view={view} page={page} step={step} all={answers.data} box={box} onBox={onBox} marks={exemplars.data} onRetry={answers.retry} />}
        {exemplars.error && <Problem error={exemplars.error} retry={exemplars.retry} />}
        {exemplars.data && <ExemplarTable marks={exemplars.data} zone={page.zone} />}
        {view === "differences" && box && queries.map((query, n) => (
          <section key={query}>
            {queries.length > 1 && <h2 class="pad">{letter(n)}</h2>}
            <SeriesDifferences query={query} page={page} step={step} box={box} onFilter={filterOf(queries, n)} />
          </section>
        ))}
        {queries.length === 0 && (
          <div class="empty">
            <h2>Choose a metric, or write a query</h2>
            <p>The list has the metrics of the time range. A click plots one, as its type suggests.</p>
          </div>
        )}
        {answers.data && <Statuses all={answers.data} took={answers.took} />}
      </div>
    </section>
  );
}

/** A filter of differences changes the selectors of its query. */
function filterOf(queries: string[], n: number): Filter {
  return ({ name }, operator, value) => {
    const changed = withMatcher(queries[n] ?? "", name, operator, value);
    if (changed !== null) change({ q: queries.map((query, at) => (at === n ? changed : query)) });
  };
}

function letter(n: number): string {
  return String.fromCharCode(65 + n);
}

function useAnswers(queries: string[], view: View, page: Page, step: number) {
  const { span } = page;
  return useAnswer<One[]>(
    (signal) => {
      // The tree asks the parts of the queries itself.
      if (queries.length === 0 || view === "tree") return null;
      const start = Math.floor(span.start / step) * step;
      const one = async (query: string): Promise<One> => {
        try {
          const asked = view === "table"
            ? queryInstant(query, span.end, { signal })
            : queryRange(query, start, span.end, step, { signal });
          return { query, answer: await asked, error: null };
        } catch (error) {
          const failure = asApiError(error);
          // A server that is away is asked again for all queries.
          if (isAbort(error) || failure.status === 0 || failure.status === 503) throw error;
          return { query, answer: null, error: failure };
        }
      };
      return Promise.all(queries.map(one));
    },
    [queries.join("\u0000"), span.start, span.end, step, view === "table", view === "tree", page.runs],
  );
}

/** The labels that differ take the place of the legend. */
const NoLegend = () => null;

interface ResultsProps {
  view: View;
  page: Page;
  step: number;
  all: One[];
  box: PlotBox | null;
  onBox: (box: PlotBox) => void;
  marks: Marks | null;
  onRetry: () => void;
}

function Results({ view, page, step, all, box, onBox, marks, onRetry }: ResultsProps) {
  const onZoom = (zoomed: { start: number; end: number }) => page.setRange({ from: iso(zoomed.start), to: iso(zoomed.end) });
  const isSeveral = all.length > 1;
  const series = useMemo(
    () =>
      all.flatMap(({ answer }, n) => {
        if (answer?.data.resultType !== "matrix") return [];
        return answer.data.result.map((entry) => {
          const name = nameOf(entry.metric);
          return { ...entry, title: isSeveral ? `${letter(n)} ${name}` : name };
        });
      }),
    [all],
  );
  return (
    <>
      {all.map(({ error, query }) => error && (
        <Problem key={query} error={error} retry={onRetry}>{isSeveral && <code>{oneLine(query, 200)}</code>}</Problem>
      ))}
      {view === "table" && all.map(({ answer, query }) => answer && <ValueTable key={query} query={isSeveral ? query : ""} data={answer.data} zone={page.zone} />)}
      {view === "heatmap" && all.map(({ answer, query }, n) => answer?.data.resultType === "matrix" && (
        <section key={query} class="heatmap">
          {isSeveral && <h2>{letter(n)} <code>{oneLine(query, 300)}</code></h2>}
          <Heatmap series={answer.data.result as Series[]} span={page.span} step={step} zone={page.zone} />
        </section>
      ))}
      {(view === "lines" || view === "stacked") && all.some(({ answer }) => answer) && (
        <Chart series={series} span={page.span} step={step} zone={page.zone} mode={view} onZoom={onZoom} {...(marks ? { marks: marks.marks } : {})} />
      )}
      {view === "differences" && all.some(({ answer }) => answer) && (
        <>
          {!box && <p class="muted pad" role="status">Draw a box over the plot, or fill it in: the series that pass through it are compared with the others.</p>}
          <Chart series={series} span={page.span} step={step} zone={page.zone} mode="lines" onZoom={onZoom} onBox={onBox} shownBox={box} legend={NoLegend} />
        </>
      )}
    </>
  );
}

function Statuses({ all, took }: { all: One[]; took: number }) {
  return (
    <div class="status">
      {all.map(({ answer, query }, n) => {
        if (!answer) return null;
        const { data, warnings } = answer;
        return (
          <span key={query} class="status-one">
            {all.length > 1 && <b>{letter(n)}</b>} {Array.isArray(data.result) && typeof data.result[0] !== "number" ? `${data.result.length.toLocaleString("en-US")} series` : data.resultType}
            {data.stats && <PromStatistics statistics={data.stats} took={took} />}
            {warnings.map((text) => <span key={text} class="warning">{oneLine(text, 300)}</span>)}
          </span>
        );
      })}
    </div>
  );
}

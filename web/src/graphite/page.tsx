// The route of Graphite: the tree of paths, targets, their plot, and the functions.

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Target, render } from "../api/graphite.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { AddToDashboard } from "../frame/add_to_dashboard.tsx";
import type { Page } from "../frame/frame.tsx";
import { remember } from "../frame/history.ts";
import { useKeys } from "../frame/keys.ts";
import { QueryMenu } from "../frame/query_menu.tsx";
import { oneLine } from "../frame/text.ts";
import { iso } from "../frame/time.ts";
import { change } from "../frame/url.ts";
import { Editor } from "../editor/editor.tsx";
import { graphite } from "../editor/graphite.ts";
import { Chart } from "../metrics/chart.tsx";
import type { InputSeries } from "../metrics/frame_data.ts";
import { Functions } from "./functions.tsx";
import { Tree } from "./tree.tsx";

const POINTS = 600;
const TARGETS_MAX = 20;

export default function GraphitePage({ page }: { page: Page }) {
  const { params } = page.place;
  const targets = params.getAll("target");
  const [drafts, setDrafts] = useState(targets.length > 0 ? targets : [""]);
  useEffect(() => setDrafts(targets.length > 0 ? targets : [""]), [targets.join("\u0000")]);
  useEffect(() => targets.forEach((target) => remember("graphite", target)), [targets.join("\u0000")]);
  const [last, setLast] = useState(0);
  const language = useMemo(() => graphite(), []);
  const mode = params.get("view") === "stacked" ? "stacked" : "lines";
  const hasHelp = params.get("help") === "1";
  const { span } = page;
  const answer = useAnswer(
    (signal) => (targets.length === 0 ? null : render(targets, span.start, span.end, POINTS, { signal })),
    [targets.join("\u0000"), span.start, span.end, page.runs],
  );
  const plotted = useMemo(() => plottedOf(answer.data?.targets ?? [], span.end - span.start), [answer.data]);
  const submit = (changed = drafts) => {
    const kept = changed.map((text) => text.trim()).filter((text) => text !== "");
    if (kept.join("\u0000") === targets.join("\u0000")) page.run();
    else change({ target: kept });
  };
  const add = (path: string) => submit([...drafts.filter((text) => text.trim() !== "").slice(0, TARGETS_MAX - 1), path]);
  const wrap = (name: string) => {
    const at = Math.min(last, drafts.length - 1);
    submit(drafts.map((draft, n) => (n === at && draft.trim() !== "" ? `${name}(${draft})` : draft)));
  };
  useKeys([{ key: "h", does: "Functions of Graphite", run: () => change({ help: hasHelp ? null : "1" }, "replace") }]);
  return (
    <section class={hasHelp ? "metrics with-names with-help" : "metrics with-names"}>
      <Tree runs={page.runs} onPath={add} />
      <div class="metrics-main">
        {drafts.map((_, n) => (
          <div class="query-bar" key={n} onFocusIn={() => setLast(n)}>
            <Editor value={targets[n] ?? ""} version={targets.join("\u0000")} label={`Graphite target ${n + 1}`} hint='alias(sumSeries(servers.*.load), "load")' language={language} onChange={(text) => setDrafts(drafts.map((old, at) => (at === n ? text : old)))} onRun={() => submit()} />
            {drafts.length > 1 && <button class="quiet" aria-label={`Remove target ${n + 1}`} title="Remove the target" onClick={() => submit(drafts.filter((_, at) => at !== n))}>✕</button>}
            {n === 0 && <button class="primary" onClick={() => submit()}>Run</button>}
            {n === 0 && <QueryMenu language="graphite" text={drafts[0] ?? ""} onChoose={(target) => submit([target, ...drafts.slice(1)])} />}
          </div>
        ))}
        <div class="toolbar">
          <div class="tabs" role="group" aria-label="View">
            <button class={mode === "lines" ? "chosen" : ""} aria-pressed={mode === "lines"} onClick={() => change({ view: null }, "replace")}>Lines</button>
            <button class={mode === "stacked" ? "chosen" : ""} aria-pressed={mode === "stacked"} onClick={() => change({ view: "stacked" }, "replace")}>Stacked</button>
          </div>
          {drafts.length < TARGETS_MAX && <button class="quiet" onClick={() => setDrafts([...drafts, ""])}>Add a target</button>}
          {targets.length > 0 && <AddToDashboard panel={{ language: "graphite", queries: targets, kind: mode }} />}
          <span class="spring" />
          <button class={hasHelp ? "quiet chosen" : "quiet"} aria-pressed={hasHelp} title="Functions (h)" onClick={() => change({ help: hasHelp ? null : "1" }, "replace")}>Functions</button>
        </div>
        <Progress on={answer.loading} />
        {answer.error && <Problem error={answer.error} retry={answer.retry} />}
        {answer.cancelled && <p class="wrong pad">Cancelled, also on the server. <button onClick={page.run}>Run again</button></p>}
        {answer.data && (
          <Chart series={plotted.series} span={span} step={plotted.step} zone={page.zone} mode={mode} onZoom={(zoomed) => page.setRange({ from: iso(zoomed.start), to: iso(zoomed.end) })} />
        )}
        {targets.length === 0 && (
          <div class="empty">
            <h2>Choose a path, or write a target</h2>
            <p>A click on a series in the tree plots it. <code>*</code> matches the nodes of one level.</p>
          </div>
        )}
        {(answer.data?.warnings ?? []).map((text) => <p key={text} class="warning pad">{oneLine(text, 300)}</p>)}
      </div>
      {hasHelp && <Functions onWrap={wrap} />}
    </section>
  );
}

/** Series on the grid of the shortest step. */
function plottedOf(targets: Target[], length: number): { series: InputSeries[]; step: number } {
  const stepOf = ({ datapoints }: Target) => ((datapoints[1]?.[1] ?? 0) - (datapoints[0]?.[1] ?? 0)) * 1000;
  const steps = targets.map(stepOf).filter((step) => step > 0);
  const shortest = steps.length > 0 ? Math.min(...steps) : length;
  const step = Math.max(1000, shortest, length / 5000);
  const series = targets.map((target): InputSeries => ({
    metric: target.tags ?? {},
    title: target.target,
    values: target.datapoints.map(([value, at]) => [at, value]),
    isSparse: stepOf(target) > step,
  }));
  return { series, step };
}

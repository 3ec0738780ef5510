// The patterns of the lines of a selector, with their numbers of lines over time and how these change.

import { useMemo, useState } from "preact/hooks";
import { type Pattern, ns, patterns } from "../api/loki.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count, oneLine, plural } from "../frame/text.ts";
import { type Span, niceStep, stepText } from "../frame/time.ts";
import { selectorOf, withLineFilter } from "./query.ts";
import { levelOf } from "./rows.ts";

interface PatternsProps {
  query: string;
  span: Span;
  runs: number;
  onQuery: (query: string) => void;
}

export function Patterns({ query, span, runs, onQuery }: PatternsProps) {
  const selector = selectorOf(query);
  const step = Math.max(10_000, niceStep(span, 60));
  const answer = useAnswer(
    (signal) => patterns(selector, { start: ns(span.start), end: ns(span.end) }, stepText(step), { signal }),
    [selector, span.start, span.end, runs],
  );
  const [search, setSearch] = useState("");
  const [level, setLevel] = useState("");
  const [sort, setSort] = useState<Sort>("lines");
  const all = useMemo(() => (answer.data ?? []).map((pattern) => countedOf(pattern, span)), [answer.data]);
  const sum = Math.max(1, all.reduce((lines, one) => lines + one.lines, 0));
  const levels = [...new Set(all.map((one) => one.level))].sort();
  const found = shownOf(all, search, level, sort);
  const head = (name: Sort, title: string) => (
    <th class="number" aria-sort={sort === name ? "descending" : "none"}><button class="quiet" onClick={() => setSort(name)}>{title}{sort === name ? " ↓" : ""}</button></th>
  );
  return (
    <section class="patterns" aria-label="Patterns">
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && all.length === 0 && <p class="empty">No patterns: there are no lines in this time range.</p>}
      {all.length > 0 && (
        <div class="row pad">
          <input type="search" placeholder="Search patterns" aria-label="Search patterns" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          <label class="inline">
            <span class="muted">Level</span>{" "}
            <select value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
              <option value="">all</option>
              {levels.map((name) => <option key={name} value={name}>{oneLine(name, 40)}</option>)}
            </select>
          </label>
          <span class="muted" role="status">{found.length === all.length ? plural(all.length, "pattern") : `${count(found.length)} of ${plural(all.length, "pattern")}`}</span>
        </div>
      )}
      {all.length > 0 && found.length === 0 && <p class="empty">No pattern matches.</p>}
      {found.length > 0 && (
        <table class="data">
          <thead>
            <tr>{head("lines", "Lines")}<th class="number">Share</th>{head("change", "Change")}<th>Over time</th><th>Level</th><th>Pattern</th><th><span class="hidden">Actions</span></th></tr>
          </thead>
          <tbody>
            {found.map(({ pattern, level: ofLines, samples, lines, change }) => (
              <tr key={`${ofLines} ${pattern}`}>
                <td class="number">{count(lines)}</td>
                <td class="number">{((lines / sum) * 100).toFixed(1)} %</td>
                <td class="number" title="Lines in the second half of the time range, compared with the first half">{changeText(change)}</td>
                <td><Spark samples={samples} span={span} step={step} /></td>
                <td><span class={`level-name level-${levelOf(ofLines)}`}>{ofLines}</span></td>
                <td class="pattern"><bdi>{oneLine(pattern, 600)}</bdi></td>
                <td class="actions">
                  <button class="quiet tiny" title="Show lines of this pattern" aria-label="Filter for this pattern" onClick={() => onQuery(withLineFilter(query, "|>", pattern))}>+</button>
                  <button class="quiet tiny" title="Leave out lines of this pattern" aria-label="Filter out this pattern" onClick={() => onQuery(withLineFilter(query, "!>", pattern))}>−</button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

type Sort = "lines" | "change";

export interface Counted extends Pattern {
  lines: number;
  /** Lines in the second half of the range for each line in the first half; infinite for a new pattern. */
  change: number;
}

export function countedOf(pattern: Pattern, span: Span): Counted {
  const middle = (span.start + span.end) / 2;
  let [before, after] = [0, 0];
  for (const [seconds, lines] of pattern.samples) {
    if (seconds * 1000 < middle) before += lines;
    else after += lines;
  }
  return { ...pattern, lines: before + after, change: before === 0 ? (after === 0 ? 1 : Infinity) : after / before };
}

/** The patterns that contain all words, with the most lines or the largest change first. */
export function shownOf(all: Counted[], search: string, level: string, sort: Sort): Counted[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const found = all.filter((one) => (level === "" || one.level === level) && words.every((word) => one.pattern.toLowerCase().includes(word)));
  return found.sort((a, b) => (sort === "change" && a.change !== b.change ? b.change - a.change : b.lines - a.lines));
}

function changeText(change: number): string {
  if (change === Infinity) return "new";
  if (change === 0) return "ended";
  return change >= 10 ? `${count(change)} ×` : `${change.toFixed(1)} ×`;
}

function Spark({ samples, span, step }: { samples: [number, number][]; span: Span; step: number }) {
  const [width, height] = [120, 18];
  const most = Math.max(1, ...samples.map(([, n]) => n));
  const wide = Math.max(1, (step / (span.end - span.start)) * width);
  const path = samples.map(([seconds, n]) => {
    const x = ((seconds * 1000 - span.start) / (span.end - span.start)) * width;
    const high = (n / most) * height;
    return `M${x.toFixed(1)} ${height}v-${high.toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`;
  });
  return <svg class="spark" width={width} height={height} aria-hidden="true"><path d={path.join("")} /></svg>;
}

// The patterns of the lines of a selector, with their numbers of lines over time.

import { ns, patterns } from "../api/loki.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";
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
  const found = (answer.data ?? []).map((pattern) => ({ ...pattern, lines: pattern.samples.reduce((sum, [, n]) => sum + n, 0) }));
  const all = Math.max(1, found.reduce((sum, { lines }) => sum + lines, 0));
  return (
    <section class="patterns" aria-label="Patterns">
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && found.length === 0 && <p class="empty">No patterns: there are no lines in this time range.</p>}
      {found.length > 0 && (
        <table class="data">
          <thead>
            <tr><th class="number">Lines</th><th class="number">Share</th><th>Over time</th><th>Level</th><th>Pattern</th><th><span class="hidden">Actions</span></th></tr>
          </thead>
          <tbody>
            {found.map(({ pattern, level, samples, lines }) => (
              <tr key={`${level} ${pattern}`}>
                <td class="number">{count(lines)}</td>
                <td class="number">{((lines / all) * 100).toFixed(1)} %</td>
                <td><Spark samples={samples} span={span} step={step} /></td>
                <td><span class={`level-name level-${levelOf(level)}`}>{level}</span></td>
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

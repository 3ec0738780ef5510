// The list of metrics: name, type, help and number of series; a click plots one as its type suggests.

import { useEffect, useState } from "preact/hooks";
import { type FoundMetric, searchMetrics, tsdbStatus } from "../api/prometheus.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";
import type { Span } from "../frame/time.ts";

const FOUND_MAX = 300;

/** An expression that is useful for a metric of this type. */
export function suggested({ name, type }: FoundMetric): string {
  const selector = /^[A-Za-z_:][\w:]*$/.test(name) ? name : `{${JSON.stringify(name)}}`;
  if (name.endsWith("_bucket")) return `histogram_quantile(0.9, sum by (le) (rate(${selector}[5m])))`;
  if (type === "counter" || /_(total|count|sum)$/.test(name)) return `rate(${selector}[5m])`;
  if (type === "histogram") return `histogram_quantile(0.9, sum(rate(${selector}[5m])))`;
  return selector;
}

export function MetricNames({ span, onQuery }: { span: Span; onQuery: (expression: string) => void }) {
  const [text, setText] = useState("");
  const [search, setSearch] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSearch(text.trim()), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const answer = useAnswer((signal) => searchMetrics(search, span, FOUND_MAX, { signal }), [search, span.start, span.end]);
  const sizes = useAnswer(
    async (signal) => new Map((await tsdbStatus(10_000, span, { signal })).seriesCountByMetricName.map(({ name, value }) => [name, value])),
    [span.start, span.end],
  );
  const found = answer.data?.found ?? [];
  return (
    <aside class="metric-names" aria-label="Metrics">
      <input type="search" placeholder="Search metrics" aria-label="Search metrics" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && found.length === 0 && (
        <p class="muted pad">{search === "" ? "No metrics in this time range." : "No metric matches."}</p>
      )}
      <ul>
        {found.map((metric) => (
          <li key={metric.name}>
            <button class="quiet" title={`${metric.name}\n${oneLine(metric.help ?? "", 400)}`} onClick={() => onQuery(suggested(metric))}>
              <bdi class="metric-name">{oneLine(metric.name, 160)}</bdi>
              <span class="muted">
                {metric.type && metric.type !== "unknown" ? metric.type : ""}
                {sizes.data?.has(metric.name) ? ` ${count(sizes.data.get(metric.name) ?? 0)}` : ""}
              </span>
              {metric.help && <span class="metric-help muted">{oneLine(metric.help, 160)}</span>}
            </button>
          </li>
        ))}
      </ul>
      {answer.data?.hasMore && <p class="muted pad">The first {count(found.length)} names; search for others.</p>}
    </aside>
  );
}

// The answer of a metric query of LogQL as a plot. The code of plots is loaded when it is needed.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Series, ns, queryRange } from "../api/loki.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { AddToDashboard } from "../frame/add_to_dashboard.tsx";
import type { Page } from "../frame/frame.tsx";
import { iso, niceStep, stepText } from "../frame/time.ts";
import type { ChartProps } from "../metrics/chart.tsx";
import { LogStatistics } from "./statistics.tsx";

let loaded: ComponentType<ChartProps> | null = null;

export function LogMetric({ page, query }: { page: Page; query: string }) {
  const { span, runs } = page;
  const [Chart, setChart] = useState<ComponentType<ChartProps> | null>(() => loaded);
  useEffect(() => {
    if (!loaded) void import("../metrics/chart.tsx").then((module) => (loaded = module.Chart, setChart(() => module.Chart)));
  }, []);
  const step = niceStep(span, 250);
  const answer = useAnswer(
    async (signal) => {
      const start = Math.floor(span.start / step) * step;
      return (await queryRange({ query, start: ns(start), end: ns(span.end), step: stepText(step) }, { signal })).body;
    },
    [query, span.start, span.end, runs],
  );
  return (
    <section class="log-metric">
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && Chart && answer.data.resultType === "matrix" && (
        <Chart
          series={answer.data.result as Series[]}
          span={span}
          step={step}
          zone={page.zone}
          mode={page.place.params.get("plot") === "stacked" ? "stacked" : "lines"}
          onZoom={(zoomed) => page.setRange({ from: iso(zoomed.start), to: iso(zoomed.end) })}
        />
      )}
      {answer.data && (
        <div class="status">
          <span>{answer.data.result.length} series</span>
          <LogStatistics statistics={answer.data.stats} />
          <AddToDashboard panel={{ language: "logql", queries: [query], kind: "lines" }} />
        </div>
      )}
    </section>
  );
}

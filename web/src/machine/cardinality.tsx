// Where series come from: metrics and labels with the most series, labels of logs with the most values.

import { detectedLabels, ns } from "../api/loki.ts";
import { tsdbStatus } from "../api/prometheus.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";
import { follow, link } from "../frame/url.ts";
import { shared } from "../frame/frame.tsx";
import type { TabProps } from "./page.tsx";

const ROWS = 30;

interface Item {
  name: string;
  value: number;
  url?: string | undefined;
}

export function Cardinality({ page }: TabProps) {
  const { span } = page;
  const samples = useAnswer((signal) => tsdbStatus(ROWS, span, { signal }), [span.start, span.end]);
  const labels = useAnswer((signal) => detectedLabels(null, { start: ns(span.start), end: ns(span.end) }, { signal }), [span.start, span.end]);
  const kept = shared(page.place.params);
  const metric = (name: string) => link("metrics", { ...kept, q: /^[A-Za-z_:][\w:]*$/.test(name) ? name : `{${JSON.stringify(name)}}` });
  return (
    <section aria-label="Cardinality">
      <Progress on={samples.loading || labels.loading} />
      {samples.error && <Problem error={samples.error} retry={samples.retry} />}
      {labels.error && <Problem error={labels.error} retry={labels.retry} />}
      {samples.data && <p class="row"><b>{count(samples.data.headStats.numSeries)}</b> series of metrics in the time range.</p>}
      <div class="cards">
        {samples.data && (
          <>
            <Table title="Series by metric" items={samples.data.seriesCountByMetricName.map(({ name, value }) => ({ name, value, url: metric(name) }))} />
            <Table title="Values by label of metrics" items={samples.data.labelValueCountByLabelName} />
            <Table title="Series by label and value" items={samples.data.seriesCountByLabelValuePair} />
          </>
        )}
        {labels.data && (
          <Table
            title="Values by label of logs"
            items={labels.data.map(({ label, cardinality }) => ({ name: label, value: cardinality, url: link("logs", { ...kept, q: `{${label}=~".+"}`, by: label }) })).sort((a, b) => b.value - a.value).slice(0, ROWS)}
          />
        )}
      </div>
    </section>
  );
}

function Table({ title, items }: { title: string; items: Item[] }) {
  const most = Math.max(1, ...items.map(({ value }) => value));
  return (
    <section class="card">
      <h2>{title}</h2>
      {items.length === 0 && <p class="muted">None in the time range.</p>}
      <ol class="shares">
        {items.map(({ name, value, url }) => (
          <li key={name}>
            <span class="share" style={{ width: `${(value / most) * 100}%` }} />
            {url === undefined ? <bdi>{oneLine(name, 120)}</bdi> : <a href={url} onClick={(event) => follow(event, url)}><bdi>{oneLine(name, 120)}</bdi></a>}
            <b>{count(value)}</b>
          </li>
        ))}
      </ol>
    </section>
  );
}

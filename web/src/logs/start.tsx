// What a person sees without a query: the values of a label with their volume; a click shows their lines.

import { useState } from "preact/hooks";
import { detectedLabels, ns, volume } from "../api/loki.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { bytes, count, oneLine } from "../frame/text.ts";
import type { Span } from "../frame/time.ts";
import { quoted } from "./query.ts";

const PREFERRED = ["service_name", "service", "app", "job", "container", "host"];
const VALUES_MAX = 200;

/** The place of a label among the buttons: well-known ones first. */
function rank(label: string): number {
  const place = PREFERRED.indexOf(label);
  return place < 0 ? PREFERRED.length : place;
}

export function Start({ span, onQuery }: { span: Span; onQuery: (query: string) => void }) {
  const [chosen, setChosen] = useState("");
  const [search, setSearch] = useState("");
  const bounds = { start: ns(span.start), end: ns(span.end) };
  const labels = useAnswer((signal) => detectedLabels(null, bounds, { signal }), [span.start, span.end]);
  const found = [...(labels.data ?? [])].sort((a, b) => rank(a.label) - rank(b.label));
  const names = found.map(({ label }) => label);
  const label = names.includes(chosen) ? chosen : (PREFERRED.find((name) => names.includes(name)) ?? names[0] ?? "");
  const volumes = useAnswer(
    (signal) => (label === "" ? null : volume(label, `{${label}=~".+"}`, bounds, 1000, { signal })),
    [label, span.start, span.end],
  );
  const values = (volumes.data ?? [])
    .map(({ metric, value }) => ({ name: metric[label] ?? "", size: Number(value?.[1] ?? 0) }))
    .filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
  const most = Math.max(1, ...values.map(({ size }) => size));
  return (
    <section class="start" aria-label="Choose logs">
      <Progress on={labels.loading || volumes.loading} />
      {labels.error && <Problem error={labels.error} retry={labels.retry} />}
      {volumes.error && <Problem error={volumes.error} retry={volumes.retry} />}
      {labels.data && names.length === 0 && (
        <div class="empty">
          <h2>No logs in this time range</h2>
          <p>Choose a longer time range, or send lines:</p>
          <pre>sandur push --label app=api /var/log/api</pre>
          <p class="muted">Agents push to <code>loki/api/v1/push</code> of this server.</p>
        </div>
      )}
      {names.length > 0 && (
        <>
          <div class="start-labels">
            <span class="muted">Logs by</span>
            {found.slice(0, 40).map(({ label: name, cardinality }) => (
              <button key={name} class={name === label ? "chip chosen" : "chip"} aria-pressed={name === label} onClick={() => setChosen(name)}>
                <bdi>{oneLine(name, 60)}</bdi> <span class="muted">{count(cardinality)}</span>
              </button>
            ))}
            <input type="search" placeholder="Search values" aria-label="Search values" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
            <button onClick={() => onQuery(`{${label}=~".+"}`)}>All lines</button>
          </div>
          <ol class="volumes">
            {values.slice(0, VALUES_MAX).map(({ name, size }) => (
              <li key={name}>
                <button class="quiet" onClick={() => onQuery(`{${label}=${quoted(name)}}`)}>
                  <bdi>{oneLine(name, 160)}</bdi>
                  <span class="bar"><span style={{ width: `${(size / most) * 100}%` }} /></span>
                  <span class="size">{bytes(size)}</span>
                </button>
              </li>
            ))}
          </ol>
          {values.length > VALUES_MAX && <p class="muted pad">The {VALUES_MAX} largest of {count(values.length)}; search for others.</p>}
        </>
      )}
    </section>
  );
}

// The metrics of this process as it reports them now, with search.

import { useState } from "preact/hooks";
import { ownMetrics } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { number, oneLine } from "../frame/text.ts";
import { change } from "../frame/url.ts";
import type { TabProps } from "./page.tsx";

const PART = 200;

export function OwnMetrics({ page }: TabProps) {
  const search = page.place.params.get("search") ?? "";
  const [shown, setShown] = useState(PART);
  const answer = useAnswer((signal) => ownMetrics({ signal }), [page.runs]);
  // Buckets are many and rarely sought.
  const hasBuckets = search.includes("bucket");
  const words = search.toLowerCase().split(/\s+/);
  const found = (answer.data ?? []).filter(({ name, labels, help }) => {
    const text = `${name}${labels} ${help}`.toLowerCase();
    return (hasBuckets || !name.endsWith("_bucket")) && words.every((word) => text.includes(word));
  });
  return (
    <section aria-label="Metrics of this process">
      <div class="row">
        <input type="search" placeholder="Search: cache hit" aria-label="Search metrics" value={search} onInput={(event) => change({ search: event.currentTarget.value }, "replace")} />
        <span class="muted">{found.length.toLocaleString("en-US")} values. Search for <code>bucket</code> to see those of histograms.</span>
        <button onClick={page.run}>Read again</button>
      </div>
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of metrics">
        <table class="data">
          <thead><tr><th>Metric</th><th class="number">Value</th><th>Help</th></tr></thead>
          <tbody>
            {found.slice(0, shown).map(({ name, labels, value, help }) => (
              <tr key={name + labels}>
                <td class="series-cell"><code>{name}<span class="muted">{oneLine(labels, 300)}</span></code></td>
                <td class="number" title={String(value)}>{number(value)}</td>
                <td class="muted help-cell">{oneLine(help, 300)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length > shown && <button class="more" onClick={() => setShown(shown + PART)}>Show {PART} more of {(found.length - shown).toLocaleString("en-US")}</button>}
    </section>
  );
}

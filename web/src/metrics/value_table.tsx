// Values at an instant: a column for each label.

import { useState } from "preact/hooks";
import type { Data, Histogram, Series } from "../api/prometheus.ts";
import { oneLine } from "../frame/text.ts";
import { exact } from "../frame/time.ts";

const PART = 500;
const LABELS_MAX = 40;

function histogramText({ count, sum }: Histogram): string {
  return `histogram: count ${count}, sum ${sum}`;
}

function valueText(series: Series, format?: (value: number) => string): string {
  if (series.value) return format ? format(Number(series.value[1])) : series.value[1];
  if (series.histogram) return histogramText(series.histogram[1]);
  const last = series.values?.at(-1);
  return last ? last[1] : "";
}

export interface ValueTableProps {
  query: string;
  data: Data;
  zone: string;
  format?: (value: number) => string;
}

export function ValueTable({ query, data, zone, format }: ValueTableProps) {
  const [shown, setShown] = useState(PART);
  const [sort, setSort] = useState<"none" | "down" | "up">("none");
  if (data.resultType === "scalar" || data.resultType === "string") {
    return <table class="data"><tbody><tr><th scope="row">{data.resultType}</th><td class="number">{data.result[1]}</td></tr></tbody></table>;
  }
  const series = data.result as Series[];
  const names = new Set<string>();
  for (const { metric } of series.slice(0, 5000)) for (const name of Object.keys(metric)) names.add(name);
  const labels = [...names].sort().slice(0, LABELS_MAX);
  const number = (entry: Series) => Number(entry.value?.[1] ?? NaN);
  const sorted = sort === "none" ? series : [...series].sort((a, b) => (sort === "down" ? number(b) - number(a) : number(a) - number(b)));
  const at = series[0]?.value?.[0] ?? series[0]?.histogram?.[0];
  return (
    <section class="value-table">
      {query !== "" && <h2><code>{oneLine(query, 300)}</code></h2>}
      {series.length === 0 && <p class="empty">No series have a value at this time.</p>}
      {series.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Values">
          <table class="data">
            <thead>
              <tr>
                {labels.map((name) => <th key={name}>{name === "__name__" ? "name" : oneLine(name, 60)}</th>)}
                <th class="number" aria-sort={sort === "none" ? "none" : sort === "down" ? "descending" : "ascending"}>
                  <button class="quiet" onClick={() => setSort(sort === "down" ? "up" : "down")}>Value{sort === "down" ? " ↓" : sort === "up" ? " ↑" : ""}</button>
                </th>
              </tr>
            </thead>
            <tbody>
              {sorted.slice(0, shown).map((entry, n) => (
                <tr key={n}>
                  {labels.map((name) => <td key={name}><bdi>{oneLine(entry.metric[name] ?? "", 200)}</bdi></td>)}
                  <td class="number">{oneLine(valueText(entry, format), 200)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {series.length > shown && <button class="more" onClick={() => setShown(shown + PART)}>Show {PART} more of {(series.length - shown).toLocaleString("en-US")}</button>}
      {at !== undefined && <p class="muted pad">At {exact(at * 1000, zone)}</p>}
      {names.size > LABELS_MAX && <p class="muted pad">{LABELS_MAX} of {names.size} labels are shown.</p>}
    </section>
  );
}

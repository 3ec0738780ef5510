// The legend of a plot: all series with their last, smallest, largest and mean value, with search; a click
// draws only that series, with Ctrl or Shift several.

import { useState } from "preact/hooks";
import { number, oneLine } from "../frame/text.ts";
import { colourOf } from "./colours.ts";
import type { Plotted } from "./frame_data.ts";

const PART = 100;

type Sort = "place" | "last" | "min" | "max" | "mean";

export interface LegendProps {
  series: Plotted[];
  chosen: ReadonlySet<number>;
  onChoose: (chosen: ReadonlySet<number>) => void;
  onFocus: (place: number | null) => void;
}

export function Legend({ series, chosen, onChoose, onFocus }: LegendProps) {
  const [search, setSearch] = useState("");
  const [shown, setShown] = useState(PART);
  const [sort, setSort] = useState<Sort>("place");
  const wanted = search.toLowerCase();
  const found = wanted === "" ? series : series.filter(({ name }) => name.toLowerCase().includes(wanted));
  const value = (entry: Plotted) => (sort === "place" ? -entry.place : (entry[sort] ?? -Infinity));
  const sorted = sort === "place" ? found : [...found].sort((a, b) => (value(b) || 0) - (value(a) || 0));
  const choose = (place: number, several: boolean) => {
    if (!several) return onChoose(chosen.size === 1 && chosen.has(place) ? new Set() : new Set([place]));
    const next = new Set(chosen);
    if (!next.delete(place)) next.add(place);
    onChoose(next);
  };
  const head = (name: Sort, title: string) => (
    <th class="number" aria-sort={sort === name ? "descending" : "none"}>
      <button class="quiet" onClick={() => setSort(sort === name ? "place" : name)}>{title}{sort === name ? " ↓" : ""}</button>
    </th>
  );
  if (series.length === 0) return <p class="empty">No series match in this time range.</p>;
  return (
    <div class="plot-legend">
      <div class="legend-tools">
        <input type="search" placeholder="Search series" aria-label="Search series" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <span class="muted">{wanted === "" ? `${series.length.toLocaleString("en-US")} series` : `${found.length.toLocaleString("en-US")} of ${series.length.toLocaleString("en-US")} series`}</span>
        {wanted !== "" && found.length < series.length && found.length > 0 && (
          <button onClick={() => onChoose(new Set(found.map(({ place }) => place)))}>Draw these</button>
        )}
        {chosen.size > 0 && <button onClick={() => onChoose(new Set())}>Draw all</button>}
      </div>
      <table class="data">
        <thead>
          <tr><th>Series</th>{head("last", "Last")}{head("min", "Min")}{head("max", "Max")}{head("mean", "Mean")}</tr>
        </thead>
        <tbody onMouseLeave={() => onFocus(null)}>
          {sorted.slice(0, shown).map((entry) => (
            <tr key={entry.place} class={chosen.size > 0 && !chosen.has(entry.place) ? "off" : ""} onMouseEnter={() => onFocus(entry.place)}>
              <td>
                <button class="quiet series-name" aria-pressed={chosen.has(entry.place)} onClick={(event) => choose(entry.place, event.ctrlKey || event.metaKey || event.shiftKey)}>
                  <i style={{ background: `var(${colourOf(entry.place)})` }} /> <bdi>{oneLine(entry.name, 300)}</bdi>
                </button>
              </td>
              <td class="number">{entry.last === null ? "" : number(entry.last)}</td>
              <td class="number">{Number.isFinite(entry.min) ? number(entry.min) : ""}</td>
              <td class="number">{Number.isFinite(entry.max) ? number(entry.max) : ""}</td>
              <td class="number">{Number.isFinite(entry.mean) ? number(entry.mean) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > shown && <button class="more" onClick={() => setShown(shown + PART)}>Show {PART} more of {(sorted.length - shown).toLocaleString("en-US")}</button>}
    </div>
  );
}

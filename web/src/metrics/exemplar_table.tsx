// The exemplars of a plot as a table, which can be read without a pointer.

import { count, number, oneLine } from "../frame/text.ts";
import { dateTime } from "../frame/time.ts";
import { type Marks, MARKS_MAX } from "./exemplars.ts";

const ROWS_MAX = 100;

export function ExemplarTable({ marks: { marks, leftOut }, zone }: { marks: Marks; zone: string }) {
  if (marks.length === 0) return <p class="muted pad" role="status">The selected series have no exemplars in the time range.</p>;
  return (
    <section aria-label="Exemplars" class="exemplars">
      <h2 class="pad">{count(marks.length + leftOut)} exemplars</h2>
      {leftOut > 0 && <p class="warning pad">The newest {count(MARKS_MAX)} are drawn.</p>}
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of exemplars">
        <table class="data">
          <thead><tr><th>Time</th><th class="number">Value</th><th>Labels</th><th>Series</th></tr></thead>
          <tbody>
            {marks.slice(0, ROWS_MAX).map((mark, n) => (
              <tr key={n}>
                <td class="nowrap">{dateTime(mark.at, zone)}</td>
                <td class="number">{number(mark.value)}</td>
                <td>{Object.entries(mark.labels).map(([name, value]) => <span key={name} class="exemplar-label"><span class="muted">{oneLine(name, 60)}</span> <code>{oneLine(value, 200)}</code> </span>)}</td>
                <td class="muted"><bdi>{oneLine(mark.series, 200)}</bdi></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {marks.length > ROWS_MAX && <p class="muted pad">The newest {ROWS_MAX} of {count(marks.length + leftOut)}.</p>}
    </section>
  );
}

// The view of differences: a box over the histogram is compared with the rest of the time range.

import { type FieldDifference, type ValueShare, differences } from "../api/machine.ts";
import { ns } from "../api/loki.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count, oneLine, plural } from "../frame/text.ts";
import { type Span, dateTime } from "../frame/time.ts";
import type { Operator } from "./query.ts";
import type { Field } from "./rows.ts";

const VALUES_SHOWN = 4;

interface DifferencesProps {
  query: string;
  span: Span;
  box: Span | null;
  zone: string;
  runs: number;
  onFilter: (field: Field, operator: Operator, value: string) => void;
}

export function Differences({ query, span, box, zone, runs, onFilter }: DifferencesProps) {
  const answer = useAnswer(
    (signal) => (box ? differences({ query, start: ns(span.start), end: ns(span.end), box_start: ns(box.start), box_end: ns(box.end) }, { signal }) : null),
    [query, span.start, span.end, box?.start, box?.end, runs],
  );
  if (!box) {
    return (
      <div class="empty">
        <h2>Draw a box over the histogram</h2>
        <p>The lines inside the box are compared with the other lines of the time range. The fields whose values differ most come first.</p>
      </div>
    );
  }
  const found = answer.data;
  const different = found?.fields.filter(({ score }) => score > 0) ?? [];
  const same = found?.fields.filter(({ score }) => score === 0) ?? [];
  const isOneSided = found !== null && (found.inside === 0 || found.outside === 0);
  return (
    <section class="differences" aria-label="Differences">
      <Progress on={answer.loading} />
      <p class="row pad" role="status">
        <span>{dateTime(box.start, zone)} to {dateTime(box.end, zone).slice(11)}</span>
        {found && <span class="muted">{plural(found.inside, "line")} inside, {count(found.outside)} outside</span>}
        {found && <span class="muted">{plural(found.fields.length, "field")} compared{found.hasMoreFields && "; there are more"}</span>}
        {found && (found.everyInside > 1 || found.everyOutside > 1) && <span class="warning">A sample: one of {count(found.everyInside)} pages inside and of {count(found.everyOutside)} outside was read</span>}
      </p>
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.cancelled && <p class="wrong pad">Cancelled, also on the server. <button onClick={answer.retry}>Run again</button></p>}
      {isOneSided && <p class="empty">One side has no lines, so there is nothing to compare. Draw another box.</p>}
      <ol class="difference-list">
        {found && different.map((field) => <OneField key={`${field.origin} ${field.name}`} field={field} totals={found} onFilter={onFilter} />)}
      </ol>
      {found && !isOneSided && different.length === 0 && <p class="empty">No field differs by more than chance explains.</p>}
      {same.length > 0 && <p class="muted pad">No difference: {same.map(({ name }) => oneLine(name, 60)).join(", ")}</p>}
    </section>
  );
}

const percent = (share: number) => `${(share * 100).toFixed(share >= 0.1 || share === 0 ? 0 : 1)} %`;

interface Totals {
  inside: number;
  outside: number;
}

function OneField({ field, totals, onFilter }: { field: FieldDifference; totals: Totals; onFilter: DifferencesProps["onFilter"] }) {
  const { name, values, restInside, restOutside, number } = field;
  const rest = restInside + restOutside;
  const left = Math.max(0, values.length - VALUES_SHOWN) + field.valuesLeftOut;
  return (
    <li>
      <h3>
        <bdi>{oneLine(name, 100)}</bdi>
        {rest > 0 && <span class="muted"> many values: {count(rest)} lines have others than the {count(number)} that were counted</span>}
      </h3>
      <table class="data">
        <thead class="hidden"><tr><th>Value</th><th>Inside and outside</th><th>Shares</th><th>Actions</th></tr></thead>
        <tbody>{values.slice(0, VALUES_SHOWN).map((value) => <OneValue key={JSON.stringify(value.value)} field={field} value={value} totals={totals} onFilter={onFilter} />)}</tbody>
      </table>
      {left > 0 && <p class="muted">and {plural(left, "value")} more</p>}
    </li>
  );
}

interface ValueProps {
  field: FieldDifference;
  value: ValueShare;
  totals: Totals;
  onFilter: DifferencesProps["onFilter"];
}

function OneValue({ field: { name, origin }, value: { value, inside, outside }, totals, onFilter }: ValueProps) {
  const [insideShare, outsideShare] = [inside / Math.max(1, totals.inside), outside / Math.max(1, totals.outside)];
  const text = value ?? "";
  const filter = (operator: Operator) => onFilter({ name, origin, value: text }, operator, text);
  return (
    <tr>
      <td class="difference-value"><bdi title={oneLine(text, 500)}>{text === "" ? <em>none</em> : oneLine(text, 120)}</bdi></td>
      <td class="difference-bars">
        <span class="difference-bar inside" title={`${count(inside)} lines inside`}><span style={{ width: `${insideShare * 100}%` }} /></span>
        <span class="difference-bar" title={`${count(outside)} lines outside`}><span style={{ width: `${outsideShare * 100}%` }} /></span>
      </td>
      <td class="number">{percent(insideShare)} inside<br /><span class="muted">{percent(outsideShare)} outside</span></td>
      <td class="actions">
        <button class="quiet tiny" title="Filter for this value" aria-label={`Filter for ${oneLine(text, 40) || "none"}`} onClick={() => filter("=")}>+</button>
        <button class="quiet tiny" title="Filter out this value" aria-label={`Filter out ${oneLine(text, 40) || "none"}`} onClick={() => filter("!=")}>−</button>
      </td>
    </tr>
  );
}

// The view of differences: a box over the histogram is compared with the rest of the time range.

import { differences } from "../api/machine.ts";
import { ns } from "../api/loki.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { DifferenceList } from "../frame/difference_list.tsx";
import { count, plural } from "../frame/text.ts";
import { type Span, dateTime } from "../frame/time.ts";
import type { Operator } from "./query.ts";
import type { Field } from "./rows.ts";

interface DifferencesProps {
  query: string;
  span: Span;
  box: Span | null;
  zone: string;
  runs: number;
  onFilter: (field: Field, operator: Operator, value: string) => void;
}

const lines = (number: number) => plural(number, "line");

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
  return (
    <section class="differences" aria-label="Differences">
      <Progress on={answer.loading} />
      <p class="row pad" role="status">
        <span>{dateTime(box.start, zone)} to {dateTime(box.end, zone).slice(11)}</span>
        {found && <span class="muted">{lines(found.inside)} inside, {count(found.outside)} outside</span>}
        {found && <span class="muted">{plural(found.fields.length, "field")} compared{found.hasMoreFields && "; there are more"}</span>}
        {found && (found.everyInside > 1 || found.everyOutside > 1) && <span class="warning">A sample: one of {count(found.everyInside)} pages inside and of {count(found.everyOutside)} outside was read</span>}
      </p>
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.cancelled && <p class="wrong pad">Cancelled, also on the server. <button onClick={answer.retry}>Run again</button></p>}
      {found && <DifferenceList found={found} rows={lines} field="field" onFilter={({ name, origin }, operator, value) => onFilter({ name, origin, value }, operator, value)} />}
    </section>
  );
}

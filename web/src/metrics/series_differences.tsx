// The view of differences: the series in a box of the plot are compared with the others.

import { useEffect, useState } from "preact/hooks";
import { seriesDifferences } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { DifferenceList, type Filter } from "../frame/difference_list.tsx";
import type { Page } from "../frame/frame.tsx";
import { count, plural } from "../frame/text.ts";
import { dateTime, instant } from "../frame/time.ts";
import { isPlain } from "./matchers.ts";
import { type PlotBox, bound } from "./plot_box.ts";

interface Props {
  query: string;
  page: Page;
  step: number;
  box: PlotBox;
  onFilter: Filter;
}

const series = (value: number) => `${count(value)} series`;

export function SeriesDifferences({ query, page, step, box, onFilter }: Props) {
  const { span } = page;
  const answer = useAnswer((signal) => seriesDifferences({ query, span, step, box }, { signal }), [query, span.start, span.end, step, box.start, box.end, box.min, box.max, page.runs]);
  const found = answer.data;
  return (
    <section class="differences" aria-label="Differences">
      <Progress on={answer.loading} />
      <p class="row pad" role="status">
        {found && <span>{series(found.inside)} inside, {count(found.outside)} outside</span>}
        {found && <span class="muted">{plural(found.fields.length, "label")} compared{found.hasMoreFields && "; there are more"}</span>}
      </p>
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.cancelled && <p class="wrong pad">Cancelled, also on the server. <button onClick={answer.retry}>Run again</button></p>}
      {found && <DifferenceList found={found} rows={series} field="label" isFixed={({ name }) => name === "__name__" || !isPlain(name)} onFilter={onFilter} />}
    </section>
  );
}

/** The box as text, which can be changed by the keyboard. */
export function BoxForm({ box, page, onBox }: { box: PlotBox | null; page: Page; onBox: (box: PlotBox) => void }) {
  const { span, zone } = page;
  const quarter = span.end - (span.end - span.start) / 4;
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [min, setMin] = useState("");
  const [max, setMax] = useState("");
  const [wrong, setWrong] = useState("");
  const shown = (value: number | null | undefined) => (value === null || value === undefined ? "" : String(Number(value.toPrecision(6))));
  useEffect(() => {
    setFrom(dateTime(box?.start ?? quarter, zone));
    setTo(dateTime(box?.end ?? span.end, zone));
    setMin(shown(box?.min));
    setMax(shown(box?.max));
    setWrong("");
  }, [box?.start, box?.end, box?.min, box?.max, span.start, span.end, zone]);
  const submit = (event: Event) => {
    event.preventDefault();
    const [start, end, least, most] = [instant(from, Date.now(), zone), instant(to, Date.now(), zone), bound(min), bound(max)];
    if (start === null || end === null || start >= end || start >= span.end || end <= span.start) return setWrong("The times of the box are not in the time range.");
    if (least === undefined || most === undefined || (least !== null && most !== null && least > most)) return setWrong("The values of the box are not numbers in order.");
    setWrong("");
    onBox({ start, end, min: least, max: most });
  };
  const field = (label: string, value: string, set: (text: string) => void, size: number, hint = "") => (
    <label class="inline"><span class="muted">{label}</span> <input size={size} value={value} placeholder={hint} onInput={(event) => set(event.currentTarget.value)} /></label>
  );
  return (
    <form class="row pad box-form" aria-label="Box" onSubmit={submit}>
      {field("From", from, setFrom, 19)}
      {field("to", to, setTo, 19)}
      {field("values from", min, setMin, 8, "any")}
      {field("to", max, setMax, 8, "any")}
      <button>Compare</button>
      {wrong !== "" && <span class="wrong" role="alert">{wrong}</span>}
    </form>
  );
}

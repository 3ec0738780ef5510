// The view of differences: a box over the histogram is compared with the rest of the time range, field by
// field.
//
// Each field needs two queries. At most `FIELDS_MAX` fields are compared, two at a time; Escape stops.

import { useMemo, useState } from "preact/hooks";
import { type Series, detectedFields, detectedLabels, ns, queryInstant } from "../api/loki.ts";
import { Problem, useAnswer } from "../frame/answer.tsx";
import { count, oneLine, plural } from "../frame/text.ts";
import { type Span, dateTime } from "../frame/time.ts";
import { type Counts, type FieldDifference, type Totals, VALUES_MAX, compared } from "./differences.ts";
import { originOf } from "./field_bar.tsx";
import { extracted } from "./filters.ts";
import { type Operator, selectorOf } from "./query.ts";
import type { Field, Origin } from "./rows.ts";

const FIELDS_MAX = 40;
const AT_A_TIME = 2;
const VALUES_SHOWN = 4;

interface Found {
  name: string;
  origin: Origin;
  result: FieldDifference;
}

interface State {
  totals: Totals | null;
  fields: number;
  leftOut: number;
  found: Found[];
}

const NOTHING: State = { totals: null, fields: 0, leftOut: 0, found: [] };

interface DifferencesProps {
  query: string;
  span: Span;
  box: Span | null;
  zone: string;
  runs: number;
  onFilter: (field: Field, operator: Operator, value: string) => void;
}

export function Differences({ query, span, box, zone, runs, onFilter }: DifferencesProps) {
  const [state, setState] = useState<State>(NOTHING);
  const answer = useAnswer(
    (signal) => (box ? compare(query, span, box, signal, setState) : null),
    [query, span.start, span.end, box?.start, box?.end, runs],
  );
  const ranked = useMemo(() => [...state.found].sort((a, b) => b.result.score - a.result.score), [state]);
  if (!box) {
    return (
      <div class="empty">
        <h2>Draw a box over the histogram</h2>
        <p>The page compares the lines inside the box with the other lines of the time range, and ranks the fields whose values differ most.</p>
      </div>
    );
  }
  const different = ranked.filter(({ result }) => result.score > 0);
  const same = ranked.filter(({ result }) => result.score === 0);
  const { totals } = state;
  const isOneSided = totals !== null && (totals.inside === 0 || totals.inside >= totals.whole);
  return (
    <section class="differences" aria-label="Differences">
      <p class="row pad" role="status">
        <span>{dateTime(box.start, zone)} to {dateTime(box.end, zone).slice(11)}</span>
        {totals && <span class="muted">{plural(totals.inside, "line")} inside, {count(Math.max(0, totals.whole - totals.inside))} outside</span>}
        <span class="muted">{answer.loading ? `${state.found.length} of ${plural(state.fields, "field")} compared` : answer.cancelled ? `Stopped after ${plural(state.found.length, "field")}` : `${plural(state.found.length, "field")} compared`}</span>
      </p>
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {isOneSided && <p class="empty">One side has no lines, so there is nothing to compare. Draw another box.</p>}
      <ol class="difference-list">
        {different.map((one) => <OneField key={`${one.origin} ${one.name}`} found={one} onFilter={onFilter} />)}
      </ol>
      {!answer.loading && !answer.error && !isOneSided && totals !== null && different.length === 0 && <p class="empty">No field differs by more than chance explains.</p>}
      {same.length > 0 && <p class="muted pad">No difference: {same.map(({ name }) => oneLine(name, 60)).join(", ")}</p>}
      {state.leftOut > 0 && <p class="muted pad">{plural(state.leftOut, "field")} were not compared: at most {FIELDS_MAX} are.</p>}
    </section>
  );
}

async function compare(query: string, span: Span, box: Span, signal: AbortSignal, show: (state: State) => void): Promise<boolean> {
  show(NOTHING);
  const bounds = { start: ns(span.start), end: ns(span.end) };
  const [labels, fields] = await Promise.all([detectedLabels(selectorOf(query), bounds, { signal }), detectedFields(query, bounds, { signal })]);
  const known = new Map<string, Origin>(labels.map(({ label }) => [label, "label"]));
  for (const { label, parsers } of fields) if (!known.has(label)) known.set(label, originOf(parsers));
  // A label with one value cannot differ.
  for (const { label, cardinality } of labels) if (cardinality < 2) known.delete(label);
  const all = [...known].filter(([name]) => /^[A-Za-z_]\w*$/.test(name));
  const [whole, inside] = await Promise.all([total(query, span, signal), total(query, box, signal)]);
  const state: State = { totals: { inside, whole }, fields: Math.min(all.length, FIELDS_MAX), leftOut: Math.max(0, all.length - FIELDS_MAX), found: [] };
  show(state);
  if (inside === 0 || inside >= whole) return true;
  const waiting = all.slice(0, FIELDS_MAX);
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [name, origin] = next;
      const [ofWhole, ofInside] = await Promise.all([counts(query, name, origin, span, signal), counts(query, name, origin, box, signal)]);
      state.found = [...state.found, { name, origin, result: compared(ofInside, ofWhole, { inside, whole }) }];
      show({ ...state });
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  return true;
}

function seconds({ start, end }: Span): number {
  return Math.max(1, Math.ceil((end - start) / 1000));
}

async function total(query: string, within: Span, signal: AbortSignal): Promise<number> {
  const expression = `sum(count_over_time(${query}\n[${seconds(within)}s]))`;
  const { body } = await queryInstant(expression, ns(within.end), { signal });
  return Number((body.result as Series[])[0]?.value?.[1] ?? 0);
}

async function counts(query: string, name: string, origin: Origin, within: Span, signal: AbortSignal): Promise<Counts> {
  const expression = `topk(${VALUES_MAX}, sum by (${name}) (count_over_time(${extracted(query, origin)}\n[${seconds(within)}s])))`;
  const { body } = await queryInstant(expression, ns(within.end), { signal });
  return new Map((body.result as Series[]).map(({ metric, value }) => [metric[name] ?? "", Number(value?.[1] ?? 0)]));
}

const percent = (share: number) => `${(share * 100).toFixed(share >= 0.1 || share === 0 ? 0 : 1)} %`;

function OneField({ found: { name, origin, result }, onFilter }: { found: Found; onFilter: DifferencesProps["onFilter"] }) {
  return (
    <li>
      <h3><bdi>{oneLine(name, 100)}</bdi> {!result.isExact && <span class="muted" title={`Counts beyond the ${VALUES_MAX} most frequent values are not known`}>many values; shares ± {percent(result.error)}</span>}</h3>
      <table class="data">
        <thead class="hidden"><tr><th>Value</th><th>Inside</th><th>Outside</th><th>Actions</th></tr></thead>
        <tbody>
          {result.values.slice(0, VALUES_SHOWN).map((value) => (
            <tr key={value.value}>
              <td class="difference-value"><bdi title={oneLine(value.value, 500)}>{value.value === "" ? <em>none</em> : oneLine(value.value, 120)}</bdi></td>
              <td class="difference-bars">
                <span class="difference-bar inside" title={`${count(value.inside)} lines inside`}><span style={{ width: `${value.insideShare * 100}%` }} /></span>
                <span class="difference-bar" title={`${count(value.outside)} lines outside`}><span style={{ width: `${value.outsideShare * 100}%` }} /></span>
              </td>
              <td class="number">{percent(value.insideShare)} inside<br /><span class="muted">{percent(value.outsideShare)} outside</span></td>
              <td class="actions">
                <button class="quiet tiny" title="Filter for this value" aria-label={`Filter for ${oneLine(value.value, 40) || "none"}`} onClick={() => onFilter({ name, origin, value: value.value }, "=", value.value)}>+</button>
                <button class="quiet tiny" title="Filter out this value" aria-label={`Filter out ${oneLine(value.value, 40) || "none"}`} onClick={() => onFilter({ name, origin, value: value.value }, "!=", value.value)}>−</button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {result.values.length > VALUES_SHOWN && <p class="muted">and {plural(result.values.length - VALUES_SHOWN, "value")} more</p>}
    </li>
  );
}

// Fields whose values differ between a box and the rest, with the shares of their values.

import type { Differences, FieldDifference, ValueShare } from "../api/machine.ts";
import { count, oneLine, plural } from "./text.ts";

const VALUES_SHOWN = 4;

export type Filter = (field: FieldDifference, operator: "=" | "!=", value: string) => void;

interface ListProps {
  found: Differences;
  /** What is counted: `line` or `series`. */
  rows: (number: number) => string;
  /** What has values: `field` or `label`. */
  field: string;
  /** Fields without filters. */
  isFixed?: (field: FieldDifference) => boolean;
  onFilter: Filter;
}

export function DifferenceList({ found, rows, field: noun, isFixed = () => false, onFilter }: ListProps) {
  const different = found.fields.filter(({ score }) => score > 0);
  const same = found.fields.filter(({ score }) => score === 0);
  const isOneSided = found.inside === 0 || found.outside === 0;
  if (isOneSided) return <p class="empty">One side has no {rows(2).replace(/^\S+ /, "")}, so there is nothing to compare. Draw another box.</p>;
  return (
    <>
      <ol class="difference-list">
        {different.map((field) => <OneField key={`${field.origin} ${field.name}`} field={field} totals={found} rows={rows} onFilter={isFixed(field) ? null : onFilter} />)}
      </ol>
      {different.length === 0 && <p class="empty">No {noun} differs by more than chance explains.</p>}
      {same.length > 0 && <p class="muted pad">No difference: {same.map(({ name }) => oneLine(name, 60)).join(", ")}</p>}
    </>
  );
}

const percent = (share: number) => `${(share * 100).toFixed(share >= 0.1 || share === 0 ? 0 : 1)} %`;

interface Totals {
  inside: number;
  outside: number;
}

interface FieldProps {
  field: FieldDifference;
  totals: Totals;
  rows: (number: number) => string;
  onFilter: Filter | null;
}

function OneField({ field, totals, rows, onFilter }: FieldProps) {
  const { name, values, restInside, restOutside, restScoreMax, number } = field;
  const rest = restInside + restOutside;
  const left = Math.max(0, values.length - VALUES_SHOWN) + field.valuesLeftOut;
  return (
    <li>
      <h3>
        <bdi>{oneLine(name, 100)}</bdi>
        {rest > 0 && <span class="muted"> many values: {rows(rest)} with others than the {count(number)} that were counted; none of these differs by more than {percent(restScoreMax)}</span>}
      </h3>
      <table class="data">
        <thead class="hidden"><tr><th>Value</th><th>Inside and outside</th><th>Shares</th><th>Actions</th></tr></thead>
        <tbody>{values.slice(0, VALUES_SHOWN).map((value) => <OneValue key={JSON.stringify(value.value)} field={field} value={value} totals={totals} rows={rows} onFilter={onFilter} />)}</tbody>
      </table>
      {left > 0 && <p class="muted">and {plural(left, "value")} more</p>}
    </li>
  );
}

function OneValue({ field, value: { value, inside, outside }, totals, rows, onFilter }: FieldProps & { value: ValueShare }) {
  const [insideShare, outsideShare] = [inside / Math.max(1, totals.inside), outside / Math.max(1, totals.outside)];
  const text = value ?? "";
  return (
    <tr>
      <td class="difference-value"><bdi title={oneLine(text, 500)}>{text === "" ? <em>none</em> : oneLine(text, 120)}</bdi></td>
      <td class="difference-bars">
        <span class="difference-bar inside" title={`${rows(inside)} inside`}><span style={{ width: `${insideShare * 100}%` }} /></span>
        <span class="difference-bar" title={`${rows(outside)} outside`}><span style={{ width: `${outsideShare * 100}%` }} /></span>
      </td>
      <td class="number">{percent(insideShare)} inside<br /><span class="muted">{percent(outsideShare)} outside</span></td>
      <td class="actions">
        {onFilter && (
          <>
            <button class="quiet tiny" title="Filter for this value" aria-label={`Filter for ${oneLine(text, 40) || "none"}`} onClick={() => onFilter(field, "=", text)}>+</button>
            <button class="quiet tiny" title="Filter out this value" aria-label={`Filter out ${oneLine(text, 40) || "none"}`} onClick={() => onFilter(field, "!=", text)}>−</button>
          </>
        )}
      </td>
    </tr>
  );
}

// A line that is opened: its text, and its fields with what can be done with them.

import { useMemo, useState } from "preact/hooks";
import { copyText } from "../frame/clipboard.ts";
import { oneLine, visible } from "../frame/text.ts";
import { type Span, exact } from "../frame/time.ts";
import { ORIGINS } from "./filters.ts";
import type { Operator } from "./query.ts";
import { type Field, type Row, fieldsOf } from "./rows.ts";
import { TopValues } from "./top_values.tsx";

/** Characters that are drawn at a time. */
const PART = 32 << 10;

export interface DetailProps {
  row: Row;
  query: string;
  span: Span;
  zone: string;
  columns: string[];
  onFilter: (field: Field, operator: Operator, value: string) => void;
  onColumn: (name: string) => void;
  onContext: ((row: Row) => void) | null;
}

export function Detail(props: DetailProps) {
  const { row, zone } = props;
  const fields = useMemo(() => fieldsOf(row), [row]);
  const [shown, setShown] = useState(PART);
  const [top, setTop] = useState("");
  const [copied, setCopied] = useState("");
  const copy = (what: string, text: string) => {
    void copyText(text).then((isCopied) => setCopied(isCopied ? what : ""));
  };
  return (
    <div class="detail">
      <div class="detail-head">
        <span>{exact(row.ms, zone)}<span class="muted">{row.ns.slice(-6)}</span></span>
        <button class="quiet" onClick={() => copy("line", row.line)}>{copied === "line" ? "Copied" : "Copy the line"}</button>
        <button class="quiet" onClick={() => copy("json", JSON.stringify({ ...row, id: undefined }))}>{copied === "json" ? "Copied" : "Copy as JSON"}</button>
        {props.onContext && <button class="quiet" onClick={() => props.onContext?.(row)}>Lines before and after</button>}
      </div>
      <pre class="whole-line"><bdi>{visible(row.line.slice(0, shown))}</bdi></pre>
      {row.line.length > shown && (
        <p>
          <button onClick={() => setShown(shown + PART)}>
            Show more ({shown.toLocaleString("en-US")} of {row.line.length.toLocaleString("en-US")} characters)
          </button>
        </p>
      )}
      <table class="fields">
        <tbody>
          {fields.map((field) => {
            const key = `${field.origin} ${field.name}`;
            const act = (operator: Operator) => props.onFilter(field, operator, field.value);
            return [
              <tr key={key}>
                <th scope="row"><bdi>{oneLine(field.name, 120)}</bdi></th>
                <td class="actions">
                  <button class="quiet tiny" title="Filter for this value" aria-label={`Filter for ${field.name}`} onClick={() => act("=")}>+</button>
                  <button class="quiet tiny" title="Filter out this value" aria-label={`Filter out ${field.name}`} onClick={() => act("!=")}>−</button>
                  <button
                    class="quiet tiny"
                    title={props.columns.includes(field.name) ? "Remove the column" : "Show as a column"}
                    aria-label={`Column ${field.name}`}
                    aria-pressed={props.columns.includes(field.name)}
                    onClick={() => props.onColumn(field.name)}
                  >▥</button>
                  <button class="quiet tiny" title="Top values" aria-label={`Top values of ${field.name}`} aria-pressed={top === key} onClick={() => setTop(top === key ? "" : key)}>≡</button>
                </td>
                <td class="value"><bdi>{visible(field.value.slice(0, 4000))}</bdi></td>
                <td class="muted origin">{ORIGINS[field.origin]}</td>
              </tr>,
              top === key && (
                <tr key={`${key} top`}>
                  <td colSpan={4}>
                    <TopValues query={props.query} span={props.span} field={field} onFilter={(operator, value) => props.onFilter(field, operator, value)} />
                  </td>
                </tr>
              ),
            ];
          })}
        </tbody>
      </table>
    </div>
  );
}

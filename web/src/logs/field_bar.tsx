// The side bar: labels and fields of the lines of a query, with their number of values and top values.

import { useState } from "preact/hooks";
import { detectedFields, detectedLabels, ns } from "../api/loki.ts";
import { Problem, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";
import type { Span } from "../frame/time.ts";
import { type Operator, selectorOf } from "./query.ts";
import type { Field, Origin } from "./rows.ts";
import { TopValues } from "./top_values.tsx";

interface Known {
  name: string;
  origin: Origin;
  values: number;
}

const SHOWN_MAX = 200;

interface FieldBarProps {
  query: string;
  span: Span;
  columns: string[];
  onFilter: (field: Field, operator: Operator, value: string) => void;
  onColumn: (name: string) => void;
}

function originOf(parsers: string[] | null): Origin {
  if (!parsers || parsers.length === 0) return "metadata";
  return parsers.includes("json") ? "json" : "logfmt";
}

export function FieldBar(props: FieldBarProps) {
  const { query, span } = props;
  const [open, setOpen] = useState("");
  const [search, setSearch] = useState("");
  const bounds = { start: ns(span.start), end: ns(span.end) };
  const selector = selectorOf(query);
  const answer = useAnswer(
    async (signal): Promise<Known[]> => {
      const [labels, fields] = await Promise.all([
        detectedLabels(selector, bounds, { signal }),
        detectedFields(query, bounds, { signal }),
      ]);
      const known = labels.map(({ label, cardinality }): Known => ({ name: label, origin: "label", values: cardinality }));
      const names = new Set(known.map(({ name }) => name));
      for (const field of fields) {
        if (names.has(field.label)) continue;
        known.push({ name: field.label, origin: originOf(field.parsers), values: field.cardinality });
      }
      return known;
    },
    [query, span.start, span.end],
  );
  const found = (answer.data ?? []).filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
  return (
    <aside class="field-bar" aria-label="Fields">
      <input type="search" placeholder="Search fields" aria-label="Search fields" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {!answer.data && answer.loading && <p class="muted pad">Reading fields …</p>}
      {answer.data && found.length === 0 && <p class="muted pad">No fields.</p>}
      <ul>
        {found.slice(0, SHOWN_MAX).map((field) => {
          const key = `${field.origin} ${field.name}`;
          const isOpen = open === key;
          return (
            <li key={key}>
              <div class="field-name">
                <button class="quiet" aria-expanded={isOpen} onClick={() => setOpen(isOpen ? "" : key)}>
                  <span class={`origin-${field.origin}`} aria-hidden="true" />
                  <bdi>{oneLine(field.name, 80)}</bdi>
                  <span class="muted" title="Number of values">{count(field.values)}</span>
                </button>
                <button
                  class="quiet tiny"
                  title={props.columns.includes(field.name) ? "Remove the column" : "Show as a column"}
                  aria-label={`Column ${field.name}`}
                  aria-pressed={props.columns.includes(field.name)}
                  onClick={() => props.onColumn(field.name)}
                >▥</button>
              </div>
              {isOpen && (
                <TopValues
                  query={query}
                  span={span}
                  field={field}
                  onFilter={(operator, value) => props.onFilter({ ...field, value }, operator, value)}
                />
              )}
            </li>
          );
        })}
      </ul>
      {found.length > SHOWN_MAX && <p class="muted pad">{SHOWN_MAX} of {count(found.length)} fields; search for others.</p>}
    </aside>
  );
}

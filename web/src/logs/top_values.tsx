// The most frequent values of a field in the lines of a query.

import { type Series, ns, queryInstant } from "../api/loki.ts";
import { Problem, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";
import type { Span } from "../frame/time.ts";
import { extracted } from "./filters.ts";
import type { Operator } from "./query.ts";
import type { Origin } from "./rows.ts";

const VALUES = 10;

interface TopValuesProps {
  query: string;
  span: Span;
  field: { name: string; origin: Origin };
  onFilter: (operator: Operator, value: string) => void;
}

export function TopValues({ query, span, field, onFilter }: TopValuesProps) {
  const seconds = Math.max(1, Math.ceil((span.end - span.start) / 1000));
  const lines = extracted(query, field.origin);
  const expression = `topk(${VALUES}, sum by (${field.name}) (count_over_time(${lines}\n[${seconds}s])))`;
  const answer = useAnswer(
    async (signal) => (await queryInstant(expression, ns(span.end), { signal })).body.result as Series[],
    [expression, span.end],
  );
  if (answer.error) return <Problem error={answer.error} retry={answer.retry} />;
  if (!answer.data) return <p class="muted pad">Counting …</p>;
  const values = answer.data
    .map(({ metric, value }) => ({ value: metric[field.name] ?? "", lines: Number(value?.[1] ?? 0) }))
    .sort((a, b) => b.lines - a.lines);
  const most = values[0]?.lines ?? 0;
  if (values.length === 0) return <p class="muted pad">No line has this field.</p>;
  return (
    <ol class="top-values" aria-label={`Top values of ${field.name}`}>
      {values.map(({ value, lines: found }) => (
        <li key={value}>
          <span class="share" style={{ width: `${(found / Math.max(1, most)) * 100}%` }} />
          <bdi title={oneLine(value, 500)}>{value === "" ? <em>none</em> : oneLine(value, 120)}</bdi>
          <b>{count(found)}</b>
          <button class="quiet tiny" title="Filter for this value" aria-label={`Filter for ${oneLine(value, 40)}`} onClick={() => onFilter("=", value)}>+</button>
          <button class="quiet tiny" title="Filter out this value" aria-label={`Filter out ${oneLine(value, 40)}`} onClick={() => onFilter("!=", value)}>−</button>
        </li>
      ))}
    </ol>
  );
}

// The newest lines of a query in a panel.

import type { Row } from "../logs/rows.ts";
import { oneLine } from "../frame/text.ts";
import { exact, shortParts } from "../frame/time.ts";
import { LINES_MAX } from "./panel_data.ts";

export function LogLines({ rows, zone }: { rows: Row[]; zone: string }) {
  if (rows.length === 0) return <p class="muted nothing">No lines match in this time range.</p>;
  return (
    <ol class="panel-lines" tabIndex={0} aria-label="Lines">
      {rows.slice(0, LINES_MAX).map((row) => {
        const [date, clock] = shortParts(row.ms, zone);
        return (
          <li key={row.id} class={`level-${row.level}`}>
            <time title={exact(row.ms, zone)}>{date} {clock}</time> <bdi>{oneLine(row.line, 2000)}</bdi>
          </li>
        );
      })}
    </ol>
  );
}

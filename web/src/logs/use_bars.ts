// The bars of the histogram as state of a component.
//
// Levels are few. Of any other label the most frequent values are asked first, so that a label with a
// million values needs no more series than one with ten.

import { type Series, ns, queryInstant, queryRange } from "../api/loki.ts";
import { type Answered, useAnswer } from "../frame/answer.tsx";
import type { Page } from "../frame/frame.tsx";
import { niceStep, stepText } from "../frame/time.ts";
import { type Bars, GROUPS_MAX, barsOf } from "./levels.ts";
import { extracted } from "./filters.ts";
import { quoted } from "./query.ts";

export const LEVEL = "detected_level";
const BARS = 100;

/** What the histogram groups by: a label, or a field that a stage extracts from the line. */
export interface Grouping {
  /** As in the URL: `app`, `json:user`. */
  text: string;
  label: string;
  stage: "json" | "logfmt" | null;
}

/** Reads a grouping; a URL may contain anything. */
export function groupingOf(text: string | null): Grouping {
  const parts = /^(?:(json|logfmt):)?([A-Za-z_]\w*)$/.exec(text ?? "");
  if (!text || !parts) return { text: LEVEL, label: LEVEL, stage: null };
  return { text, label: parts[2] ?? LEVEL, stage: (parts[1] as Grouping["stage"]) ?? null };
}

function oneOf(label: string, values: string[]): string {
  const escaped = values.map((value) => value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return `| ${label}=~${quoted(escaped.join("|"))}`;
}

export function useBars(lines: string, page: Page, grouping: Grouping, on: boolean): Answered<Bars> {
  const by = grouping.label;
  const query = grouping.stage === null ? lines : extracted(lines, grouping.stage);
  const { span, runs } = page;
  const step = niceStep(span, BARS);
  const first = Math.floor(span.start / step) * step + step;
  const last = Math.ceil(span.end / step) * step;
  return useAnswer(
    (signal) => {
      if (!on) return null;
      const counts = async (sum: string, condition: string): Promise<Series[]> => {
        // A line break ends a comment at the end of the query.
        const expression = `sum ${sum} (count_over_time(${query}\n${condition} [${stepText(step)}]))`;
        const asked = { query: expression, start: ns(first), end: ns(last), step: stepText(step) };
        return (await queryRange(asked, { signal })).body.result as Series[];
      };
      const grouped = async (): Promise<Bars> => {
        if (by === LEVEL) return barsOf(await counts(`by (${by})`, ""), by, first, last, step);
        const seconds = Math.ceil((span.end - span.start) / 1000);
        const most = `topk(${GROUPS_MAX}, sum by (${by}) (count_over_time(${query}\n[${seconds}s])))`;
        const top = (await queryInstant(most, ns(span.end), { signal })).body.result as Series[];
        const values = top.map(({ metric }) => metric[by] ?? "");
        const [parts, all] = await Promise.all([
          values.length === 0 ? [] : counts(`by (${by})`, oneOf(by, values)),
          counts("", ""),
        ]);
        return barsOf(parts, by, first, last, step, all);
      };
      return grouped();
    },
    [query, span.start, span.end, runs, by, on],
  );
}

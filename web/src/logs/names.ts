// Names for the completion of LogQL, of the present range; answers are kept for a minute.

import type { LogNames } from "../editor/logql.ts";
import { detectedFields, labelNames, labelValues, ns } from "../api/loki.ts";
import type { Span } from "../frame/time.ts";

const KEPT_MS = 60_000;

export function logNames(span: () => Span): LogNames {
  const kept = new Map<string, { at: number; names: Promise<string[]> }>();
  const once = (key: string, ask: () => Promise<string[]>): Promise<string[]> => {
    const known = kept.get(key);
    if (known && performance.now() - known.at < KEPT_MS) return known.names;
    if (kept.size > 100) kept.clear();
    const names = ask().catch(() => {
      kept.delete(key);
      return [];
    });
    kept.set(key, { at: performance.now(), names });
    return names;
  };
  const bounds = () => ({ start: ns(span().start), end: ns(span().end) });
  return {
    labels: () => once("labels", () => labelNames(bounds())),
    values: (label, selector) => {
      const isUsable = selector !== null && /[=~]/.test(selector);
      const query = isUsable ? selector : null;
      return once(`values ${label} ${query}`, () => labelValues(label, query, bounds()));
    },
    fields: (query) =>
      /=/.test(query) ? once(`fields ${query}`, async () => (await detectedFields(query, bounds())).map(({ label }) => label)) : Promise.resolve([]),
  };
}

// PromQL for the editor: Prometheus's own mode, with names from this server.

import { PromQLExtension } from "@prometheus-io/codemirror-promql";
import type { Extension } from "@codemirror/state";
import { labelNames, labelValues, metadata, metricNames } from "../api/prometheus.ts";

type Client = NonNullable<Extract<NonNullable<Parameters<PromQLExtension["setComplete"]>[0]>["remote"], { metricNames: unknown }>>;

/** Names that a completion offers at most. */
const NAMES_MAX = 5000;

function selector(metric?: string, matchers: { name: string; type: string; value: string }[] = []): string | null {
  const symbols: Record<string, string> = { EqlSingle: "=", Neq: "!=", EqlRegex: "=~", NeqRegex: "!~" };
  const parts = matchers
    .filter((matcher) => matcher.value !== "")
    .map(({ name, type, value }) => `${name}${symbols[type] ?? "="}${JSON.stringify(value)}`);
  if (metric) parts.push(`__name__=${JSON.stringify(metric)}`);
  return parts.length > 0 ? `{${parts.join(",")}}` : null;
}

export function promql(bounds: () => { start: number; end: number }): Extension {
  const kept = new Map<string, Promise<unknown>>();
  /** Answers of a minute ago are still good for completion. */
  const once = <T>(key: string, ask: () => Promise<T>): Promise<T> => {
    const known = kept.get(key) as Promise<T> | undefined;
    if (known) return known;
    if (kept.size > 200) kept.clear();
    const asked = ask().catch((error: unknown) => {
      kept.delete(key);
      throw error;
    });
    kept.set(key, asked);
    setTimeout(() => kept.delete(key), 60_000);
    return asked;
  };
  const quiet = <T>(ask: Promise<T>, none: T) => ask.catch(() => none);
  const client: Client = {
    labelNames: (metric) =>
      quiet(once(`names ${metric}`, () => labelNames(selector(metric), bounds(), NAMES_MAX)), []),
    labelValues: (label, metric, matchers) => {
      const others = matchers?.filter((matcher) => matcher.name !== label) ?? [];
      const match = selector(metric, others as never);
      return quiet(once(`values ${label} ${match}`, () => labelValues(label, match, bounds(), NAMES_MAX)), []);
    },
    metricMetadata: () => quiet(once("metadata", () => metadata(NAMES_MAX)), {}),
    series: () => Promise.resolve([]),
    metricNames: () => quiet(once("metrics", () => metricNames(bounds(), NAMES_MAX)), []),
    flags: () => Promise.resolve({}),
  };
  return new PromQLExtension().setComplete({ remote: client }).asExtension();
}

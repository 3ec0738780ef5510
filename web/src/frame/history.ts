// The queries that were asked in this browser, the last first.
//
// Invariants: at most `KEPT_MAX` queries of a language are kept, each once, and none that is longer than
// `LENGTH_MAX`.

export type HistoryOf = "logql" | "promql" | "graphite";

const KEPT_MAX = 100;
const LENGTH_MAX = 4000;

const key = (language: HistoryOf) => `sandur.history.${language}`;

export function earlier(language: HistoryOf): string[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key(language)) ?? "[]");
    return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return []; // Browsers that block storage throw.
  }
}

/** The list with a query in front. */
export function withQuery(list: string[], query: string): string[] {
  const plain = query.trim();
  if (plain === "" || plain.length > LENGTH_MAX) return list;
  return [plain, ...list.filter((one) => one !== plain)].slice(0, KEPT_MAX);
}

export function remember(language: HistoryOf, query: string): void {
  const list = earlier(language);
  const next = withQuery(list, query);
  if (next[0] === list[0] && next.length === list.length) return;
  try {
    localStorage.setItem(key(language), JSON.stringify(next));
  } catch {
    // Nothing is kept.
  }
}

export function forget(language: HistoryOf): void {
  try {
    localStorage.removeItem(key(language));
  } catch {
    // Nothing is kept.
  }
}

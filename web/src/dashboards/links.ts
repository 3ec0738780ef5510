// Permalinks from a panel to its queries on the other pages.

import { type Changes, link } from "../frame/url.ts";
import type { Language, Panel } from "./model.ts";
import { type Scope, substituted } from "./substitution.ts";

export interface Open {
  url: string;
  place: string;
  text: string;
}

const VIEWS: Record<string, string> = { stacked: "stacked", heatmap: "heatmap", table: "table" };

/** One link for the queries of each language; of LogQL one for each query. */
export function opens(panel: Panel, scope: Scope, kept: Changes): Open[] {
  const of = (language: Language) => panel.queries.filter((query) => query.language === language).map(({ text }) => substituted(text, scope, language));
  const view = VIEWS[panel.kind ?? ""] ?? null;
  const [promql, graphite] = [of("promql"), of("graphite")];
  const found: Open[] = [];
  if (promql.length > 0) found.push({ url: link("metrics", { ...kept, q: promql, view }), place: "Metrics", text: promql.join("; ") });
  if (graphite.length > 0) found.push({ url: link("graphite", { ...kept, target: graphite, view: view === "stacked" ? view : null }), place: "Graphite", text: graphite.join("; ") });
  for (const query of of("logql")) found.push({ url: link("logs", { ...kept, q: query }), place: "Logs", text: query });
  return found;
}

// What a person does with a field of a line: a filter for it or against it, by where the field comes from.

import { type Operator, withCondition, withMatcher } from "./query.ts";
import type { Field, Origin } from "./rows.ts";

export function filtered(query: string, field: { name: string; origin: Origin }, operator: Operator, value: string): string {
  switch (field.origin) {
    case "label":
      return withMatcher(query, field.name, operator, value);
    case "json":
    case "logfmt":
      return withCondition(query, field.name, operator, value, field.origin);
    case "metadata":
    case "parsed":
      return withCondition(query, field.name, operator, value, null);
  }
}

/** The query whose rows have the field as a label. */
export function extracted(query: string, origin: Origin): string {
  if (origin !== "json" && origin !== "logfmt") return query;
  return new RegExp(`\\|\\s*${origin}\\b`).test(query) ? query : `${query.trim()}\n| ${origin}`;
}

export const ORIGINS: Record<Field["origin"], string> = {
  label: "label",
  metadata: "metadata",
  parsed: "extracted",
  json: "JSON",
  logfmt: "logfmt",
};

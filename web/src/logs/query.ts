// Edits of LogQL by its syntax tree: what a query is, and the same query with one more condition.

import type { SyntaxNode } from "@lezer/common";
import { LineComment, MetricExpr, Matcher, Selector, String as StringNode, parser } from "@grafana/lezer-logql";

export type QueryKind = "empty" | "lines" | "metric";

function find(node: SyntaxNode, type: number): SyntaxNode | null {
  if (node.type.id === type) return node;
  for (let child = node.firstChild; child; child = child.nextSibling) {
    const found = find(child, type);
    if (found) return found;
  }
  return null;
}

export function kindOf(query: string): QueryKind {
  if (query.trim() === "") return "empty";
  return find(parser.parse(query).topNode, MetricExpr) ? "metric" : "lines";
}

/** The first selector of a query, `{}` if there is none. */
export function selectorOf(query: string): string {
  const node = find(parser.parse(query).topNode, Selector);
  return node ? query.slice(node.from, node.to) : "{}";
}

/** A text as a string of LogQL. */
export function quoted(text: string): string {
  const isPlain = /["\\]/.test(text) && !/[`\n\r\t]/.test(text) && !hasControl(text);
  return isPlain ? `\`${text}\`` : JSON.stringify(text);
}

function hasControl(text: string): boolean {
  return [...text].some((character) => character.charCodeAt(0) < 0x20);
}

export type Operator = "=" | "!=";

/** The query with a matcher of a label of its streams; a matcher for the opposite is replaced. */
export function withMatcher(query: string, name: string, operator: Operator, value: string): string {
  const matcher = `${name}${operator}${quoted(value)}`;
  const selector = find(parser.parse(query).topNode, Selector);
  if (!selector) return `{${matcher}}`;
  const kept: string[] = [];
  const visit = (node: SyntaxNode) => {
    if (node.type.id === Matcher) {
      const text = query.slice(node.from, node.to).trim();
      if (!contradicts(query, node, name, operator, value) && text !== matcher) kept.push(text);
      return;
    }
    for (let child = node.firstChild; child; child = child.nextSibling) visit(child);
  };
  visit(selector);
  const all = `{${[...kept, matcher].join(", ")}}`;
  return query.slice(0, selector.from) + all + query.slice(selector.to);
}

/** Whether a matcher excludes everything together with the new one, or is implied by it. */
function contradicts(query: string, node: SyntaxNode, name: string, operator: Operator, value: string): boolean {
  const text = query.slice(node.from, node.to);
  const parts = /^\s*([^\s=!~]+)\s*(=~|!~|!=|=)/.exec(text);
  const string = find(node, StringNode);
  if (!parts || !string || parts[1] !== name) return false;
  const given = query.slice(string.from, string.to);
  const isSame = given === quoted(value) || given === JSON.stringify(value) || given === `\`${value}\``;
  if (operator === "=") return parts[2] === "=" || (parts[2] === "!=" && isSame) || (parts[2] === "=~" && given === '".+"');
  return parts[2] === "=" && isSame;
}

/** The query with a condition on a field behind its stages; `by` is the stage that extracts the field. */
export function withCondition(
  query: string,
  name: string,
  operator: Operator,
  value: string,
  by: "json" | "logfmt" | null,
): string {
  const base = query.trim();
  const condition = `| ${name}${operator}${quoted(value)}`;
  if (base.includes(condition)) return base;
  const opposite = `| ${name}${operator === "=" ? "!=" : "="}${quoted(value)}`;
  const cleaned = base.replace(opposite, "").trim();
  const hasStage = by === null || new RegExp(`\\|\\s*${by}\\b`).test(cleaned);
  const separator = endsInComment(cleaned) ? "\n" : " ";
  return `${cleaned}${separator}${hasStage ? "" : `| ${by} `}${condition}`;
}

/** Whether text behind the query would be part of a comment. */
function endsInComment(query: string): boolean {
  const last = parser.parse(query).resolveInner(query.length, -1);
  return last.type.id === LineComment;
}

/** The query with a filter of lines in front of its other stages. */
export function withLineFilter(query: string, operator: "|=" | "!=" | "|>" | "!>", text: string): string {
  const selector = find(parser.parse(query).topNode, Selector);
  const filter = ` ${operator} ${quoted(text)}`;
  if (!selector) return query + filter;
  return query.slice(0, selector.to) + filter + query.slice(selector.to);
}

/** The selector of exactly one stream. */
export function streamSelector(labels: Record<string, string>): string {
  return `{${Object.entries(labels).map(([name, value]) => `${name}=${quoted(value)}`).join(", ")}}`;
}

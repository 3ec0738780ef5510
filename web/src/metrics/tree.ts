// The parts of a PromQL expression as a tree, by the syntax tree of the editor's parser.
//
// Invariants: each part is an expression of its own that can be asked; literals and parentheses are no parts.
// A tree has at most `PARTS_MAX` parts.

import type { SyntaxNode } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";

export interface Part {
  /** The text of the part as it is written. */
  text: string;
  /** What the part does, as a short title: `sum by (job)`, `rate`, a selector. */
  title: string;
  depth: number;
  /** Whether the part is a range of samples, which only functions take. */
  isRange: boolean;
}

export const PARTS_MAX = 60;

const SELECTORS = new Set(["VectorSelector", "MatrixSelector"]);
const MODIFIERS = new Set(["OffsetExpr", "StepInvariantExpr"]);
const NODES = new Set(["BinaryExpr", "AggregateExpr", "FunctionCall", "UnaryExpr", "SubqueryExpr", ...SELECTORS, ...MODIFIERS]);

/** The parts in the order in which they are written, parents before their children; empty if there is an error. */
export function partsOf(query: string): Part[] {
  const tree = parser.parse(query);
  let isBroken = false;
  tree.iterate({ enter: (node) => void (isBroken ||= node.type.isError) });
  if (isBroken) return [];
  const parts: Part[] = [];
  const visit = (node: SyntaxNode, depth: number) => {
    if (parts.length >= PARTS_MAX) return;
    const isPart = NODES.has(node.name);
    if (isPart) parts.push({ text: query.slice(node.from, node.to), title: titleOf(node, query), depth, isRange: isRange(node) });
    if (SELECTORS.has(node.name) || (MODIFIERS.has(node.name) && selects(node))) return;
    for (let child = node.firstChild; child; child = child.nextSibling) visit(child, depth + (isPart ? 1 : 0));
  };
  visit(tree.topNode, 0);
  return parts;
}

function oneLine(text: string): string {
  return text.split("\n").map((line) => line.replace(/^\s+|\s+$/g, "")).filter((line) => !line.startsWith("#")).join(" ");
}

/** Whether a modifier stands directly at a selector; then both are one part. */
function selects(node: SyntaxNode): boolean {
  const inner = node.firstChild;
  return inner !== null && (SELECTORS.has(inner.name) || (MODIFIERS.has(inner.name) && selects(inner)));
}

function isRange(node: SyntaxNode): boolean {
  if (node.name === "MatrixSelector" || node.name === "SubqueryExpr") return true;
  return MODIFIERS.has(node.name) && node.firstChild !== null && isRange(node.firstChild);
}

function titleOf(node: SyntaxNode, query: string): string {
  const text = (of: SyntaxNode | null) => (of ? oneLine(query.slice(of.from, of.to)) : "");
  switch (node.name) {
    case "AggregateExpr":
      return `${text(node.getChild("AggregateOp"))} ${text(node.getChild("AggregateModifier"))}`.trim();
    case "FunctionCall":
      return text(node.getChild("FunctionIdentifier"));
    case "UnaryExpr":
      return text(node.getChild("UnaryOp"));
    case "BinaryExpr": {
      const [left, right] = [node.firstChild, node.lastChild];
      return left && right ? oneLine(query.slice(left.to, right.from)).trim() : "";
    }
    case "SubqueryExpr":
      return `subquery ${oneLine(query.slice(node.firstChild?.to ?? node.from, node.to))}`;
    default:
      return text(node);
  }
}

/** A query that counts the series of a part, so that the answer is small whatever the part is. */
export function counting({ text, isRange: isOfRange }: Part): string {
  return isOfRange ? `count(count_over_time(${text}))` : `count(${text})`;
}

// Marks the texts of line filters in lines.

import type { SyntaxNode } from "@lezer/common";
import { LineFilter, PipeExact, String as StringNode, parser } from "@grafana/lezer-logql";
import { useMemo } from "preact/hooks";

/** Texts that a query looks for with `|=`. */
export function soughtTexts(query: string): string[] {
  const texts: string[] = [];
  const strings = (node: SyntaxNode) => {
    if (node.type.id === StringNode) texts.push(unquoted(query.slice(node.from, node.to)));
    for (let child = node.firstChild; child; child = child.nextSibling) strings(child);
  };
  const filters = (node: SyntaxNode) => {
    if (node.type.id === LineFilter && node.firstChild?.firstChild?.type.id === PipeExact) strings(node);
    else for (let child = node.firstChild; child; child = child.nextSibling) filters(child);
  };
  filters(parser.parse(query).topNode);
  return [...new Set(texts)].filter((text) => text !== "").slice(0, 20);
}

function unquoted(text: string): string {
  if (text.startsWith("`")) return text.slice(1, -1);
  try {
    return String(JSON.parse(text));
  } catch {
    return "";
  }
}

/** An expression that finds the texts of a query; `null` if there are none. */
export function useSought(query: string): RegExp | null {
  return useMemo(() => {
    const texts = soughtTexts(query).sort((a, b) => b.length - a.length);
    if (texts.length === 0) return null;
    return new RegExp(`(${texts.map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "g");
  }, [query]);
}

export function Marked({ text, sought }: { text: string; sought: RegExp | null }) {
  if (!sought) return <>{text}</>;
  // With one group in the expression, every second part is a match.
  return <>{text.split(sought).map((part, n) => (n % 2 === 1 ? <mark key={n}>{part}</mark> : part))}</>;
}

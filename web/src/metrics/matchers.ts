// Adds a matcher to all selectors of a PromQL expression, by the syntax tree of the editor's parser.

import { parser } from "@prometheus-io/lezer-promql";

/** Whether a matcher can name the label as it is, without quotes. */
export function isPlain(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name);
}

/** The expression with the matcher; `null` if it has an error or no selector, or if the label is no plain name. */
export function withMatcher(query: string, name: string, operator: "=" | "!=", value: string): string | null {
  if (!isPlain(name)) return null;
  const text = `${name}${operator}${JSON.stringify(value)}`;
  const inserts: [number, string][] = [];
  let isBroken = false;
  parser.parse(query).iterate({
    enter: ({ node }) => {
      isBroken ||= node.type.isError;
      if (node.name !== "VectorSelector") return true;
      const matchers = node.getChild("LabelMatchers");
      if (!matchers) {
        inserts.push([node.to, `{${text}}`]);
        return true;
      }
      const inner = query.slice(matchers.from + 1, matchers.to - 1);
      const isOpen = inner.trim() === "" || inner.trim().endsWith(",");
      inserts.push([matchers.to - 1, isOpen ? text : `, ${text}`]);
      return true;
    },
  });
  if (isBroken || inserts.length === 0) return null;
  // From the end, so that earlier places stay what they are.
  return inserts.sort(([a], [b]) => b - a).reduce((all, [at, added]) => all.slice(0, at) + added + all.slice(at), query);
}

// Completion of Graphite's targets: nodes of paths, and functions.

import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { EditorState, type Extension } from "@codemirror/state";
import { type GraphiteFunction, find, functions } from "../api/graphite.ts";

let known: Promise<Record<string, GraphiteFunction>> | null = null;

/** The functions of the server; they do not change while it runs. */
export function graphiteFunctions(): Promise<Record<string, GraphiteFunction>> {
  known ??= functions().catch((error: unknown) => {
    known = null;
    throw error;
  });
  return known;
}

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[^\s(),"']*$/);
  if (!word || (word.text === "" && !context.explicit)) return null;
  const dot = word.text.lastIndexOf(".");
  const from = word.from + dot + 1;
  try {
    const nodes = await find(`${word.text.slice(0, dot + 1)}${word.text.slice(dot + 1)}*`);
    const paths = nodes.slice(0, 500).map(({ text, leaf }) => ({ label: text, apply: leaf ? text : `${text}.`, type: "property" }));
    if (dot >= 0) return { from, options: paths };
    const named = Object.values(await graphiteFunctions()).map(({ name, group }) => ({ label: name, apply: `${name}(`, detail: group, type: "function" }));
    return { from, options: [...paths, ...named] };
  } catch {
    return null;
  }
}

export function graphite(): Extension {
  return EditorState.languageData.of(() => [{ autocomplete: complete, closeBrackets: { brackets: ["(", '"', "'", "{"] } }]);
}

// LogQL for the editor: highlighting, and completion of labels, values, fields, stages and functions.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { LRLanguage, LanguageSupport } from "@codemirror/language";
import { styleTags, tags } from "@lezer/highlight";
import { parser } from "@grafana/lezer-logql";
import { selectorOf } from "../logs/query.ts";

/** What the completion asks the server. */
export interface LogNames {
  labels(): Promise<string[]>;
  values(label: string, selector: string | null): Promise<string[]>;
  fields(query: string): Promise<string[]>;
}

const language = LRLanguage.define({
  name: "logql",
  parser: parser.configure({
    props: [
      styleTags({
        LineComment: tags.comment,
        "Identifier LabelName": tags.labelName,
        String: tags.string,
        "Number Duration Range": tags.number,
        "Json Logfmt Unpack Pattern Regexp Unwrap LabelFormat LineFormat LabelReplace Decolorize Drop Keep": tags.keyword,
        "Vector Offset Bool On Ignoring GroupLeft GroupRight By Without And Or Unless": tags.keyword,
        "Sum Avg Count Max Min Stddev Stdvar Bottomk Topk Sort Sort_Desc": tags.function(tags.variableName),
        "CountOverTime Rate RateCounter BytesOverTime BytesRate AvgOverTime SumOverTime MinOverTime": tags.function(tags.variableName),
        "MaxOverTime StddevOverTime StdvarOverTime QuantileOverTime FirstOverTime LastOverTime AbsentOverTime":
          tags.function(tags.variableName),
        "Eq Neq Re Nre PipeExact PipeMatch PipePattern Npa Pipe": tags.operator,
      }),
    ],
  }),
  languageData: { closeBrackets: { brackets: ["(", "[", "{", '"', "`"] }, commentTokens: { line: "#" } },
});

const STAGES: [string, string][] = [
  ["json", "extract the members of a JSON line"],
  ["logfmt", "extract key=value pairs"],
  ["pattern", "extract by a pattern: <ip> - <_>"],
  ["regexp", "extract named groups"],
  ["unpack", "reverse Promtail's pack"],
  ["line_format", "replace the line by a template"],
  ["label_format", "rename or set labels"],
  ["unwrap", "use a label as the value"],
  ["drop", "remove labels"],
  ["keep", "remove all other labels"],
  ["decolorize", "remove ANSI colours"],
];
const RANGE_FUNCTIONS = [
  "rate", "count_over_time", "bytes_rate", "bytes_over_time", "sum_over_time", "avg_over_time", "max_over_time",
  "min_over_time", "quantile_over_time", "first_over_time", "last_over_time", "stddev_over_time",
  "stdvar_over_time", "absent_over_time", "rate_counter",
];
const VECTOR_FUNCTIONS = ["sum", "avg", "min", "max", "count", "topk", "bottomk", "stddev", "stdvar", "sort", "sort_desc"];
const WORD = /[A-Za-z_][\w]*$/;

function options(names: readonly string[], type: string, finish: (name: string) => string = (name) => name): Completion[] {
  return names.slice(0, 2000).map((name) => ({ label: name, type, apply: finish(name) }));
}

/** The kind of place where the cursor is, by the text in front of it. */
export type Spot =
  | { kind: "label"; from: number }
  | { kind: "value"; from: number; label: string; quote: string }
  | { kind: "stage"; from: number }
  | { kind: "grouping"; from: number }
  | { kind: "start"; from: number }
  | null;

export function spotOf(before: string): Spot {
  const open = openBrace(before);
  if (open >= 0) {
    const inside = before.slice(open + 1);
    const value = /([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)\s*(["`])([^"`]*)$/.exec(inside);
    if (value) {
      const typed = value[3] ?? "";
      return { kind: "value", from: before.length - typed.length, label: value[1] ?? "", quote: value[2] ?? '"' };
    }
    const label = /(?:^|,)\s*([A-Za-z_]\w*)?$/.exec(inside);
    return label ? { kind: "label", from: before.length - (label[1]?.length ?? 0) } : null;
  }
  const grouping = /\b(?:by|without)\s*\([^)]*?([A-Za-z_]\w*)?$/.exec(before);
  if (grouping) return { kind: "grouping", from: before.length - (grouping[1]?.length ?? 0) };
  const stage = /\|\s*([A-Za-z_]\w*)?$/.exec(before);
  if (stage && before.includes("}")) return { kind: "stage", from: before.length - (stage[1]?.length ?? 0) };
  const start = /(?:^|[\s(,])([A-Za-z_]\w*)?$/.exec(before);
  if (start && !before.slice(before.lastIndexOf("(") + 1).includes("}")) {
    return { kind: "start", from: before.length - (start[1]?.length ?? 0) };
  }
  return null;
}

/** The brace that is open at the end of a text, outside of strings; -1 if there is none. */
function openBrace(text: string): number {
  let open = -1;
  let quote = "";
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (quote !== "") {
      if (character === "\\" && quote === '"') at += 1;
      else if (character === quote) quote = "";
    } else if (character === '"' || character === "`") quote = character;
    else if (character === "{") open = at;
    else if (character === "}") open = -1;
  }
  return open;
}

export function logql(names: LogNames): LanguageSupport {
  const complete = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.state.sliceDoc(0, context.pos);
    const whole = context.state.doc.toString();
    const spot = spotOf(before);
    if (!spot) return null;
    const word = before.slice(spot.from);
    if (!context.explicit && word === "" && spot.kind === "start") return null;
    try {
      return { from: spot.from, ...(await at(spot, whole)) };
    } catch {
      return null; // Completion is an offer; the query itself reports failures.
    }
  };

  const at = async (spot: NonNullable<Spot>, whole: string): Promise<Omit<CompletionResult, "from">> => {
    switch (spot.kind) {
      case "label":
        return { options: options(await names.labels(), "property", (name) => `${name}="`), validFor: WORD };
      case "value": {
        const complete = selectorOf(whole);
        const others = complete.includes(`${spot.label}`) ? null : complete;
        const values = await names.values(spot.label, others);
        const escaped = (value: string) => (spot.quote === "`" ? value : JSON.stringify(value).slice(1, -1));
        return { options: options(values, "text", escaped), validFor: /^[^"`]*$/ };
      }
      case "grouping": {
        const [labels, fields] = await Promise.all([names.labels(), names.fields(selectorOf(whole))]);
        return { options: options([...new Set([...labels, ...fields])], "property"), validFor: WORD };
      }
      case "stage": {
        const stages = STAGES.map(([label, detail]) => ({ label, detail, type: "keyword", boost: 1 }));
        const fields = await names.fields(selectorOf(whole));
        return { options: [...stages, ...options(fields, "property")], validFor: WORD };
      }
      case "start":
        return {
          options: [
            { label: "{", type: "text", detail: "select streams", boost: 2 },
            ...options(RANGE_FUNCTIONS, "function", (name) => `${name}(`),
            ...options(VECTOR_FUNCTIONS, "function", (name) => `${name} `),
          ],
          validFor: WORD,
        };
    }
  };
  return new LanguageSupport(language, language.data.of({ autocomplete: complete }));
}

// Sources of data and variables of a dashboard of Grafana.

import { type Json, isRecord, list, numberOr, record, text } from "./json.ts";
import type { Choice, Language, Variable } from "./model.ts";
import type { Found } from "./grafana.ts";

/** The language of queries by their source of data. This server is the source of all of them. */
export class Sources {
  private readonly inputs = new Map<string, string>();
  private readonly variables = new Map<string, string>();

  constructor(dashboard: Json) {
    for (const given of list(dashboard["__inputs"])) {
      const input = record(given);
      this.inputs.set(text(input["name"]), text(input["pluginId"]));
    }
    for (const given of list(record(dashboard["templating"])["list"])) {
      const variable = record(given);
      if (variable["type"] === "datasource") this.variables.set(text(variable["name"]), text(variable["query"]));
    }
  }

  languageOf(source: unknown, target: Json): Found {
    const given = isRecord(source) ? text(source["type"]) || text(source["uid"]) : text(source);
    const named = /^\$\{?(\w+)\}?$/.exec(given);
    const type = named ? (this.inputs.get(named[1] ?? "") ?? this.variables.get(named[1] ?? "") ?? "") : given;
    return byType(type.toLowerCase()) ?? guessed(target);
  }
}

const REFUSED: [RegExp, string][] = [
  [/__expr__/, "it is an expression of Grafana"],
  [/^-- dashboard --$|^-- grafana --$|^grafana$|^datasource$/, "its source is Grafana itself"],
  [/victoriametrics-logs/, "its language is LogsQL"],
  [/^(influxdb|elasticsearch|mysql|postgres|mssql|cloudwatch|tempo|jaeger|zipkin|testdata|opentsdb|stackdriver|azure|bigquery|snowflake|parca|pyroscope|grafana-.*)/, "this server does not have its language"],
];

function byType(type: string): Found | null {
  const refused = REFUSED.find(([pattern]) => pattern.test(type));
  if (refused && !/prometheus|loki|graphite|-- mixed --/.test(type)) return { why: `${refused[1]} (${type})` };
  if (/prom|mimir|thanos|cortex|victoriametrics/.test(type)) return "promql";
  if (/loki/.test(type)) return "logql";
  return /graphite/.test(type) ? "graphite" : null;
}

/** The language by the form of the query, if the file does not name it. */
function guessed(target: Json): Language {
  if (text(target["expr"]) === "" && text(target["target"]) !== "") return "graphite";
  const expression = text(target["expr"]);
  return /^\s*\{[^}]*\}\s*(\||!|$)|\}\s*(\|[=~>]|!=|!~|\|\s*\w)|_over_time\s*\(\s*\{[^}]*\}\s*(\||\[)/.test(expression) ? "logql" : "promql";
}

const KINDS: Record<string, Variable["kind"]> = {
  query: "query", custom: "custom", interval: "interval", constant: "constant", textbox: "text", datasource: "source",
};

export function variableOf(value: Json, sources: Sources): Variable {
  const type = text(value["type"]);
  const kind = KINDS[type] ?? "constant";
  const current = record(value["current"]);
  const given = current["value"];
  const values = (Array.isArray(given) ? given : given === undefined ? [] : [given]).filter((one) => typeof one === "string" || typeof one === "number").map(String);
  const language = sources.languageOf(value["datasource"], {});
  const query = queryOf(value);
  const choices = kind === "custom" ? listed(query) : kind === "interval" ? intervals(value, query) : kind === "source" ? [{ value: query, text: "this server" }] : [];
  const hasAll = value["includeAll"] === true;
  const note = !(type in KINDS) ? `variables of the type "${type}" are not supported` : kind === "query" && typeof language !== "string" ? language.why : "";
  return {
    name: text(value["name"]),
    title: text(value["label"]) || text(value["name"]),
    kind,
    language: typeof language === "string" ? language : "promql",
    query: typeof language === "string" || kind !== "query" ? query : "",
    choices,
    isSeveral: value["multi"] === true,
    hasAll,
    allValue: text(value["allValue"]),
    regex: text(value["regex"]),
    sort: numberOr(value["sort"], 0),
    chosen: kind === "source" ? [query] : kind === "constant" && values.length === 0 ? [query] : values,
    isHidden: numberOr(value["hide"], 0) === 2 || kind === "source" || kind === "constant",
    note,
  };
}

/** The text of the query of a variable, whose forms differ between versions and sources. */
function queryOf(value: Json): string {
  const { query } = value;
  if (typeof query === "string") return query || text(value["definition"]);
  const inner = record(query);
  if (typeof inner["query"] === "string" && inner["query"] !== "") return inner["query"];
  if (typeof inner["target"] === "string") return inner["target"];
  // Loki's form: 0 names of labels, 1 values of a label.
  if (inner["type"] === 1 || text(inner["label"]) !== "") {
    const stream = text(inner["stream"]);
    return stream === "" ? `label_values(${text(inner["label"])})` : `label_values(${stream}, ${text(inner["label"])})`;
  }
  return inner["type"] === 0 ? "label_names()" : text(value["definition"]);
}

/** `a, b : text` with commas that a backslash protects. */
function listed(query: string): Choice[] {
  const parts = query.match(/(?:\\,|[^,])+/g) ?? [];
  return parts.map((part) => {
    const plain = part.replace(/\\,/g, ",").trim();
    const named = /^(.+?)\s:\s(.+)$/.exec(plain);
    return named ? { text: named[1] ?? plain, value: named[2] ?? plain } : { text: plain, value: plain };
  });
}

function intervals(value: Json, query: string): Choice[] {
  const listedOnes = listed(query).filter((choice) => choice.value !== "auto" && !choice.value.startsWith("$__auto"));
  const automatic = value["auto"] === true ? [{ text: "auto", value: "$__auto" }] : [];
  return [...automatic, ...listedOnes];
}

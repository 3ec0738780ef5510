// Units, thresholds, texts for values, and calculations of a panel of Grafana.

import { type Json, list, numberOr, record, text } from "./json.ts";
import type { Look } from "./model.ts";
import { isUnit } from "./units.ts";

const CALCULATIONS: Record<string, string> = {
  lastNotNull: "last", last: "last", current: "last", firstNotNull: "first", first: "first", mean: "mean", avg: "mean",
  min: "min", max: "max", sum: "sum", total: "sum", count: "count", range: "range", delta: "difference", diff: "difference",
};

export function looksOf(panel: Json, notes: string[]): Look {
  const defaults = record(record(panel["fieldConfig"])["defaults"]);
  const axis = record(list(panel["yaxes"])[0]);
  const unit = text(defaults["unit"]) || text(panel["format"]) || text(axis["format"]);
  if (unit !== "" && !isUnit(unit)) notes.push(`The unit "${unit}" is not known; values are plain numbers.`);
  const calculation = text(list(record(record(panel["options"])["reduceOptions"])["calcs"])[0]) || text(panel["valueName"]);
  if (calculation !== "" && !(calculation in CALCULATIONS)) notes.push(`The calculation "${calculation}" is not known; the last value is shown.`);
  const decimals = defaults["decimals"] ?? panel["decimals"];
  return {
    unit,
    decimals: typeof decimals === "number" ? Math.min(10, Math.max(0, decimals)) : null,
    calculation: CALCULATIONS[calculation] ?? "last",
    thresholds: thresholdsOf(record(defaults["thresholds"]), notes),
    mappings: mappingsOf(list(defaults["mappings"]), notes),
  };
}

function thresholdsOf(thresholds: Json, notes: string[]): Look["thresholds"] {
  const steps = list(thresholds["steps"]);
  if (thresholds["mode"] === "percentage" && steps.length > 1) {
    notes.push("Thresholds in percent are not applied.");
    return [];
  }
  return steps.map((given) => {
    const step = record(given);
    return { from: numberOr(step["value"], -Infinity), colour: text(step["color"]) };
  });
}

function mappingsOf(mappings: unknown[], notes: string[]): Look["mappings"] {
  const found: Look["mappings"] = [];
  for (const given of mappings) {
    const mapping = record(given);
    const options = record(mapping["options"]);
    if (mapping["type"] === 1 || mapping["type"] === 2) {
      // The form before Grafana 8.
      const [from, to] = mapping["type"] === 1 ? [mapping["value"], mapping["value"]] : [mapping["from"], mapping["to"]];
      if (mapping["value"] !== "null" && from !== "" && to !== "") found.push({ from: Number(from), to: Number(to), text: text(mapping["text"]) });
    } else if (mapping["type"] === "value") {
      for (const [value, result] of Object.entries(options)) {
        const at = Number(value);
        if (!Number.isNaN(at)) found.push({ from: at, to: at, text: text(record(result)["text"]) });
      }
    } else if (mapping["type"] === "range") {
      found.push({ from: numberOr(options["from"], -Infinity), to: numberOr(options["to"], Infinity), text: text(record(options["result"])["text"]) });
    } else {
      notes.push(`Mappings of values of the type "${String(mapping["type"])}" are not applied.`);
    }
  }
  return found.filter((mapping) => mapping.text !== "");
}

// Graphite's API: values, the tree of paths, functions.

import { type Options, json } from "./client.ts";

export interface Target {
  target: string;
  tags?: Record<string, string>;
  datapoints: [number | null, number][];
}

export async function render(targets: string[], start: number, end: number, points: number, options?: Options): Promise<{ targets: Target[]; warnings: string[] }> {
  const fields = {
    target: targets,
    from: Math.floor(start / 1000),
    until: Math.ceil(end / 1000),
    format: "json",
    maxDataPoints: points,
  };
  const { body, warnings } = await json<Target[]>("render", fields, options);
  return { targets: body, warnings };
}

export interface Node {
  text: string;
  id: string;
  leaf: 0 | 1;
  expandable: 0 | 1;
}

/** Nodes that match a pattern. */
export async function find(query: string, options?: Options): Promise<Node[]> {
  return (await json<Node[]>("metrics/find", { query, format: "treejson" }, options)).body;
}

export interface Parameter {
  name: string;
  type: string;
  required?: boolean;
  multiple?: boolean;
  default?: unknown;
  options?: unknown[];
}

export interface GraphiteFunction {
  name: string;
  function: string;
  description: string;
  group: string;
  params: Parameter[];
}

export async function functions(options?: Options): Promise<Record<string, GraphiteFunction>> {
  return (await json<Record<string, GraphiteFunction>>("functions", {}, options)).body;
}

// Dashboards that the server reads from its folder.

import { type Options, json, text } from "./client.ts";

/** What the parameter `d` of a dashboard of the server begins with; the name of the file follows. */
export const OF_SERVER = "server:";

export interface ServedFile {
  /** The path below the folder, without `.json`. */
  name: string;
  title?: string;
  kind?: string;
  bytes: number | null;
  modified_ms: number | null;
  /** Why the file cannot be used. */
  error?: string;
}

export interface Served {
  dashboards: ServedFile[];
  /** Whether the server has a folder. */
  configured: boolean;
  notes: string[];
}

export async function servedDashboards(options: Options = {}): Promise<Served> {
  const { body } = await json<Partial<Served>>("sandur/dashboards", {}, options);
  return { dashboards: body.dashboards ?? [], configured: body.configured === true, notes: body.notes ?? [] };
}

/** The text of a file. */
export function servedDashboard(name: string, options: Options = {}): Promise<string> {
  const path = name.split("/").map(encodeURIComponent).join("/");
  return text(`sandur/dashboards/${path}`, {}, { ...options, accept: "application/json" });
}

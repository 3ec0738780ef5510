// Silences of the tenant, as Alertmanager's API answers them.

import { type Options, json } from "./client.ts";

export interface Matcher {
  name: string;
  value: string;
  isRegex: boolean;
  isEqual: boolean;
}

export interface Silence {
  id: string;
  status: { state: "active" | "pending" | "expired" };
  matchers: Matcher[];
  startsAt: string;
  endsAt: string;
  createdBy: string;
  comment: string;
}

/** Silences, those in force first. A tenant has at most 1,000. */
export async function silences(options: Options = {}): Promise<Silence[]> {
  const { body } = await json<Silence[] | null>("alertmanager/api/v2/silences", {}, options);
  return Array.isArray(body) ? body : [];
}

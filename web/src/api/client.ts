// Requests to the server that the page came from.
//
// Invariants: every request carries the tenant and a header that only pages of this server can send, by
// which the server accepts the cookie of the session. An aborted request closes its connection, and the
// server then cancels the query. Every failure is an `ApiError` with the text of the server.

import { here, root } from "../frame/url.ts";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** Whether the server does not know whose data are asked for: without a tenant, or with one of several. */
  get lacksTenant(): boolean {
    return this.message === "no org id" || this.message.includes("several tenants: choose one");
  }

  /** What a person can do about it. */
  get hint(): string {
    if (this.lacksTenant) return "Name a tenant in the settings (⚙).";
    switch (this.status) {
      case 0:
        return "The server cannot be reached. It may be restarting, or the network is down.";
      case 401:
        return "The server requires a token.";
      case 403:
        return "The token does not allow this.";
      case 404:
        return "This server does not have this path here; it may serve it on its address for operators.";
      case 429:
        return "The server has too much to do for this tenant. Try again.";
      case 503:
        return "The server is temporarily unavailable. Try again.";
      case 504:
        return "The query took longer than the server allows. Use a shorter range or a narrower query.";
      default:
        return "";
    }
  }
}

/** Whether a failure is that the request was cancelled. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export type Fields = Record<string, string | number | string[] | null | undefined>;

export function form(fields: Fields): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) params.append(name, String(one));
    }
  }
  return params;
}

/** Called when the server answers 401: the page asks for a token. */
let whenRefused: () => void = () => {};

export function onRefused(handler: () => void): void {
  whenRefused = handler;
}

export interface Options {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  method?: "GET" | "POST" | "DELETE";
  body?: URLSearchParams;
  accept?: string;
  /** The request asks whether there is a session, so a refusal does not open the dialog. */
  isProbe?: boolean;
}

/** Longest query of a URL; longer ones are sent as a form. */
const URL_MAX = 4000;

export function url(path: string, params?: URLSearchParams): string {
  const query = params?.toString() ?? "";
  return root() + path + (query === "" ? "" : `?${query}`);
}

/** Sends a request; fails with `ApiError` if the status is not one of success. */
export async function send(path: string, params: URLSearchParams, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = {
    "X-Sandur-Explorer": "1",
    "X-Query-Tags": "Source=explorer",
    Accept: options.accept ?? "application/json",
    ...options.headers,
  };
  const tenant = here().params.get("tenant");
  if (tenant !== null && tenant !== "") headers["X-Scope-OrgID"] = tenant;
  const isLong = options.method === undefined && params.toString().length > URL_MAX;
  const init: RequestInit = { method: isLong ? "POST" : (options.method ?? "GET"), headers, cache: "no-store" };
  if (options.signal) init.signal = options.signal;
  if (isLong) init.body = params;
  else if (options.body) init.body = options.body;
  let response: Response;
  try {
    response = await fetch(url(path, isLong ? undefined : params), init);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "No answer from the server.");
  }
  if (response.ok) return response;
  const retry = Number(response.headers.get("Retry-After") ?? NaN);
  const text = (await response.text().catch(() => "")).slice(0, 8192);
  const failure = new ApiError(response.status, messageOf(text, response), Number.isFinite(retry) ? retry : null);
  if (failure.status === 401 && !failure.lacksTenant && options.isProbe !== true) whenRefused();
  throw failure;
}

/** The message of a failure: plain text, or the member `error` of Prometheus's format. */
function messageOf(text: string, response: Response): string {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) {
      const { error, message } = parsed as { error?: unknown; message?: unknown };
      if (typeof error === "string" && error !== "") return error;
      if (typeof message === "string" && message !== "") return message;
    }
  } catch {
    // Plain text.
  }
  return text.trim() === "" ? `HTTP status ${response.status}` : text.trim();
}

export interface Answer<T> {
  body: T;
  warnings: string[];
}

/** The JSON of an answer, with the warnings of its headers. */
export async function json<T>(path: string, fields: Fields, options: Options = {}): Promise<Answer<T>> {
  const response = await send(path, form(fields), options);
  // The browser joins several headers with commas, which texts contain too; so they are one warning here.
  const warning = response.headers.get("X-Sandur-Warning");
  const warnings = warning === null ? [] : [warning];
  try {
    return { body: (await response.json()) as T, warnings };
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "The answer was cut before its end, or is not JSON.");
  }
}

export async function text(path: string, fields: Fields = {}, options: Options = {}): Promise<string> {
  const response = await send(path, form(fields), { accept: "text/plain, */*;q=0.5", ...options });
  try {
    return await response.text();
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "The answer was cut before its end.");
  }
}

/** The address of a websocket. A browser cannot set headers of websockets, so they are parameters. */
export function socketUrl(path: string, fields: Fields): string {
  const tenant = here().params.get("tenant");
  const headers = { "X-Scope-OrgID": tenant === "" ? null : tenant, "X-Loki-Response-Encoding-Flags": "categorize-labels" };
  const params = form({ ...fields, ...headers });
  const target = new URL(url(path, params), location.href);
  target.protocol = target.protocol === "https:" ? "wss:" : "ws:";
  return target.href;
}

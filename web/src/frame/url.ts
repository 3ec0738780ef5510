// The state of the page in its URL: the route is the last segment of the path, everything else is in the
// query. A copied URL restores the page.
//
// Invariants: every URL is relative to the folder `explore/`, so the page works below any prefix. Changes
// go through `go`, which informs all subscribers.

import { useEffect, useState } from "preact/hooks";

export const ROUTES = ["logs", "metrics", "graphite", "alerts", "dashboards", "machine"] as const;
export type RouteName = (typeof ROUTES)[number];

export interface Place {
  route: RouteName;
  params: URLSearchParams;
}

/** New values of parameters; `null` removes one, a list repeats it. */
export type Changes = Record<string, string | string[] | null>;

const FOLDER = "/explore/";
const listeners = new Set<() => void>();

/** The path above `explore/`, with a slash at the end: where the API is. */
export function root(path = location.pathname): string {
  const at = path.lastIndexOf(FOLDER);
  return at < 0 ? "/" : path.slice(0, at + 1);
}

export function here(): Place {
  const name = location.pathname.slice(location.pathname.lastIndexOf("/") + 1);
  const route = ROUTES.find((known) => known === name) ?? "logs";
  return { route, params: new URLSearchParams(location.search) };
}

/** The URL of a route with parameters, relative to the folder of the explorer. */
export function link(route: RouteName, params: URLSearchParams | Changes): string {
  const search = params instanceof URLSearchParams ? params : applied(new URLSearchParams(), params);
  const text = search.toString();
  return text === "" ? route : `${route}?${text}`;
}

function applied(params: URLSearchParams, changes: Changes): URLSearchParams {
  const result = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    result.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== "") result.append(name, one);
    }
  }
  return result;
}

/** Changes parameters of the present route. A change of view replaces the entry of the history. */
export function change(changes: Changes, how: "push" | "replace" = "push"): void {
  const { route, params } = here();
  show(link(route, applied(params, changes)), how);
}

/** Shows a URL that `link` made. */
export function show(url: string, how: "push" | "replace" = "push"): void {
  const target = new URL(url, new URL(root() + FOLDER.slice(1), location.href));
  if (target.href !== location.href) {
    if (how === "push") history.pushState(null, "", target);
    else history.replaceState(null, "", target);
  }
  for (const listener of [...listeners]) listener();
}

/** The present place; the component is drawn again when it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const listener = () => setPlace(here());
    listeners.add(listener);
    addEventListener("popstate", listener);
    return () => {
      listeners.delete(listener);
      removeEventListener("popstate", listener);
    };
  }, []);
  return place;
}

/** Follows a click on a link inside the page, unless the person asks for a new tab. */
export function follow(event: MouseEvent, url: string): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  show(url);
}

// The window of lines of a query as state of a component.

import { useEffect, useMemo, useState } from "preact/hooks";
import { useCancel } from "../frame/keys.ts";
import { compareNs } from "./rows.ts";
import { LogWindow } from "./window.ts";
import { ns } from "../api/loki.ts";
import type { Span } from "../frame/time.ts";

export type Order = "newest" | "oldest";

export interface WindowState {
  window: LogWindow | null;
  loading: boolean;
  cancelled: boolean;
  cancel: () => void;
}

/** Reads the lines of a range, from one of its ends or from the instant `at` in nanoseconds. */
export function useWindow(query: string, span: Span, order: Order, at: string | null, runs: number, on: boolean): WindowState {
  const [, drawAgain] = useState(0);
  const [cancelled, setCancelled] = useState(false);
  const window = useMemo(() => {
    if (!on) return null;
    const asked = { query, start: ns(span.start), end: ns(span.end) };
    const isInside = at !== null && compareNs(at, asked.start) >= 0 && compareNs(at, asked.end) <= 0;
    const from = isInside ? at : order === "newest" ? asked.end : asked.start;
    return new LogWindow(asked, from, () => drawAgain((n) => n + 1));
  }, [query, span.start, span.end, order, at, runs, on]);

  useEffect(() => {
    if (!window) return;
    setCancelled(false);
    void window.load(order === "newest" ? "older" : "newer").then(() => {
      // If nothing is on this side, the lines on the other side are shown.
      if (window.rows.length === 0) void window.load(order === "newest" ? "newer" : "older");
    });
    return () => window.close();
  }, [window]);

  const loading = window !== null && (window.sides.older.loading || window.sides.newer.loading);
  const cancel = () => {
    window?.close();
    setCancelled(true);
  };
  useCancel(() => {
    if (!loading || cancelled) return false;
    cancel();
    return true;
  });
  return { window, loading: loading && !cancelled, cancelled, cancel };
}

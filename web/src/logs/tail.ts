// Live tail: new lines over a websocket, the newest first.
//
// Invariants: at most `ROWS_MAX` rows are held; while the tail is paused at most `WAITING_MAX` wait, and
// what is dropped is counted and shown. After a lost connection the tail goes on from its last line.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Entry, Labels } from "../api/loki.ts";
import { send, socketUrl, form } from "../api/client.ts";
import { asApiError } from "../frame/answer.tsx";
import { type Row, compareNs, rowsOf } from "./rows.ts";

const ROWS_MAX = 5000;
const WAITING_MAX = 20_000;
const HISTORY = 200;
const WARNINGS_MAX = 10;
/** Rows of the last instants, by which rows that are sent again are recognized. */
const RECENT_MAX = 2000;

interface Frame {
  streams?: { stream: Labels; values: Entry[] }[] | null;
  dropped_entries?: { labels: Labels; timestamp: string }[] | null;
  /** What holds from now on; an empty list ends it. */
  warnings?: string[] | null;
}

export interface Tail {
  rows: Row[];
  waiting: number;
  /** Lines that the server or this page left out. */
  dropped: number;
  perSecond: number;
  /** Warnings of the server that hold now. */
  warnings: string[];
  state: "connecting" | "open" | "lost" | "refused";
  problem: string;
}

const NOTHING: Tail = { rows: [], waiting: 0, dropped: 0, perSecond: 0, warnings: [], state: "connecting", problem: "" };

/** Follows a query while `on`; `paused` holds new rows back. */
export function useTail(query: string, on: boolean, paused: boolean): Tail {
  const [tail, setTail] = useState<Tail>(NOTHING);
  const isPaused = useRef(paused);
  isPaused.current = paused;
  const kick = useRef(() => {});

  useEffect(() => {
    if (!on) return;
    const follower = new Follower(query, () => isPaused.current, setTail);
    kick.current = () => follower.show();
    return () => {
      kick.current = () => {};
      follower.close();
    };
  }, [query, on]);
  useEffect(() => kick.current(), [paused]);
  return on ? tail : NOTHING;
}

class Follower {
  private rows: Row[] = [];
  private waiting: Row[] = [];
  private recent = new Set<string>();
  private dropped = 0;
  private warnings: string[] = [];
  private arrived: number[] = [];
  private state: Tail["state"] = "connecting";
  private problem = "";
  private socket: WebSocket | null = null;
  private closed = false;
  private timer = 0;
  private delay = 500;
  private frame = 0;
  private readonly pulse: number;

  constructor(
    private readonly query: string,
    private readonly isPaused: () => boolean,
    private readonly changed: (tail: Tail) => void,
  ) {
    this.connect();
    this.pulse = window.setInterval(() => this.schedule(), 1000);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.pulse);
    cancelAnimationFrame(this.frame);
    this.socket?.close();
  }

  private connect(): void {
    const last = this.waiting[0] ?? this.rows[0];
    const fields = { query: this.query, limit: last ? 5000 : HISTORY, start: last ? last.ns : null };
    const socket = new WebSocket(socketUrl("loki/api/v1/tail", fields));
    this.socket = socket;
    socket.onopen = () => {
      this.state = "open";
      this.problem = "";
      // The server repeats those that still hold.
      this.warnings = [];
      this.delay = 500;
      this.schedule();
    };
    socket.onmessage = (event) => this.receive(String(event.data));
    socket.onclose = (event) => {
      if (this.closed) return;
      const wasOpen = this.state === "open";
      this.state = "lost";
      this.problem = event.reason === "" ? "The connection was lost." : event.reason;
      this.schedule();
      if (wasOpen) this.again();
      else void this.explain();
    };
  }

  /** Asks by plain HTTP why the websocket was refused; a browser does not say. */
  private async explain(): Promise<void> {
    try {
      const fields = form({ query: this.query, limit: 1, since: "1s" });
      await send("loki/api/v1/query_range", fields);
      this.again();
    } catch (error) {
      const failure = asApiError(error);
      if (failure.status === 0 || failure.status >= 500 || failure.status === 429) return this.again();
      this.state = "refused";
      this.problem = failure.message;
      this.schedule();
    }
  }

  private again(): void {
    if (this.closed) return;
    this.timer = window.setTimeout(() => this.connect(), this.delay);
    this.delay = Math.min(10_000, this.delay * 2);
  }

  private receive(text: string): void {
    const frame = JSON.parse(text) as Frame;
    this.dropped += frame.dropped_entries?.length ?? 0;
    if (frame.warnings) this.warnings = [...new Set(frame.warnings)].slice(0, WARNINGS_MAX);
    const fresh = rowsOf(frame.streams ?? []).filter((row) => !this.recent.has(row.id));
    for (const row of fresh) this.recent.add(row.id);
    if (this.recent.size > RECENT_MAX * 2) this.recent = new Set([...this.recent].slice(-RECENT_MAX));
    const now = performance.now();
    // Lines of the past come first and are not part of the rate.
    const since = Date.now() - 10_000;
    for (const row of fresh) if (row.ms >= since) this.arrived.push(now);
    this.waiting = merged(fresh.reverse(), this.waiting);
    if (this.waiting.length > WAITING_MAX) {
      this.dropped += this.waiting.length - WAITING_MAX;
      this.waiting.length = WAITING_MAX;
    }
    this.schedule();
  }

  /** Draws at most once per frame. */
  private schedule(): void {
    if (this.frame !== 0 || this.closed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.show();
    });
  }

  show(): void {
    if (!this.isPaused() && this.waiting.length > 0) {
      this.rows = merged(this.waiting, this.rows).slice(0, ROWS_MAX);
      this.waiting = [];
    }
    const since = performance.now() - 2000;
    this.arrived = this.arrived.filter((at) => at >= since).slice(-100_000);
    this.changed({
      rows: this.rows,
      waiting: this.waiting.length,
      dropped: this.dropped,
      perSecond: Math.round(this.arrived.length / 2),
      warnings: this.warnings,
      state: this.state,
      problem: this.problem,
    });
  }
}

/** Joins two lists of rows, the newest first; usually one is newer than the other. */
function merged(newer: Row[], older: Row[]): Row[] {
  const [last, first] = [newer.at(-1), older[0]];
  if (!last || !first || compareNs(last.ns, first.ns) >= 0) return [...newer, ...older];
  return [...newer, ...older].sort((a, b) => compareNs(b.ns, a.ns));
}


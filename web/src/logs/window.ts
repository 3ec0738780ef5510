// The part of an answer that the page holds: a window of rows that moves over the range in both
// directions, a page of lines per request.
//
// Invariants: rows are ordered by time and none occurs twice. At most `ROWS_MAX` rows and `TEXT_MAX`
// characters are held (or 40 rows, if these have more); rows at the other end are dropped first and are read again when they are needed.
// Each side has at most one request at a time.

import { type Result, type Statistics, type Stream, nsPlus, queryRange } from "../api/loki.ts";
import { ApiError, isAbort } from "../api/client.ts";
import { type Row, compareNs, rowsOf } from "./rows.ts";

/** Lines of a request: of the first one, of later ones at least and at most. */
const FIRST_PAGE = 100;
const PAGE_MIN = 20;
const PAGE_MAX = 500;
/** Characters of a page; lines of a megabyte are read a few at a time. */
const PAGE_TEXT = 4 << 20;
/** Lines of a request when a page has only one timestamp. */
const LARGE_PAGE = 5000;
const ROWS_MAX = 12_000;
const TEXT_MAX = 48 << 20;

export type Side = "older" | "newer";

export interface SideState {
  loading: boolean;
  /** Whether there are no more rows on this side in the range. */
  done: boolean;
  error: ApiError | null;
}

export interface Asked {
  query: string;
  /** First and last instant in nanoseconds; the last is exclusive. */
  start: string;
  end: string;
}

export class LogWindow {
  rows: Row[] = [];
  readonly sides: Record<Side, SideState> = {
    older: { loading: false, done: false, error: null },
    newer: { loading: false, done: false, error: null },
  };
  statistics: Statistics | null = null;
  warnings: string[] = [];
  notice = "";
  /** Rows that were read in all, for the status line. */
  read = 0;
  private readonly abort = new AbortController();
  /** Where the next page of a side begins. Lines of the first instant are on the newer side. */
  private readonly edges: Record<Side, string>;
  /** Lines of the next request. */
  private limit = FIRST_PAGE;

  /** `from` is the instant at which reading begins; rows before it are older, the others newer. */
  constructor(
    readonly asked: Asked,
    from: string,
    private readonly changed: () => void,
  ) {
    this.edges = { older: from, newer: from };
    if (compareNs(from, asked.end) >= 0) this.sides.newer.done = true;
    if (compareNs(from, asked.start) <= 0) this.sides.older.done = true;
  }

  close(): void {
    this.abort.abort();
  }

  /** Reads the next page of a side. */
  async load(side: Side): Promise<void> {
    const state = this.sides[side];
    if (state.loading || state.done || this.abort.signal.aborted) return;
    state.loading = true;
    state.error = null;
    this.changed();
    try {
      await this.page(side, this.limit);
    } catch (error) {
      if (isAbort(error)) return;
      state.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    }
    state.loading = false;
    this.changed();
  }

  private async page(side: Side, limit: number): Promise<void> {
    const { start, end } = this.bounds(side);
    const direction = side === "older" ? "backward" : "forward";
    const answer = await queryRange(
      { query: this.asked.query, start, end, limit, direction },
      { signal: this.abort.signal },
    );
    const asked = this.bounds(side);
    // Rows on this side were dropped meanwhile: the answer does not join the others.
    if (asked.start !== start || asked.end !== end) return;
    const result = answer.body as Result;
    if (result.resultType !== "streams") throw new ApiError(400, "This query has no lines.");
    this.statistics = result.stats;
    this.warnings = answer.warnings;
    const rows = rowsOf(result.result as Stream[], direction);
    const text = rows.reduce((sum, row) => sum + row.line.length, 0);
    const fitting = Math.floor(PAGE_TEXT / Math.max(1, text / Math.max(1, rows.length)));
    this.limit = Math.min(PAGE_MAX, Math.max(PAGE_MIN, fitting));
    const added = this.add(side, rows);
    this.read += added;
    const isFull = rows.length >= limit;
    if (!isFull) {
      this.sides[side].done = true;
    } else if (added === 0) {
      if (limit < LARGE_PAGE) return this.page(side, LARGE_PAGE);
      this.step(side, rows);
    }
  }

  /** Skips an instant that has more lines than a request may return. */
  private step(side: Side, rows: Row[]): void {
    const edge = side === "older" ? rows[0] : rows.at(-1);
    if (!edge) return;
    this.notice = `More than ${LARGE_PAGE} lines have the timestamp ${edge.ns}; some of them are not shown.`;
    this.edges[side] = side === "older" ? edge.ns : nsPlus(edge.ns, 1);
  }

  private bounds(side: Side): { start: string; end: string } {
    const { start, end } = this.asked;
    return side === "older" ? { start, end: this.edges.older } : { start: this.edges.newer, end };
  }

  /** Notes where the next page of a side begins: with the last instant again, whose lines may be incomplete. */
  private note(side: Side): void {
    const [first, last] = [this.rows[0], this.rows.at(-1)];
    if (!first || !last) return;
    // The end of a range is exclusive; lines that are read again are recognized by their ids.
    if (side === "older") this.edges.older = nsPlus(first.ns, 1);
    else this.edges.newer = last.ns;
  }

  private add(side: Side, rows: Row[]): number {
    const known = new Set<string>();
    const edge = side === "older" ? this.rows[0]?.ns : this.rows.at(-1)?.ns;
    for (const row of this.rows) if (row.ns === edge) known.add(row.id);
    const fresh = rows.filter((row) => !known.has(row.id) && known.add(row.id));
    if (fresh.length > 0) {
      this.rows = side === "older" ? [...fresh, ...this.rows] : [...this.rows, ...fresh];
      this.note(side);
      this.trim(side);
    }
    return fresh.length;
  }

  private trim(side: Side): void {
    let text = this.rows.reduce((sum, row) => sum + row.line.length, 0);
    let excess = 0;
    const least = Math.min(this.rows.length, 2 * PAGE_MIN);
    while (this.rows.length - excess > least && (this.rows.length - excess > ROWS_MAX || text > TEXT_MAX)) {
      const row = side === "older" ? this.rows[this.rows.length - 1 - excess] : this.rows[excess];
      text -= row?.line.length ?? 0;
      excess += 1;
    }
    if (excess === 0) return;
    const other = side === "older" ? "newer" : "older";
    this.rows = side === "older" ? this.rows.slice(0, -excess) : this.rows.slice(excess);
    this.sides[other].done = false;
    this.note(other);
  }
}

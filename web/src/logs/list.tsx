// A list of lines that draws only those that are visible.
//
// Invariants: the row at the top of the view stays where it is when rows are added or removed above it,
// and when heights become known. Heights are measured only of rows that may differ from the usual one.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { SideState } from "./window.ts";
import { useKeys } from "../frame/keys.ts";
import { useSize } from "../frame/width.ts";
import { oneLine, visible } from "../frame/text.ts";
import { exact, shortParts } from "../frame/time.ts";
import { Marked } from "./highlight.tsx";
import { type Row, columnOf } from "./rows.ts";

/** Height of a row on one line; the same as in the style sheet. */
const ROW = 22;
const OVERSCAN = 12;
/** Distance from an end of the list at which the next page is read. */
const NEAR = 900;
/** Characters of a line that are drawn: on one line, and when lines are wrapped. */
const LINE_MAX = 1200;
const WRAPPED_MAX = 4000;

export interface End {
  state: SideState;
  load: () => void;
  /** Shown when there is nothing more. */
  done: string;
}

export interface ListProps {
  /** In the order in which they are shown. */
  rows: Row[];
  zone: string;
  columns: string[];
  wrap: boolean;
  sought: RegExp | null;
  top: End | null;
  bottom: End | null;
  /** Whether new rows at the top push the others down. */
  follow?: boolean;
  marked?: string | undefined;
  label: string;
  detail: (row: Row) => ComponentChildren;
  onSeen?: (first: Row, last: Row) => void;
  onScrolled?: (isAtTop: boolean) => void;
  onColumn?: (name: string) => void;
}

export function LogList(props: ListProps) {
  const { rows, wrap } = props;
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const anchor = useRef<{ id: string; delta: number } | null>(null);
  const [version, setVersion] = useState(0);
  const [scroll, setScroll] = useState(0);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState("");
  const size = useSize(box);

  const shape = `${wrap} ${wrap ? size.width : 0} ${props.columns.join()}`;
  useMemo(() => heights.current.clear(), [shape]);
  const offsets = useMemo(() => {
    const sums = new Float64Array(rows.length + 1);
    rows.forEach((row, n) => (sums[n + 1] = (sums[n] ?? 0) + (heights.current.get(row.id) ?? ROW)));
    return sums;
  }, [rows, version, shape]);
  const total = offsets[rows.length] ?? 0;
  const first = Math.max(0, indexAt(offsets, scroll) - OVERSCAN);
  const last = Math.min(rows.length, indexAt(offsets, scroll + size.height) + 1 + OVERSCAN);

  // Keeps the row at the top of the view in its place.
  useLayoutEffect(() => {
    const element = box.current;
    const kept = anchor.current;
    if (!element || !kept || (props.follow && element.scrollTop < ROW)) return;
    const index = rows.findIndex((row) => row.id === kept.id);
    if (index < 0) return;
    const wanted = (offsets[index] ?? 0) + kept.delta;
    if (Math.abs(element.scrollTop - wanted) > 0.5) {
      element.scrollTop = wanted;
      setScroll(element.scrollTop);
    }
  }, [offsets]);

  // Measures rows whose height may differ.
  useLayoutEffect(() => {
    let changed = false;
    for (const element of body.current?.children ?? []) {
      const id = (element as HTMLElement).dataset["id"] ?? "";
      const height = (element as HTMLElement).offsetHeight;
      if (height > 0 && (heights.current.get(id) ?? ROW) !== height) {
        heights.current.set(id, height);
        changed = true;
      }
    }
    if (heights.current.size > 30_000) heights.current.clear();
    if (changed) setVersion((n) => n + 1);
  });
  const measure = useRef(() => setVersion((n) => n + 1));

  const noteAnchor = (top: number) => {
    const index = indexAt(offsets, top);
    const row = rows[index];
    anchor.current = row ? { id: row.id, delta: top - (offsets[index] ?? 0) } : null;
  };
  const onScroll = () => {
    const top = box.current?.scrollTop ?? 0;
    noteAnchor(top);
    setScroll(top);
    props.onScrolled?.(top < ROW);
  };
  useEffect(() => {
    if (!anchor.current && rows.length > 0) noteAnchor(box.current?.scrollTop ?? 0);
  }, [rows]);

  useEffect(() => {
    // The first page determines which row stays in its place when others are added above it.
    if (size.height === 0 || rows.length === 0) return;
    const idle = (end: End | null) => end && !end.state.loading && !end.state.done && !end.state.error;
    if (idle(props.bottom) && scroll + size.height > total - NEAR) props.bottom?.load();
    else if (idle(props.top) && scroll < NEAR) props.top?.load();
  });
  useEffect(() => {
    const [one, other] = [rows[indexAt(offsets, scroll)], rows[Math.min(rows.length - 1, indexAt(offsets, scroll + size.height))]];
    if (one && other) props.onSeen?.(one, other);
  }, [offsets, scroll, size.height]);

  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
    setCursor(id);
  };
  const move = (by: number) => {
    const present = rows.findIndex((row) => row.id === cursor);
    const index = present < 0 ? indexAt(offsets, scroll) : Math.min(rows.length - 1, Math.max(0, present + by));
    const row = rows[index];
    if (!row) return;
    setCursor(row.id);
    const element = box.current;
    if (!element) return;
    const [above, below] = [offsets[index] ?? 0, offsets[index + 1] ?? 0];
    if (above < element.scrollTop) element.scrollTop = above;
    else if (below > element.scrollTop + size.height) element.scrollTop = below - size.height;
  };
  useKeys([
    { key: "j", does: "Next line", run: () => move(1) },
    { key: "k", does: "Line before", run: () => move(-1) },
    { key: "o", does: "Open or close the line", run: () => cursor !== "" && toggle(cursor) },
  ]);

  return (
    <div class="log-list">
      {props.columns.length > 0 && <Heads columns={props.columns} onColumn={props.onColumn} />}
      <div
        ref={box}
        class={wrap ? "log-scroll wrap" : "log-scroll"}
        tabIndex={0}
        role="region"
        aria-label={props.label}
        onScroll={onScroll}
        onKeyDown={(event) => {
          const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
          const by = moves[event.key];
          if (event.target !== box.current) return;
          if (by !== undefined) move(by);
          else if (event.key === "Enter" && cursor !== "") toggle(cursor);
          else return;
          event.preventDefault();
        }}
      >
        {rows.length > 0 && <EndNote end={props.top} />}
        <div style={{ height: `${total}px` }} class="log-space">
          <div ref={body} role="list" style={{ transform: `translateY(${offsets[first] ?? 0}px)` }}>
            {rows.slice(first, last).map((row) => (
              <Line
                key={row.id}
                row={row}
                props={props}
                isOpen={open.has(row.id)}
                isCursor={row.id === cursor}
                onToggle={toggle}
                onSize={measure.current}
              />
            ))}
          </div>
        </div>
        <EndNote end={props.bottom} />
      </div>
    </div>
  );
}

/** The last index whose offset is not beyond a position. */
function indexAt(offsets: Float64Array, position: number): number {
  let [low, high] = [0, Math.max(0, offsets.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function Heads({ columns, onColumn }: { columns: string[]; onColumn: ((name: string) => void) | undefined }) {
  return (
    <div class="log-heads">
      <span class="log-time">Time</span>
      {columns.map((name) => (
        <span key={name} class="log-column">
          {name}
          <button class="quiet tiny" title={`Remove the column ${name}`} aria-label={`Remove the column ${name}`} onClick={() => onColumn?.(name)}>✕</button>
        </span>
      ))}
      <span>Line</span>
    </div>
  );
}

function EndNote({ end }: { end: End | null }) {
  if (!end) return null;
  const { loading, done, error } = end.state;
  return (
    <div class="log-end" role={error ? "alert" : undefined}>
      {loading && "Reading more lines …"}
      {!loading && done && end.done}
      {!loading && error && (
        <>
          {visible(error.message)} {error.hint} <button onClick={end.load}>Try again</button>
        </>
      )}
    </div>
  );
}

interface LineProps {
  row: Row;
  props: ListProps;
  isOpen: boolean;
  isCursor: boolean;
  onToggle: (id: string) => void;
  onSize: () => void;
}

function Line({ row, props, isOpen, isCursor, onToggle, onSize }: LineProps): JSX.Element {
  const item = useRef<HTMLDivElement>(null);
  // The detail of a row grows when its values arrive.
  useEffect(() => {
    if (!isOpen || !item.current) return;
    const observer = new ResizeObserver(onSize);
    observer.observe(item.current);
    return () => observer.disconnect();
  }, [isOpen]);
  const most = props.wrap ? WRAPPED_MAX : LINE_MAX;
  const text = props.wrap ? visible(row.line.slice(0, most)) : oneLine(row.line, most);
  const [date, clock] = shortParts(row.ms, props.zone);
  const classes = ["log-row", `level-${row.level}`];
  if (isCursor) classes.push("cursor");
  if (isOpen) classes.push("open");
  if (row.id === props.marked) classes.push("marked");
  return (
    <div ref={item} class={classes.join(" ")} data-id={row.id} role="listitem">
      <div
        class="log-line"
        onClick={() => {
          if (getSelection()?.isCollapsed !== false) onToggle(row.id);
        }}
      >
        <button
          class="log-open"
          tabIndex={isCursor ? 0 : -1}
          aria-expanded={isOpen}
          aria-label={`${row.level} line, fields`}
          title={row.level}
        >
          {isOpen ? "▾" : "▸"}
        </button>
        <time title={`${exact(row.ms, props.zone)} (${row.ns})`}><span class="date">{date} </span>{clock}</time>
        {props.columns.map((name) => (
          <bdi key={name} class="log-column" title={name}>{oneLine(columnOf(row, name), 200)}</bdi>
        ))}
        <bdi class="log-text">
          <Marked text={text} sought={props.sought} />
          {row.line.length > most && <span class="muted"> … {row.line.length.toLocaleString("en-US")} characters</span>}
        </bdi>
      </div>
      {isOpen && props.detail(row)}
    </div>
  );
}

// The histogram of lines over time: a brush zooms, a click shows the lines of that time, arrow keys do both.

import { useRef, useState } from "preact/hooks";
import { count } from "../frame/text.ts";
import { type Span, axisLabel, dateTime, length, niceStep } from "../frame/time.ts";
import { useSize } from "../frame/width.ts";
import type { Bars } from "./levels.ts";

const HEIGHT = 72;
const AXIS = 18;

interface HistogramProps {
  bars: Bars | null;
  span: Span;
  zone: string;
  /** The part that the list shows. */
  seen: Span | null;
  onZoom: (span: Span) => void;
  onJump: (ms: number) => void;
}

export function Histogram({ bars, span, zone, seen, onZoom, onJump }: HistogramProps) {
  const box = useRef<HTMLDivElement>(null);
  const { width } = useSize(box);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const length = span.end - span.start;
  const x = (ms: number) => ((Math.min(span.end, Math.max(span.start, ms)) - span.start) / length) * width;
  const at = (event: { clientX: number }) => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    const part = Math.min(1, Math.max(0, (event.clientX - left) / Math.max(1, width)));
    return span.start + part * length;
  };
  const finish = (to: number) => {
    if (!drag) return;
    setDrag(null);
    const [start, end] = [Math.min(drag.from, to), Math.max(drag.from, to)];
    if (x(end) - x(start) < 4) onJump(to);
    else onZoom({ start: Math.floor(start), end: Math.ceil(end) });
  };
  const step = bars?.step ?? length / 60;
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowLeft: -step, ArrowRight: step };
    const move = moves[event.key];
    const present = cursor ?? span.end;
    if (move !== undefined) {
      const next = Math.min(span.end, Math.max(span.start, present + move));
      setCursor(next);
      setDrag(event.shiftKey ? { from: drag?.from ?? present, to: next } : null);
    } else if (event.key === "Enter" && drag) {
      finish(drag.to);
    } else if (event.key === "Enter" && cursor !== null) {
      onJump(cursor);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const summary = bars
    ? `${count(bars.total)} lines: ${bars.groups.map((group) => `${count(group.total)} ${group.name}`).join(", ")}`
    : "counting";
  return (
    <div
      ref={box}
      class="histogram"
      tabIndex={0}
      role="application"
      aria-roledescription="histogram"
      aria-label={`Lines over time. ${summary}. Arrow keys move, with Shift they select, Enter zooms.`}
      onKeyDown={onKey}
      onBlur={() => {
        setCursor(null);
        setDrag(null);
      }}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag({ from: at(event), to: at(event) });
      }}
      onPointerMove={(event) => {
        setCursor(at(event));
        if (drag) setDrag({ from: drag.from, to: at(event) });
      }}
      onPointerUp={(event) => finish(at(event))}
      onPointerCancel={() => setDrag(null)}
      onPointerLeave={() => !drag && setCursor(null)}
    >
      <svg width={width} height={HEIGHT + AXIS} aria-hidden="true">
        {bars && width > 0 && <BarShapes bars={bars} x={x} span={span} />}
        {seen && (
          <rect class="seen" x={Math.max(0, x(seen.start) - 1)} y={HEIGHT - 2} width={Math.max(3, x(seen.end) - x(seen.start) + 2)} height={3} />
        )}
        <Axis span={span} width={width} zone={zone} x={x} />
        {drag && <rect class="brush" x={Math.min(x(drag.from), x(drag.to))} y={0} width={Math.abs(x(drag.to) - x(drag.from))} height={HEIGHT} />}
        {cursor !== null && !drag && <line class="cursor" x1={x(cursor)} x2={x(cursor)} y1={0} y2={HEIGHT} />}
      </svg>
      {bars && bars.most > 0 && <span class="most">{count(bars.most)}</span>}
      {cursor !== null && bars && <Tip bars={bars} at={cursor} drag={drag} zone={zone} left={x(cursor)} width={width} />}
    </div>
  );
}

function BarShapes({ bars, x, span }: { bars: Bars; x: (ms: number) => number; span: Span }) {
  const paths = bars.groups.map(() => "");
  const total = bars.groups[0]?.counts.length ?? 0;
  for (let bar = 0; bar < total; bar += 1) {
    const end = bars.first + bar * bars.step;
    if (end - bars.step >= span.end) break;
    const left = x(end - bars.step);
    const wide = Math.max(1, x(end) - left - 1);
    let y = HEIGHT;
    bars.groups.forEach((group, n) => {
      const value = group.counts[bar] ?? 0;
      if (value === 0) return;
      // A bar with lines is visible, however few they are.
      const high = Math.max((value / bars.most) * (HEIGHT - 12), y === HEIGHT ? 1.5 : 0);
      y -= high;
      paths[n] += `M${left.toFixed(1)} ${y.toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}h-${wide.toFixed(1)}z`;
    });
  }
  return <>{bars.groups.map((group, n) => <path key={group.name} d={paths[n] ?? ""} fill={group.colour} />)}</>;
}

function Axis({ span, width, zone, x }: { span: Span; width: number; zone: string; x: (ms: number) => number }) {
  if (width === 0) return null;
  const step = niceStep(span, Math.max(2, Math.floor(width / 90)));
  const ticks: number[] = [];
  for (let at = Math.ceil(span.start / step) * step; at < span.end && ticks.length < 60; at += step) ticks.push(at);
  return (
    <>
      <line class="axis" x1={0} x2={width} y1={HEIGHT + 0.5} y2={HEIGHT + 0.5} />
      {ticks.filter((at) => x(at) > 24 && x(at) < width - 24).map((at) => (
        <text key={at} x={x(at)} y={HEIGHT + 14} text-anchor="middle">{axisLabel(at, step, zone)}</text>
      ))}
    </>
  );
}

interface TipProps {
  bars: Bars;
  at: number;
  drag: { from: number; to: number } | null;
  zone: string;
  left: number;
  width: number;
}

function Tip({ bars, at, drag, zone, left, width }: TipProps) {
  const bar = Math.ceil((at - bars.first) / bars.step);
  const end = bars.first + bar * bars.step;
  const rows = bars.groups.map((group) => ({ ...group, here: group.counts[bar] ?? 0 })).filter((group) => group.here > 0);
  const isRight = left > width / 2;
  const style = isRight ? { right: `${width - left + 12}px` } : { left: `${left + 12}px` };
  return (
    <div class="tip" style={style}>
      <strong>
        {drag
          ? `${dateTime(Math.min(drag.from, drag.to), zone)} + ${length(Math.abs(drag.to - drag.from))}`
          : `${dateTime(end - bars.step, zone)} + ${length(bars.step)}`}
      </strong>
      {!drag && rows.length === 0 && <span class="muted">no lines</span>}
      {!drag && rows.map((group) => (
        <span key={group.name} class="tip-row">
          <i style={{ background: group.colour }} /> {group.name} <b>{count(group.here)}</b>
        </span>
      ))}
    </div>
  );
}

// The picker of the time range: relative ranges, or two instants; steps back, ahead and out.

import { useState } from "preact/hooks";
import { Popover } from "./popover.tsx";
import { RELATIVE_RANGES, type Range, type Span, instant, iso, dateTime, offsetName, rangeName } from "./time.ts";
import { useKeys } from "./keys.ts";

interface PickerProps {
  range: Range;
  span: Span;
  zone: string;
  onChange: (range: Range) => void;
}

export function RangePicker({ range, span, zone, onChange }: PickerProps) {
  const opener = { current: () => {} };
  const length = span.end - span.start;
  const move = (start: number, end: number) => onChange({ from: iso(start), to: iso(end) });
  const back = () => move(span.start - length / 2, span.end - length / 2);
  const ahead = () => move(span.start + length / 2, span.end + length / 2);
  const out = () => move(span.start - length / 2, Math.min(span.end + length / 2, Math.max(span.end, Date.now())));
  useKeys([
    { key: "t", does: "Choose the time range", run: () => opener.current() },
    { key: "[", does: "Earlier by half of the range", run: back },
    { key: "]", does: "Later by half of the range", run: ahead },
    { key: "-", does: "Twice the time range", run: out },
  ]);
  return (
    <div class="range-picker">
      <button class="quiet narrow" title="Earlier by half of the range ([)" aria-label="Earlier" onClick={back}>‹</button>
      <Popover
        label={<span class="range-name">{rangeName(range, zone)}</span>}
        title="Time range (t)"
        align="right"
        opener={opener}
      >
        {(close) => <Choices range={range} span={span} zone={zone} onChange={(chosen) => (close(), onChange(chosen))} />}
      </Popover>
      <button class="quiet narrow" title="Later by half of the range (])" aria-label="Later" onClick={ahead}>›</button>
      <button class="quiet narrow" title="Twice the time range (-)" aria-label="Twice the range" onClick={out}>⊖</button>
    </div>
  );
}

function Choices({ range, span, zone, onChange }: PickerProps) {
  const shown = (text: string, at: number) => (text.startsWith("now") ? text : dateTime(at, zone));
  const [from, setFrom] = useState(shown(range.from, span.start));
  const [to, setTo] = useState(shown(range.to, span.end));
  const now = Date.now();
  const [start, end] = [instant(from, now, zone), instant(to, now, zone)];
  const problem =
    start === null ? "The first time cannot be read." : end === null ? "The last time cannot be read." :
    start >= end ? "The first time is not before the last." : "";
  const apply = (event: Event) => {
    event.preventDefault();
    if (start === null || end === null || problem !== "") return;
    const kept = (text: string, at: number) => (text.trim().startsWith("now") ? text.trim() : iso(at));
    onChange({ from: kept(from, start), to: kept(to, end) });
  };
  return (
    <div class="range-choices">
      <div class="relative">
        {RELATIVE_RANGES.map(([text, name]) => (
          <button
            key={text}
            class={range.from === `now-${text}` && range.to === "now" ? "quiet chosen" : "quiet"}
            onClick={() => onChange({ from: `now-${text}`, to: "now" })}
          >
            Last {name}
          </button>
        ))}
      </div>
      <form onSubmit={apply}>
        <label>
          From
          <input value={from} onInput={(event) => setFrom(event.currentTarget.value)} spellcheck={false} />
        </label>
        <label>
          To
          <input value={to} onInput={(event) => setTo(event.currentTarget.value)} spellcheck={false} />
        </label>
        <p class="muted">
          A date and a time ({offsetName(now, zone)}), RFC 3339, seconds since 1970, or <code>now-90m</code>.
        </p>
        <p class="wrong" role="status">{problem}</p>
        <button class="primary" disabled={problem !== ""}>Apply</button>
      </form>
    </div>
  );
}

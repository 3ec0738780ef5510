// What tenants have written since the process started, how fast they write now, and why pushes were refused.

import { useEffect, useRef, useState } from "preact/hooks";
import { type TenantIngest, ingest } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { bytes, count, number, oneLine } from "../frame/text.ts";
import { dateTime } from "../frame/time.ts";
import type { TabProps } from "./page.tsx";

const AGAIN_MS = 5000;
const PART = 200;

interface Read {
  at: number;
  tenants: Map<string, TenantIngest>;
}

export function Ingest({ page }: TabProps) {
  const [ofAll, setOfAll] = useState(false);
  const [asked, setAsked] = useState(0);
  const [shown, setShown] = useState(PART);
  const before = useRef<Read | null>(null);
  const last = useRef<Read | null>(null);
  const answer = useAnswer(
    async (signal) => {
      const found = await ingest(ofAll, { signal });
      before.current = last.current;
      last.current = { at: performance.now(), tenants: new Map(found.map((one) => [one.tenant, one])) };
      return found;
    },
    [ofAll, page.runs, asked],
  );
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && setAsked((n) => n + 1), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  const found = [...(answer.data ?? [])].sort((a, b) => b.line_bytes + b.samples - a.line_bytes - a.samples);
  const since = found[0]?.since_ms;
  const rate = (one: TenantIngest, name: "lines" | "line_bytes" | "samples"): number | null => {
    const [old, now] = [before.current, last.current];
    const earlier = old?.tenants.get(one.tenant);
    return old && now && earlier && now.at > old.at ? Math.max(0, ((one[name] - earlier[name]) * 1000) / (now.at - old.at)) : null;
  };
  const perSecond = (value: number | null, text: (value: number) => string) => (value === null ? "" : `${text(value)}/s`);
  return (
    <section aria-label="Ingest">
      <div class="row">
        <label class="inline"><input type="checkbox" checked={ofAll} onChange={() => setOfAll(!ofAll)} /> of all tenants (needs the scope admin)</label>
        <span class="muted">What was written to this process{since ? ` since ${dateTime(since, page.zone)}` : ""}. Read again every five seconds.</span>
      </div>
      <Progress on={answer.loading && answer.data === null} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && found.length === 0 && <p class="empty">Nothing was written since the process started.</p>}
      {found.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of tenants">
          <table class="data">
            <thead>
              <tr><th>Tenant</th><th class="number">Lines</th><th class="number">Now</th><th class="number">Bytes of lines</th><th class="number">Now</th><th class="number">Samples</th><th class="number">Now</th><th>Last</th><th>Refused</th></tr>
            </thead>
            <tbody>
              {found.slice(0, shown).map((one) => (
                <tr key={one.tenant}>
                  <td><bdi>{oneLine(one.tenant, 80)}</bdi></td>
                  <td class="number">{count(one.lines)}</td>
                  <td class="number muted">{perSecond(rate(one, "lines"), number)}</td>
                  <td class="number">{bytes(one.line_bytes)}</td>
                  <td class="number muted">{perSecond(rate(one, "line_bytes"), bytes)}</td>
                  <td class="number" title={`${count(one.histograms)} histograms, ${count(one.exemplars)} exemplars`}>{count(one.samples)}</td>
                  <td class="number muted">{perSecond(rate(one, "samples"), number)}</td>
                  <td class="nowrap">{one.accepted_ms > 0 ? dateTime(one.accepted_ms, page.zone) : <span class="muted">never</span>}</td>
                  <td>{one.refused.length === 0 ? <span class="muted">none</span> : <ul>{one.refused.map(({ reason, pushes, entries }) => <li key={reason}>{oneLine(reason, 60)}: {count(pushes)} {pushes === 1 ? "push" : "pushes"}{entries > 0 && `, ${count(entries)} ${entries === 1 ? "entry" : "entries"}`}</li>)}</ul>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.length > shown && <button class="more" onClick={() => setShown(shown + PART)}>Show {PART} more of {count(found.length - shown)}</button>}
    </section>
  );
}

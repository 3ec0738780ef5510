// The alerts that are pending or firing, with the expression and the history of each.

import { useState } from "preact/hooks";
import { number, oneLine } from "../frame/text.ts";
import { dateTime, length } from "../frame/time.ts";
import { type Changes, follow } from "../frame/url.ts";
import { expressionLink, historyLink } from "./links.ts";
import { Pairs, labelText } from "./pairs.tsx";
import { type FoundAlert, timeOf } from "./selection.ts";

const PART = 200;

interface AlertsProps {
  found: FoundAlert[];
  zone: string;
  kept: Changes;
  isFiltered: boolean;
}

export function ActiveAlerts({ found, zone, kept, isFiltered }: AlertsProps) {
  const [shown, setShown] = useState(PART);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  if (found.length === 0) {
    return (
      <div class="empty">
        <h2>{isFiltered ? "No alert matches" : "No alert is active"}</h2>
        <p>{isFiltered ? "Remove a filter or change the text that is sought." : "All rules are evaluated, and none of them is pending or firing."}</p>
      </div>
    );
  }
  const toggle = (key: string) => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  };
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Active alerts">
        <table class="data">
          <thead>
            <tr><th><span class="hidden">Details</span></th><th>State</th><th>Alert</th><th>Labels</th><th class="number">Value</th><th>Since</th><th>Summary</th></tr>
          </thead>
          <tbody>
            {found.slice(0, shown).map((entry) => {
              const key = keyOf(entry);
              return <AlertRow key={key} entry={entry} zone={zone} kept={kept} isOpen={open.has(key)} onToggle={() => toggle(key)} />;
            })}
          </tbody>
        </table>
      </div>
      {found.length > shown && <button class="more" onClick={() => setShown(shown + PART)}>Show {PART} more of {(found.length - shown).toLocaleString("en-US")}</button>}
    </>
  );
}

function keyOf({ alert, rule, group }: FoundAlert): string {
  return [group.file, group.name, rule.name, rule.query, labelText(alert.labels)].join("\u0000");
}

interface RowProps {
  entry: FoundAlert;
  zone: string;
  kept: Changes;
  isOpen: boolean;
  onToggle: () => void;
}

function AlertRow({ entry, zone, kept, isOpen, onToggle }: RowProps) {
  const { alert, rule, group } = entry;
  const { summary, description, message } = alert.annotations;
  const expression = expressionLink(rule, kept, alert);
  const history = historyLink(alert, kept);
  return (
    <>
      <tr>
        <td><button class="quiet tiny" aria-expanded={isOpen} aria-label={`Details of ${oneLine(rule.name, 80)}`} onClick={onToggle}>{isOpen ? "▾" : "▸"}</button></td>
        <td class="nowrap"><StateName state={alert.state} /></td>
        <td><a href={expression} title="Show the expression" onClick={(event) => follow(event, expression)}><bdi>{oneLine(rule.name, 120)}</bdi></a></td>
        <td class="series-cell"><code>{oneLine(labelText(alert.labels, ["alertname"]), 300)}</code></td>
        <td class="number" title={alert.value}>{number(Number(alert.value))}</td>
        <td class="nowrap"><Since text={alert.activeAt} zone={zone} /></td>
        <td class="help-cell"><bdi>{oneLine(summary ?? message ?? description ?? "", 300)}</bdi></td>
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td colSpan={7}>
            <div class="stack">
              <p class="muted">Group <bdi>{oneLine(group.name, 120)}</bdi> of <bdi>{oneLine(group.file, 300)}</bdi>{alert.keepFiringSince && <>; the condition ended <Since text={alert.keepFiringSince} zone={zone} /> and the alert is kept firing</>}</p>
              <pre class="whole-line">{oneLine(rule.query, 4000)}</pre>
              <div class="choice">
                <a href={expression} onClick={(event) => follow(event, expression)}>Show the expression</a>
                <a href={history} onClick={(event) => follow(event, history)}>Show its history</a>
              </div>
              <Pairs title="Labels" pairs={alert.labels} />
              <Pairs title="Annotations" pairs={alert.annotations} />
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

export function StateName({ state }: { state: string }) {
  return <span class={`state-name state-${state}`}>{state}</span>;
}

/** How long ago an instant is; the instant itself as a hint. */
export function Since({ text, zone }: { text: string; zone: string }) {
  const at = timeOf(text);
  if (at === null) return <span class="muted">never</span>;
  return <time dateTime={text} title={dateTime(at, zone)}>{length(Math.max(0, Math.floor((Date.now() - at) / 1000) * 1000 || 1000))} ago</time>;
}

// The silences of the tenant: which alerts webhooks and mailboxes are not told, and until when.

import { type Matcher, type Silence, silences } from "../api/silences.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";
import { dateTime } from "../frame/time.ts";
import { timeOf } from "./selection.ts";

const SHOWN_MAX = 1_000;

interface SilencesProps {
  runs: number;
  zone: string;
  search: string;
}

export function Silences({ runs, zone, search }: SilencesProps) {
  const answer = useAnswer((signal) => silences({ signal }), [runs]);
  const all = answer.data ?? [];
  const found = all.filter((silence) => textOf(silence).toLowerCase().includes(search.toLowerCase()));
  return (
    <>
      <Progress on={answer.loading && answer.data === null} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {answer.data && all.length === 0 && <NoSilences />}
      {answer.data && all.length > 0 && found.length === 0 && <div class="empty"><h2>No silence matches</h2><p>Change the text that is sought.</p></div>}
      {found.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Silences">
          <table class="data">
            <thead>
              <tr><th>State</th><th>Alerts</th><th>From</th><th>Until</th><th>By</th><th>Comment</th></tr>
            </thead>
            <tbody>{found.slice(0, SHOWN_MAX).map((silence) => <SilenceRow key={silence.id} silence={silence} zone={zone} />)}</tbody>
          </table>
        </div>
      )}
      {found.length > SHOWN_MAX && <p class="notice warning">and {count(found.length - SHOWN_MAX)} more silences</p>}
    </>
  );
}

function SilenceRow({ silence, zone }: { silence: Silence; zone: string }) {
  const { status, matchers, startsAt, endsAt, createdBy, comment, id } = silence;
  return (
    <tr>
      <td class="nowrap" title={id}>{oneLine(status.state, 20)}</td>
      <td class="series-cell"><code>{oneLine(matchers.map(matcherText).join(" "), 600)}</code></td>
      <td class="nowrap"><At text={startsAt} zone={zone} /></td>
      <td class="nowrap"><At text={endsAt} zone={zone} /></td>
      <td><bdi>{oneLine(createdBy, 80)}</bdi></td>
      <td class="help-cell"><bdi>{oneLine(comment, 300)}</bdi></td>
    </tr>
  );
}

function At({ text, zone }: { text: string; zone: string }) {
  const at = timeOf(text);
  return at === null ? <span class="muted">unknown</span> : <time dateTime={text}>{dateTime(at, zone)}</time>;
}

function NoSilences() {
  return (
    <div class="empty no-rules">
      <h2>There are no silences</h2>
      <p>A silence keeps alerts from being told to webhooks and mailboxes. Alertmanagers have silences of their own.</p>
      <pre>sandur silences add alertname=TargetDown --duration 2h --comment 'planned work'</pre>
    </div>
  );
}

export function matcherText({ name, value, isRegex, isEqual }: Matcher): string {
  const operator = isRegex ? (isEqual ? "=~" : "!~") : isEqual ? "=" : "!=";
  return `${name}${operator}${JSON.stringify(value)}`;
}

function textOf(silence: Silence): string {
  return [silence.status.state, silence.createdBy, silence.comment, ...silence.matchers.map(matcherText)].join(" ");
}

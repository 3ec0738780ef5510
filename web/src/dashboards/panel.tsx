// A panel: asks its queries when it is visible, and draws the answers.
//
// Invariants: a panel that is not in sight asks nothing; its last answer stays. What is not supported is
// said in the panel.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Progress, useAnswer } from "../frame/answer.tsx";
import type { Page } from "../frame/frame.tsx";
import { Popover } from "../frame/popover.tsx";
import { oneLine, visible } from "../frame/text.ts";
import type { Span } from "../frame/time.ts";
import { type Changes, follow } from "../frame/url.ts";
import { GAP, type Placed, ROW } from "./layout.ts";
import { type Open, opens } from "./links.ts";
import { type PanelAnswer, panelAnswer, stepOf } from "./panel_data.ts";
import { Body } from "./panel_body.tsx";
import { substituted, withTimes } from "./substitution.ts";

const HEAD = 30;

interface PanelProps {
  placed: Placed;
  page: Page;
  kept: Changes;
  onZoom: (span: Span) => void;
  /** Counts the panels that await an answer. */
  onPending: (by: 1 | -1) => void;
}

export function PanelView({ placed: { panel, scope }, page, kept, onZoom, onPending }: PanelProps) {
  const box = useRef<HTMLElement>(null);
  const isSeen = useSeen(box);
  const { span, runs } = page;
  const wanted = useMemo(() => ({ panel, scope, span }), [panel, scope, span.start, span.end, runs]);
  const [asked, setAsked] = useState<typeof wanted | null>(null);
  useEffect(() => {
    if (isSeen) setAsked(wanted);
  }, [isSeen, wanted]);
  const isAsking = panel.kind !== null && panel.kind !== "text" && panel.queries.length > 0;
  const answer = useAnswer(
    (signal) => (asked && isAsking ? panelAnswer(asked.panel, asked.scope, asked.span, signal) : null),
    [asked],
  );
  useEffect(() => {
    if (!answer.loading) return;
    onPending(1);
    return () => onPending(-1);
  }, [answer.loading]);
  const step = stepOf(panel, span, scope);
  const all = useMemo(() => withTimes(scope, span, step), [scope, span.start, span.end, step]);
  const title = substituted(panel.title, all, "text");
  const links = useMemo(() => opens(panel, all, kept), [panel, all, kept]);
  const { x, y, w, h } = panel.at;
  const place = { gridColumn: `${x + 1} / span ${w}`, gridRow: `${y + 1} / span ${h}`, "--high": `${h * (ROW + GAP) - GAP}px` };
  const description = substituted(panel.description, all, "text");
  return (
    <section ref={box} class={panel.kind === null ? "panel unknown" : "panel"} style={place} aria-label={oneLine(title, 120) || "Panel"}>
      <header>
        <h3 title={description === "" ? undefined : visible(description.slice(0, 1000))}><bdi>{oneLine(title, 160)}</bdi></h3>
        <span class="spring" />
        {panel.notes.length > 0 && panel.kind !== null && <Notes notes={panel.notes} title={title} />}
        {links.slice(0, 1).map((link) => <OpenLink key={link.url} link={link} title={title} />)}
      </header>
      <Progress on={answer.loading && answer.data === null} />
      <div class="panel-body">
        {panel.kind === null && <NotSupported reason={panel.reason} links={links} />}
        {answer.error && <p class="wrong" role="alert">{answer.error.status === 0 ? "No answer" : `Error ${answer.error.status}`}: {visible(answer.error.message.slice(0, 500))} <button class="quiet" onClick={answer.retry}>Try again</button></p>}
        {answer.cancelled && <p class="wrong">Cancelled. <button class="quiet" onClick={answer.retry}>Run again</button></p>}
        {panel.kind !== null && panel.kind !== "text" && panel.queries.length === 0 && <p class="muted">This panel has no query that is supported.</p>}
        {panel.kind === "text" && <pre class="panel-text">{visible(substituted(panel.text, all, "text").slice(0, 20_000))}</pre>}
        {answer.data && asked && panel.kind !== null && <Answered answer={answer.data} asked={asked} page={page} room={h * (ROW + GAP) - GAP - HEAD} onZoom={onZoom} />}
      </div>
    </section>
  );
}

interface AnsweredProps {
  answer: PanelAnswer;
  asked: { panel: Placed["panel"]; span: Span };
  page: Page;
  room: number;
  onZoom: (span: Span) => void;
}

function Answered({ answer, asked, page, room, onZoom }: AnsweredProps) {
  const failures = answer.queries.filter(({ error }) => error);
  const warnings = [...new Set(answer.queries.flatMap(({ warnings: given }) => given))];
  return (
    <>
      {failures.map(({ query, error }) => (
        <p key={query.letter} class="wrong" role="alert">{query.letter}: {visible((error?.message ?? "").slice(0, 500))}</p>
      ))}
      {warnings.slice(0, 3).map((text) => <p key={text} class="warning">{oneLine(text, 300)}</p>)}
      {failures.length < answer.queries.length && <Body panel={asked.panel} answer={answer} span={asked.span} zone={page.zone} room={room} onZoom={onZoom} />}
    </>
  );
}

/** Whether an element is in sight, or nearly. */
function useSeen(element: { current: HTMLElement | null }): boolean {
  const [isSeen, setIsSeen] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver((entries) => setIsSeen(entries.at(-1)?.isIntersecting ?? false), { rootMargin: "200px" });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return isSeen;
}

function Notes({ notes, title }: { notes: string[]; title: string }) {
  return (
    <Popover label={<><span class="hidden">What is not supported in {oneLine(title, 80)}</span>!</>} title="What is not supported here" align="right" class="quiet tiny warning">
      {() => <ul class="notes">{notes.map((note) => <li key={note}>{oneLine(note, 500)}</li>)}</ul>}
    </Popover>
  );
}

function OpenLink({ link, title }: { link: Open; title: string }) {
  return <a class="open" href={link.url} title={`Open in ${link.place}`} aria-label={`Open ${oneLine(title, 80)} in ${link.place}`} onClick={(event) => follow(event, link.url)}>↗</a>;
}

function NotSupported({ reason, links }: { reason: string; links: Open[] }) {
  return (
    <div class="not-supported">
      <p>{oneLine(reason, 500)}</p>
      {links.map((link) => <a key={link.url} href={link.url} onClick={(event) => follow(event, link.url)}><code>{oneLine(link.text, 200)}</code></a>)}
    </div>
  );
}

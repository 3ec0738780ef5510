// The route of alerts: active alerts, groups of rules with their states, silences, and where alerts are sent.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Rules, destinations, rules } from "../api/rules.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { type Page, shared } from "../frame/frame.tsx";
import { useKeys } from "../frame/keys.ts";
import { count, oneLine, plural } from "../frame/text.ts";
import { change } from "../frame/url.ts";
import { ActiveAlerts } from "./active_alerts.tsx";
import { NoRules } from "./no_rules.tsx";
import { RuleGroups } from "./rule_groups.tsx";
import { Silences } from "./silences.tsx";
import { STATES, type State, type Wanted, alertsOf, counts, rulesOf } from "./selection.ts";

/** Time between reads; a slow answer waits twenty times as long. */
const AGAIN_MS = 10_000;

export default function AlertsPage({ page }: { page: Page }) {
  const { params } = page.place;
  const tab = tabOf(params.get("tab"));
  const [asked, setAsked] = useState(0);
  const answer = useAnswer((signal) => rules({ signal }), [page.runs, asked]);
  useAgain(answer.loading, answer.took, () => setAsked((n) => n + 1));
  const wanted = useMemo(() => wantedOf(params), [params]);
  const groups = answer.data?.groups ?? [];
  const found = useMemo(() => ({ alerts: alertsOf(groups, wanted), rules: rulesOf(groups, wanted) }), [groups, wanted]);
  const numbers = useMemo(() => ({ alerts: counts(groups, "alerts"), rules: counts(groups, "rules") }), [groups]);
  const kept = shared(params);
  const choose = (chosen: Tab) => change({ tab: chosen === "alerts" ? null : chosen }, "replace");
  useKeys([
    { key: "1", does: "Active alerts", run: () => choose("alerts") },
    { key: "2", does: "Rules", run: () => choose("rules") },
    { key: "3", does: "Silences", run: () => choose("silences") },
    { key: "f", does: "Search rules and alerts", run: () => document.querySelector<HTMLElement>("[data-search]")?.focus() },
  ]);
  const all = groups.reduce((sum, group) => sum + group.rules.length, 0);
  return (
    <section class="alerts">
      <div class="toolbar">
        <div class="tabs" role="group" aria-label="View">
          <button class={tab === "alerts" ? "chosen" : ""} aria-pressed={tab === "alerts"} onClick={() => choose("alerts")}>Alerts</button>
          <button class={tab === "rules" ? "chosen" : ""} aria-pressed={tab === "rules"} onClick={() => choose("rules")}>Rules</button>
          <button class={tab === "silences" ? "chosen" : ""} aria-pressed={tab === "silences"} onClick={() => choose("silences")}>Silences</button>
        </div>
        {tab !== "silences" && <States wanted={wanted} numbers={numbers[tab]} of={tab} />}
        {tab === "rules" && <Kind wanted={wanted} />}
        <span class="spring" />
        <input data-search type="search" placeholder="Search (f)" aria-label="Search rules, alerts and silences" value={wanted.search} onInput={(event) => change({ search: event.currentTarget.value }, "replace")} />
      </div>
      <Progress on={answer.loading && answer.data === null} />
      <div class="alerts-body">
        {answer.error && <Problem error={answer.error} retry={answer.retry} />}
        {answer.data && <Notices answer={answer.data} />}
        {tab === "silences" && <Silences runs={page.runs + asked} zone={page.zone} search={wanted.search} />}
        {answer.data && all === 0 && answer.data.warnings.length === 0 && tab !== "silences" && <NoRules />}
        {answer.data && all > 0 && tab === "alerts" && <ActiveAlerts found={found.alerts} zone={page.zone} kept={kept} isFiltered={wanted.search !== "" || wanted.states.size > 0} />}
        {answer.data && all > 0 && tab === "rules" && <RuleGroups found={found.rules} zone={page.zone} kept={kept} />}
      </div>
      <div class="status">
        <span role="status">{plural(all, "rule")} in {plural(groups.length, "group")}</span>
        <Receivers runs={page.runs + asked} />
      </div>
    </section>
  );
}

type Tab = "alerts" | "rules" | "silences";

function tabOf(text: string | null): Tab {
  return text === "rules" || text === "silences" ? text : "alerts";
}

/** Calls `ask` again while the page is visible and no answer is awaited. */
function useAgain(isLoading: boolean, took: number, ask: () => void): void {
  const state = useRef({ isLoading, ask });
  state.current = { isLoading, ask };
  const pause = Math.max(AGAIN_MS, took * 20);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && !state.current.isLoading) state.current.ask();
    }, pause);
    return () => clearInterval(timer);
  }, [Math.round(pause / 1000)]);
}

function wantedOf(params: URLSearchParams): Wanted {
  const given = (params.get("state") ?? "").split(",");
  const kind = params.get("kind");
  return {
    states: new Set(STATES.filter((state) => given.includes(state))),
    kind: kind === "alerting" || kind === "recording" ? kind : "all",
    search: params.get("search") ?? "",
  };
}

const STATE_NAMES: Record<State, string> = { firing: "Firing", pending: "Pending", inactive: "Inactive", failing: "Failing" };

function States({ wanted, numbers, of }: { wanted: Wanted; numbers: Record<State, number>; of: "alerts" | "rules" }) {
  const toggle = (state: State) => {
    const next = new Set(wanted.states);
    if (!next.delete(state)) next.add(state);
    change({ state: STATES.filter((one) => next.has(one)).join(",") }, "replace");
  };
  return (
    <div class="choice" role="group" aria-label="States">
      {STATES.filter((state) => of === "rules" || state === "firing" || state === "pending").map((state) => (
        <button key={state} class={wanted.states.has(state) ? "quiet chosen" : "quiet"} aria-pressed={wanted.states.has(state)} onClick={() => toggle(state)}>
          <i class={`state-${state}`} /> {STATE_NAMES[state]} <b>{count(numbers[state])}</b>
        </button>
      ))}
    </div>
  );
}

function Kind({ wanted }: { wanted: Wanted }) {
  return (
    <label class="inline">
      <span class="hidden">Kind of rules</span>
      <select aria-label="Kind of rules" value={wanted.kind} onChange={(event) => change({ kind: event.currentTarget.value === "all" ? null : event.currentTarget.value }, "replace")}>
        <option value="all">all rules</option>
        <option value="alerting">alerting rules</option>
        <option value="recording">recording rules</option>
      </select>
    </label>
  );
}

const WARNINGS_MAX = 20;

function Notices({ answer }: { answer: Rules }) {
  return (
    <>
      {answer.warnings.slice(0, WARNINGS_MAX).map((text) => <p key={text} class="notice warning" role="alert">Warning of the server: {oneLine(text, 1000)}</p>)}
      {answer.warnings.length > WARNINGS_MAX && <p class="notice warning">and {count(answer.warnings.length - WARNINGS_MAX)} more warnings</p>}
      {answer.leftOut > 0 && <p class="notice warning">{plural(answer.leftOut, "alert")} are not shown: the page holds the first 20,000.</p>}
      {answer.isCut && <p class="notice warning">Some groups are not shown: the page reads the first 10,000.</p>}
    </>
  );
}

function Receivers({ runs }: { runs: number }) {
  const answer = useAnswer((signal) => destinations({ signal }), [runs]);
  if (!answer.data) return null;
  const { managers, receivers } = answer.data;
  if (managers.length + receivers.length === 0) return <span>No Alertmanager, webhook or mailbox: alerts are only shown and stored</span>;
  return (
    <>
      {managers.slice(0, 8).map(({ url, queued, lastError }) => (
        <span key={url}>
          Alertmanager <bdi>{oneLine(url, 120)}</bdi>
          {queued !== undefined && queued > 0 && <span class="warning"> {plural(queued, "alert")} waiting</span>}
          {lastError && <span class="wrong"> {oneLine(lastError, 200)}</span>}
        </span>
      ))}
      {receivers.slice(0, 8).map(({ kind, name, lastError }, place) => (
        <span key={`${kind} ${name} ${place}`}>
          {kind === "email" ? "E-mail" : "Webhook"} <bdi>{oneLine(name, 120)}</bdi>
          {lastError && <span class="wrong"> {oneLine(lastError, 200)}</span>}
        </span>
      ))}
    </>
  );
}

// Groups of rules: state, expression, last evaluation and error of each rule.

import { useMemo, useState } from "preact/hooks";
import type { Group } from "../api/rules.ts";
import { count, oneLine, plural, visible } from "../frame/text.ts";
import { length } from "../frame/time.ts";
import { type Changes, follow, link } from "../frame/url.ts";
import { Since, StateName } from "./active_alerts.tsx";
import { expressionLink, recordedLink } from "./links.ts";
import { Pairs } from "./pairs.tsx";
import type { FoundRule } from "./selection.ts";

const PART = 200;
const LANGUAGES: Record<string, string> = { promql: "PromQL", logql: "LogQL", graphite: "Graphite" };

export function RuleGroups({ found, zone, kept }: { found: FoundRule[]; zone: string; kept: Changes }) {
  const [shown, setShown] = useState(PART);
  const groups = useMemo(() => {
    const gathered = new Map<Group, FoundRule[]>();
    for (const entry of found.slice(0, shown)) {
      const held = gathered.get(entry.group);
      if (held) held.push(entry);
      else gathered.set(entry.group, [entry]);
    }
    return [...gathered];
  }, [found, shown]);
  if (found.length === 0) {
    return (
      <div class="empty">
        <h2>No rule matches</h2>
        <p>Remove a filter or change the text that is sought.</p>
      </div>
    );
  }
  return (
    <>
      {groups.map(([group, rules]) => <RuleGroup key={`${group.file}\u0000${group.name}`} group={group} rules={rules} zone={zone} kept={kept} />)}
      {found.length > shown && <button class="more" onClick={() => setShown(shown + PART)}>Show {PART} more of {count(found.length - shown)}</button>}
    </>
  );
}

function RuleGroup({ group, rules, zone, kept }: { group: Group; rules: FoundRule[]; zone: string; kept: Changes }) {
  const missed = group.missedEvaluations ?? 0;
  return (
    <section class="rule-group" aria-label={`Group ${oneLine(group.name, 120)}`}>
      <header class="row">
        <h2><bdi>{oneLine(group.name, 200)}</bdi></h2>
        <span class="muted"><bdi>{oneLine(group.file, 300)}</bdi></span>
        <span class="muted">every {length(group.interval * 1000)}</span>
        <span class="muted">evaluated <Since text={group.lastEvaluation} zone={zone} /> in {length(group.evaluationTime * 1000)}</span>
        {missed > 0 && <span class="warning">{plural(missed, "evaluation")} missed</span>}
      </header>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={`Rules of ${oneLine(group.name, 120)}`}>
        <table class="data">
          <thead>
            <tr><th><span class="hidden">Details</span></th><th>State</th><th>Rule</th><th>Expression</th><th>Evaluated</th><th class="number">Took</th><th class="number">Alerts</th></tr>
          </thead>
          <tbody>{rules.map((entry, n) => <RuleRow key={`${entry.rule.name} ${n}`} entry={entry} zone={zone} kept={kept} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

function RuleRow({ entry, zone, kept }: { entry: FoundRule; zone: string; kept: Changes }) {
  const { rule } = entry;
  const [isOpen, setIsOpen] = useState(false);
  const isAlerting = rule.type === "alerting";
  const expression = expressionLink(rule, kept);
  const target = isAlerting ? link("alerts", { ...kept, search: rule.name }) : recordedLink(rule, kept);
  return (
    <>
      <tr>
        <td><button class="quiet tiny" aria-expanded={isOpen} aria-label={`Details of ${oneLine(rule.name, 80)}`} onClick={() => setIsOpen(!isOpen)}>{isOpen ? "▾" : "▸"}</button></td>
        <td class="nowrap">
          {isAlerting ? <StateName state={rule.state ?? "inactive"} /> : <span class="state-name">recording</span>}
          {rule.health === "err" && <><br /><StateName state="failing" /></>}
        </td>
        <td class="rule-name"><a href={target} title={isAlerting ? "Show its alerts" : "Show the recorded series"} onClick={(event) => follow(event, target)}><bdi>{oneLine(rule.name, 160)}</bdi></a></td>
        <td class="query">
          <a href={expression} title="Show the expression" onClick={(event) => follow(event, expression)}><code>{oneLine(rule.query, 400)}</code></a>
          {rule.health === "err" && <p class="wrong">{visible((rule.lastError ?? "The last evaluation failed.").slice(0, 2000))}</p>}
        </td>
        <td class="nowrap"><Since text={rule.lastEvaluation} zone={zone} /></td>
        <td class="number">{length(rule.evaluationTime * 1000)}</td>
        <td class="number">{isAlerting ? count(rule.alerts?.length ?? 0) : ""}</td>
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td colSpan={7}>
            <div class="stack">
              <p class="muted">
                {LANGUAGES[rule.language ?? "promql"] ?? rule.language}
                {isAlerting && <>; fires {(rule.duration ?? 0) > 0 ? `after ${length((rule.duration ?? 0) * 1000)}` : "at once"}{(rule.keepFiringFor ?? 0) > 0 && <>, is kept firing for {length((rule.keepFiringFor ?? 0) * 1000)}</>}</>}
              </p>
              <pre class="whole-line">{visible(rule.query.slice(0, 8000))}</pre>
              <Pairs title="Labels" pairs={rule.labels} />
              <Pairs title="Annotations" pairs={rule.annotations} />
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

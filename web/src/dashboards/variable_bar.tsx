// The variables of a dashboard: a choice, several choices, or a text for each.

import { useState } from "preact/hooks";
import { Popover } from "../frame/popover.tsx";
import { oneLine } from "../frame/text.ts";
import { ALL } from "./model.ts";
import type { Resolved } from "./variables.ts";

const LISTED_MAX = 500;

export function VariableBar({ variables, onChoose }: { variables: Resolved[]; onChoose: (name: string, values: string[]) => void }) {
  const shown = variables.filter(({ variable }) => !variable.isHidden);
  if (shown.length === 0) return null;
  return (
    <div class="variables" role="group" aria-label="Variables">
      {shown.map((one) => <OneVariable key={one.variable.name} resolved={one} onChoose={(values) => onChoose(one.variable.name, values)} />)}
    </div>
  );
}

interface OneProps {
  resolved: Resolved;
  onChoose: (values: string[]) => void;
}

function OneVariable({ resolved, onChoose }: OneProps) {
  const { variable, chosen, choices, problem } = resolved;
  const title = oneLine(variable.title, 60);
  return (
    <span class="variable">
      {variable.kind === "text" ? (
        <label class="inline"><span class="muted">{title}</span> <input value={chosen[0] ?? ""} onChange={(event) => onChoose([event.currentTarget.value])} /></label>
      ) : variable.isSeveral ? (
        <Several resolved={resolved} title={title} onChoose={onChoose} />
      ) : (
        <label class="inline">
          <span class="muted">{title}</span>{" "}
          <select value={chosen[0] ?? ""} onChange={(event) => onChoose([event.currentTarget.value])}>
            {variable.hasAll && <option value={ALL}>All</option>}
            {chosen[0] !== undefined && chosen[0] !== ALL && !choices.some(({ value }) => value === chosen[0]) && <option value={chosen[0]}>{oneLine(chosen[0], 100)}</option>}
            {choices.map(({ value, text }) => <option key={value} value={value}>{oneLine(text, 100)}</option>)}
          </select>
        </label>
      )}
      {problem !== "" && <span class="warning" role="status" title={problem}>{oneLine(problem, 120)}</span>}
    </span>
  );
}

function Several({ resolved: { variable, chosen, choices }, title, onChoose }: OneProps & { title: string }) {
  const isAll = chosen.includes(ALL);
  const names = isAll ? "All" : chosen.length === 0 ? "none" : chosen.length <= 2 ? chosen.join(" + ") : `${chosen.length} chosen`;
  return (
    <>
      <span class="muted">{title}</span>
      <Popover label={<><span class="hidden">{title}: </span>{oneLine(names, 60)} ▾</>} title={title}>
        {() => <Choices variable={variable} chosen={chosen} choices={choices} onChoose={onChoose} />}
      </Popover>
    </>
  );
}

function Choices({ variable, chosen, choices, onChoose }: Pick<Resolved, "variable" | "chosen" | "choices"> & { onChoose: (values: string[]) => void }) {
  const [search, setSearch] = useState("");
  const isAll = chosen.includes(ALL);
  const found = choices.filter(({ text }) => text.toLowerCase().includes(search.toLowerCase()));
  const toggle = (value: string) => {
    const next = isAll ? [value] : chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value];
    onChoose(next.length === 0 && variable.hasAll ? [ALL] : next);
  };
  return (
    <div class="choices stack">
      <input type="search" placeholder="Search" aria-label="Search values" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      {variable.hasAll && <label class="inline"><input type="checkbox" checked={isAll} onChange={() => onChoose(isAll ? choices.slice(0, 1).map(({ value }) => value) : [ALL])} /> All</label>}
      {found.slice(0, LISTED_MAX).map(({ value, text }) => (
        <label key={value} class="inline"><input type="checkbox" checked={isAll || chosen.includes(value)} onChange={() => toggle(value)} /> <bdi>{oneLine(text, 100)}</bdi></label>
      ))}
      {found.length > LISTED_MAX && <p class="muted">and {found.length - LISTED_MAX} more: search for them</p>}
    </div>
  );
}

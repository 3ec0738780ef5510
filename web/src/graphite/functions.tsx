// Help of Graphite's functions; a click wraps the target that was edited last.

import { useState } from "preact/hooks";
import { graphiteFunctions } from "../editor/graphite.ts";
import { Problem, useAnswer } from "../frame/answer.tsx";

export function Functions({ onWrap }: { onWrap: (name: string) => void }) {
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState("");
  const answer = useAnswer(() => graphiteFunctions(), []);
  const wanted = search.toLowerCase();
  const found = Object.values(answer.data ?? {})
    .filter(({ name, description }) => name.toLowerCase().includes(wanted) || description.toLowerCase().includes(wanted))
    .sort((a, b) => Number(b.name.toLowerCase().includes(wanted)) - Number(a.name.toLowerCase().includes(wanted)) || a.name.localeCompare(b.name));
  return (
    <aside class="metric-names functions" aria-label="Functions">
      <input type="search" placeholder="Search functions" aria-label="Search functions" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      <ul>
        {found.map((entry) => (
          <li key={entry.name}>
            <button class="quiet" aria-expanded={open === entry.name} onClick={() => setOpen(open === entry.name ? "" : entry.name)}>
              <span class="metric-name">{entry.name}</span> <span class="muted">{entry.group}</span>
            </button>
            {open === entry.name && (
              <div class="function-help">
                <p><code>{entry.function}</code></p>
                <p>{entry.description}</p>
                <ul>
                  {entry.params.map((parameter) => (
                    <li key={parameter.name}>
                      <code>{parameter.name}</code> <span class="muted">{parameter.type}{parameter.required ? "" : ", optional"}{parameter.default !== undefined && parameter.default !== null ? `, ${String(parameter.default)}` : ""}</span>
                    </li>
                  ))}
                </ul>
                <button onClick={() => onWrap(entry.name)}>Apply to the target</button>
              </div>
            )}
          </li>
        ))}
      </ul>
      {answer.data && found.length === 0 && <p class="muted pad">No function matches.</p>}
    </aside>
  );
}

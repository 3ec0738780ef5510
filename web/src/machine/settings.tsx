// The settings in force, and the limits of the tenant.

import { useState } from "preact/hooks";
import { configuration, tenantLimits } from "../api/machine.ts";
import { Problem, Progress, useAnswer } from "../frame/answer.tsx";
import { visible } from "../frame/text.ts";
import type { TabProps } from "./page.tsx";

export function Settings({ page }: TabProps) {
  const [onlyChanged, setOnlyChanged] = useState(true);
  const [search, setSearch] = useState("");
  const settings = useAnswer((signal) => configuration(onlyChanged ? "diff" : "", { signal }), [onlyChanged, page.runs]);
  const limits = useAnswer((signal) => tenantLimits({ signal }), [page.runs]);
  return (
    <section aria-label="Settings">
      <div class="row">
        <input type="search" placeholder="Search settings" aria-label="Search settings" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <label class="inline"><input type="checkbox" checked={onlyChanged} onChange={() => setOnlyChanged(!onlyChanged)} /> only settings that differ from the defaults</label>
      </div>
      <Progress on={settings.loading || limits.loading} />
      <div class="cards wide">
        <section class="card">
          <h2>Configuration in effect</h2>
          {settings.error ? <Problem error={settings.error} retry={settings.retry} /> : <Yaml text={settings.data ?? ""} search={search} none="All settings have their defaults." />}
        </section>
        <section class="card">
          <h2>Limits of the tenant</h2>
          {limits.error ? <Problem error={limits.error} retry={limits.retry} /> : <Yaml text={limits.data ?? ""} search={search} none="" />}
        </section>
      </div>
    </section>
  );
}

/** The lines of a text that contain what is sought. */
function Yaml({ text, search, none }: { text: string; search: string; none: string }) {
  const lines = visible(text).split("\n").filter((line) => line.toLowerCase().includes(search.toLowerCase()));
  const shown = lines.join("\n").trim();
  return shown === "" || shown === "{}" ? <p class="muted">{search === "" ? none : "Nothing matches."}</p> : <pre class="yaml" tabIndex={0}>{shown}</pre>;
}

// The menu of a query: queries that were asked before, and the query in a readable form.

import { useState } from "preact/hooks";
import { json } from "../api/client.ts";
import { asApiError } from "./answer.tsx";
import { type HistoryOf, earlier, forget } from "./history.ts";
import { useKeys } from "./keys.ts";
import { Popover } from "./popover.tsx";
import { oneLine } from "./text.ts";

interface MenuProps {
  language: HistoryOf;
  /** The text in the editor. */
  text: string;
  onChoose: (query: string) => void;
}

const FORMATS: Partial<Record<HistoryOf, string>> = { promql: "api/v1/format_query", logql: "loki/api/v1/format_query" };

export function QueryMenu(props: MenuProps) {
  const opener = { current: () => {} };
  useKeys([{ key: "q", does: "Earlier queries", run: () => opener.current() }]);
  return (
    <Popover label={<><span class="hidden">Earlier queries</span>▾</>} title="Earlier queries (q)" align="right" opener={opener}>
      {(close) => <Choices {...props} close={close} />}
    </Popover>
  );
}

function Choices({ language, text, onChoose, close }: MenuProps & { close: () => void }) {
  const [search, setSearch] = useState("");
  const [all, setAll] = useState(() => earlier(language));
  const [problem, setProblem] = useState("");
  const found = all.filter((query) => query.toLowerCase().includes(search.toLowerCase()));
  const path = FORMATS[language];
  const choose = (query: string) => {
    close();
    onChoose(query);
  };
  const format = async () => {
    try {
      const { data } = (await json<{ data?: string }>(path ?? "", { query: text })).body;
      if (typeof data === "string") choose(data);
    } catch (error) {
      setProblem(asApiError(error).message);
    }
  };
  return (
    <div class="query-menu stack">
      <input type="search" placeholder="Search earlier queries" aria-label="Search earlier queries" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      <ul>
        {found.map((query) => <li key={query}><button class="quiet" title={oneLine(query, 1000)} onClick={() => choose(query)}><code>{oneLine(query, 200)}</code></button></li>)}
      </ul>
      {found.length === 0 && <p class="muted">{all.length === 0 ? "No earlier queries in this browser." : "Nothing matches."}</p>}
      <div class="choice">
        {path !== undefined && text.trim() !== "" && <button onClick={() => void format()}>Format the query</button>}
        {all.length > 0 && <button onClick={() => (forget(language), setAll([]))}>Forget them</button>}
      </div>
      {problem !== "" && <p class="wrong" role="status">{oneLine(problem, 300)}</p>}
    </div>
  );
}

// Adds the queries of a page as a panel to a dashboard of this browser.

import { useState } from "preact/hooks";
import { Dialog } from "../frame/dialog.tsx";
import { shared } from "../frame/frame.tsx";
import { oneLine } from "../frame/text.ts";
import { here, link, show } from "../frame/url.ts";
import { type Kind, type Language, emptyDashboard, isOwn, withPanel } from "./model.ts";
import { keep, keptDashboards, keptText } from "./store.ts";

export interface NewPanel {
  language: Language;
  queries: string[];
  kind: Kind;
}

const NEW = "";

export default function AddPanel({ panel, onClose }: { panel: NewPanel; onClose: () => void }) {
  const offered = keptDashboards().filter(({ id }) => isOwn(keptText(id) ?? ""));
  const [id, setId] = useState(offered[0]?.id ?? NEW);
  const [name, setName] = useState("");
  const [title, setTitle] = useState(oneLine(panel.queries[0] ?? "", 60));
  const [problem, setProblem] = useState("");
  const add = (event: Event) => {
    event.preventDefault();
    try {
      const source = id === NEW ? emptyDashboard(name.trim() || "New dashboard") : (keptText(id) ?? emptyDashboard("New dashboard"));
      const queries = panel.queries.map((query) => ({ language: panel.language, query }));
      const changed = withPanel(source, { title, kind: panel.kind, queries });
      const kept = keep(changed, id === NEW ? undefined : id);
      onClose();
      show(link("dashboards", { ...shared(here().params), d: kept }));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <Dialog title="Add to a dashboard" onClose={onClose}>
      <form class="stack" onSubmit={add}>
        <label>
          Dashboard
          <select value={id} onChange={(event) => setId(event.currentTarget.value)}>
            {offered.map((one) => <option key={one.id} value={one.id}>{oneLine(one.title, 80)}</option>)}
            <option value={NEW}>a new one</option>
          </select>
        </label>
        {id === NEW && <label>Its name <input value={name} placeholder="New dashboard" onInput={(event) => setName(event.currentTarget.value)} /></label>}
        <label>Title of the panel <input value={title} onInput={(event) => setTitle(event.currentTarget.value)} /></label>
        <p class="wrong" role="status">{oneLine(problem, 300)}</p>
        <button class="primary">Add</button>
      </form>
    </Dialog>
  );
}

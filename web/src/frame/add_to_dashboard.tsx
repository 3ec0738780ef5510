// The button that adds the queries of a page to a dashboard. The code of the dialog is loaded when needed.

import type { ComponentType } from "preact";
import { useState } from "preact/hooks";
import type { NewPanel } from "../dashboards/add_panel.tsx";

type Dialog = ComponentType<{ panel: NewPanel; onClose: () => void }>;

export function AddToDashboard({ panel }: { panel: NewPanel }) {
  const [Shown, setShown] = useState<Dialog | null>(null);
  const open = () => void import("../dashboards/add_panel.tsx").then((module) => setShown(() => module.default), () => {});
  return (
    <>
      <button class="quiet" title="Add to a dashboard" onClick={open}>Add to a dashboard</button>
      {Shown && <Shown panel={panel} onClose={() => setShown(null)} />}
    </>
  );
}

// The lines of a stream before and after one of its lines.

import { Dialog } from "../frame/dialog.tsx";
import { Progress } from "../frame/answer.tsx";
import type { Span } from "../frame/time.ts";
import { Detail } from "./detail.tsx";
import { LogList } from "./list.tsx";
import { useWindow } from "./use_window.ts";
import { useMemo } from "preact/hooks";

const HOURS_MS = 6 * 3_600_000;

/** The stream and the line, as they stand in the URL: nanoseconds, then the selector. */
export function contextText(ns: string, selector: string): string {
  return `${ns} ${selector}`;
}

interface ContextProps {
  text: string;
  zone: string;
  onClose: () => void;
}

export function Context({ text, zone, onClose }: ContextProps) {
  const blank = text.indexOf(" ");
  const ns = /^\d{10,19}$/.test(text.slice(0, blank)) ? text.slice(0, blank) : "0";
  const selector = text.slice(blank + 1);
  const ms = Number(ns.slice(0, -6));
  const span = useMemo<Span>(() => ({ start: ms - HOURS_MS, end: ms + HOURS_MS }), [ms]);
  const { window, loading } = useWindow(selector, span, "oldest", ns, 0, true);
  const rows = window?.rows ?? [];
  const end = (side: "older" | "newer", done: string) =>
    window && { state: window.sides[side], load: () => void window.load(side), done };
  return (
    <Dialog title="Lines before and after" wide onClose={onClose}>
      <p class="context-stream"><code>{selector}</code></p>
      <Progress on={loading} />
      <div class="context-list">
        <LogList
          rows={rows}
          zone={zone}
          columns={[]}
          wrap={false}
          sought={null}
          label="Lines of this stream"
          top={end("older", "No older lines within six hours.")}
          bottom={end("newer", "No newer lines within six hours.")}
          marked={rows.find((row) => row.ns === ns)?.id}
          detail={(row) => (
            <Detail row={row} query={selector} span={span} zone={zone} columns={[]} onFilter={() => {}} onColumn={() => {}} onContext={null} />
          )}
        />
      </div>
    </Dialog>
  );
}

// The places of panels in the grid, and panels that are repeated for the values of a variable.

import type { Panel, Section } from "./model.ts";
import { type Scope, withOne } from "./substitution.ts";

export const COLUMNS = 24;
/** Height of a row of the grid and of the gap between rows, in pixels. */
export const ROW = 30;
export const GAP = 8;
/** Values for which a panel or a row is repeated at most. */
export const REPEATS_MAX = 40;
/** Panels of a dashboard that are shown at most, repeated ones included. */
export const PLACED_MAX = 1000;
const PER_ROW = 4;

export interface Placed {
  panel: Panel;
  scope: Scope;
  key: string;
}

export interface PlacedSection {
  title: string;
  isClosed: boolean;
  key: string;
  panels: Placed[];
}

/** Sections with the panels at their places; rows begin at the top of their section. Ends at `PLACED_MAX`. */
export function placed(sections: Section[], scope: Scope): { sections: PlacedSection[]; isCut: boolean } {
  const found: PlacedSection[] = [];
  let room = PLACED_MAX;
  for (const [n, section] of sections.entries()) {
    for (const value of section.repeat === "" ? [null] : repeatsOf(section.repeat, scope)) {
      const own = value === null ? scope : withOne(scope, section.repeat, value);
      const panels = panelsOf(section, own, room + 1);
      if (panels.length > room) {
        found.push({ title: section.title, isClosed: section.isClosed, key: `${n} ${value ?? ""}`, panels: panels.slice(0, room) });
        return { sections: found, isCut: true };
      }
      room -= panels.length;
      found.push({ title: section.title, isClosed: section.isClosed, key: `${n} ${value ?? ""}`, panels });
    }
  }
  return { sections: found, isCut: false };
}

function repeatsOf(name: string, scope: Scope): (string | null)[] {
  const values = scope.get(name)?.values ?? [];
  return values.length === 0 ? [null] : values.slice(0, REPEATS_MAX);
}

function panelsOf(section: Section, scope: Scope, most: number): Placed[] {
  const top = Math.min(...section.panels.map(({ at }) => at.y));
  const ordered = section.panels.map((panel, n) => ({ panel, n })).sort((a, b) => a.panel.at.y - b.panel.at.y || a.panel.at.x - b.panel.at.x);
  let shift = 0;
  let pushedFrom = -1;
  let pushed = 0;
  const found: Placed[] = [];
  for (const { panel, n } of ordered) {
    if (found.length >= most) break;
    // Rows of repeated panels move what is below them.
    if (panel.at.y > pushedFrom) [shift, pushed] = [shift + pushed, 0];
    const at = { ...panel.at, y: panel.at.y - top + shift };
    const values = panel.repeat === "" ? [null] : repeatsOf(panel.repeat, scope);
    if (values.length === 1 && values[0] === null) {
      found.push({ panel: { ...panel, at }, scope, key: String(n) });
      continue;
    }
    const perRow = Math.min(PER_ROW, values.length);
    const w = Math.floor(COLUMNS / perRow);
    values.forEach((value, place) => {
      const here = { x: (place % perRow) * w, y: at.y + Math.floor(place / perRow) * at.h, w, h: at.h };
      found.push({ panel: { ...panel, at: here }, scope: withOne(scope, panel.repeat, value ?? ""), key: `${n} ${value}` });
    });
    pushedFrom = panel.at.y;
    pushed = Math.max(pushed, (Math.ceil(values.length / perRow) - 1) * at.h);
  }
  return found;
}

// Labels and annotations as text, and as a table in which addresses are links.

import type { Labels } from "../api/rules.ts";
import { oneLine, visible } from "../frame/text.ts";

const SHOWN_MAX = 60;

/** `name="value"` of all labels on one line. */
export function labelText(labels: Labels, except: string[] = []): string {
  const shown = Object.entries(labels).filter(([name]) => !except.includes(name));
  return shown.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" ");
}

/** Only addresses of these schemes become links, so that no text can run. */
function address(text: string): string | null {
  if (!/^https?:\/\/\S+$/i.test(text)) return null;
  try {
    return new URL(text).href;
  } catch {
    return null;
  }
}

export function Pairs({ title, pairs }: { title: string; pairs: Labels | undefined }) {
  const all = Object.entries(pairs ?? {});
  if (all.length === 0) return null;
  return (
    <table class="fields">
      <caption class="hidden">{title}</caption>
      <tbody>
        {all.slice(0, SHOWN_MAX).map(([name, value]) => {
          const url = address(value);
          return (
            <tr key={name}>
              <th scope="row"><bdi>{oneLine(name, 200)}</bdi></th>
              <td class="value">{url === null ? <bdi>{visible(value.slice(0, 4000))}</bdi> : <a href={url} target="_blank" rel="noopener noreferrer"><bdi>{oneLine(value, 1000)}</bdi></a>}</td>
            </tr>
          );
        })}
        {all.length > SHOWN_MAX && <tr><td colSpan={2} class="muted">and {all.length - SHOWN_MAX} more</td></tr>}
      </tbody>
    </table>
  );
}

// The tree of a query with the cost of each part.
//
// Each part is asked by itself, one after the other, so the cost of a part contains those of the parts below it.
//
// Invariant: costs are shown only for the query that they were asked for.

import { useState } from "preact/hooks";
import { ApiError } from "../api/client.ts";
import { type Answered, Problem, Progress, asApiError, useAnswer } from "./answer.tsx";
import { oneLine, plural } from "./text.ts";
import { length } from "./time.ts";
import { follow } from "./url.ts";

/** Levels of a tree that are indented. */
const DEPTH_MAX = 12;

export interface TreePart {
  text: string;
  title: string;
  depth: number;
}

export interface PartCost {
  /** Seconds of the execution; `null` if they are not known. */
  seconds: number | null;
  /** Texts of the further columns. */
  cells: string[];
  error: string;
}

export interface Tree<P extends TreePart> {
  parts: P[];
  costs: readonly PartCost[];
  hasMore: boolean;
  answer: Answered<unknown>;
}

/** The parts of a query. */
export interface Parts<P extends TreePart> {
  parts: P[];
  hasMore: boolean;
}

/** Finds the parts, then asks for the cost of each. What is known of another `key` is not shown. */
export function useTree<P extends TreePart>(
  key: string,
  find: (signal: AbortSignal) => Promise<Parts<P>> | Parts<P>,
  ask: (part: P, signal: AbortSignal) => Promise<PartCost>,
  deps: unknown[],
): Tree<P> {
  const [known, setKnown] = useState<Parts<P> & { key: string; costs: PartCost[] }>({ key, parts: [], hasMore: false, costs: [] });
  const answer = useAnswer(
    async (signal) => {
      const found = await find(signal);
      const costs: PartCost[] = [];
      const show = () => !signal.aborted && setKnown({ key, ...found, costs: [...costs] });
      show();
      for (const part of found.parts) {
        costs.push(await ask(part, signal));
        show();
      }
      return true;
    },
    [key, ...deps],
  );
  const { parts, hasMore, costs } = known.key === key ? known : { parts: [], hasMore: false, costs: [] };
  return { parts, hasMore, costs, answer };
}

/** The failure of a part as its cost. A server that is away is asked again for all parts. */
export function failureOf(error: unknown): ApiError {
  const failure = asApiError(error);
  if (!(error instanceof ApiError) || failure.status === 0 || failure.status === 503) throw error;
  return failure;
}

interface Props<P extends TreePart> {
  tree: Tree<P>;
  /** Names of the columns after the part and its time. */
  columns: string[];
  /** The address of a part; `null` if it is no query of its own. */
  url: (part: P) => string | null;
  note: string;
}

export function QueryTree<P extends TreePart>({ tree: { parts, costs, hasMore, answer }, columns, url, note }: Props<P>) {
  const most = Math.max(1e-9, ...costs.map(({ seconds }) => seconds ?? 0));
  const status = answer.loading ? `${costs.length} of ${plural(parts.length, "part")} asked. Escape stops.` : answer.cancelled ? `Stopped after ${plural(costs.length, "part")}.` : parts.length === 0 ? "" : note;
  return (
    <section class="query-tree" aria-label="Parts of the query">
      <Progress on={answer.loading} />
      {answer.error && <Problem error={answer.error} retry={answer.retry} />}
      {parts.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Tree with costs">
          <table class="data">
            <thead>
              <tr><th>Part</th><th>Time</th><th class="number">Took</th>{columns.map((name) => <th key={name} class="number">{name}</th>)}</tr>
            </thead>
            <tbody>{parts.map((part, n) => <PartRow key={n} part={part} url={url(part)} cost={costs[n] ?? null} most={most} columns={columns} />)}</tbody>
          </table>
        </div>
      )}
      <p class="muted pad" role="status">
        {status}
        {hasMore && ` Only the first ${plural(parts.length, "part")} are shown.`}
      </p>
    </section>
  );
}

interface RowProps {
  part: TreePart;
  url: string | null;
  cost: PartCost | null;
  most: number;
  columns: string[];
}

function PartRow({ part, url, cost, most, columns }: RowProps) {
  const seconds = cost?.seconds ?? null;
  const title = <code>{oneLine(part.title, 300)}</code>;
  return (
    <tr>
      <td class="query">
        <span class="tree-part" style={{ "--depth": Math.min(part.depth, DEPTH_MAX) }} title={oneLine(part.text, 2000)}>
          {url === null ? title : <a href={url} onClick={(event) => follow(event, url)}>{title}</a>}
        </span>
        {cost !== null && cost.error !== "" && <p class="wrong">{oneLine(cost.error, 300)}</p>}
      </td>
      <td><span class="tree-time"><span style={{ width: `${((seconds ?? 0) / most) * 100}%` }} /></span></td>
      <td class="number">{seconds === null ? "" : length(seconds * 1000)}</td>
      {columns.map((name, n) => <td key={name} class="number">{cost?.cells[n] ?? ""}</td>)}
    </tr>
  );
}

// The tree of Graphite's paths, read a level at a time.

import { useState } from "preact/hooks";
import { type Node, find } from "../api/graphite.ts";
import { Problem, useAnswer } from "../frame/answer.tsx";
import { count, oneLine } from "../frame/text.ts";

const NODES_MAX = 500;

interface TreeProps {
  runs: number;
  onPath: (path: string) => void;
}

export function Tree({ runs, onPath }: TreeProps) {
  const [search, setSearch] = useState("");
  const isPattern = search.includes(".") || search.includes("*");
  const pattern = search === "" ? "*" : isPattern ? search : `${search}*`;
  return (
    <nav class="metric-names tree" aria-label="Paths">
      <input type="search" placeholder="Search: servers.*.cpu" aria-label="Search paths" value={search} onInput={(event) => setSearch(event.currentTarget.value.trim())} />
      <Level key={`${pattern} ${runs}`} pattern={pattern} onPath={onPath} isFull={isPattern} />
    </nav>
  );
}

function Level({ pattern, onPath, isFull }: { pattern: string; onPath: (path: string) => void; isFull: boolean }) {
  const answer = useAnswer((signal) => find(pattern, { signal }), [pattern]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  const nodes = answer.data ?? [];
  if (answer.error) return <Problem error={answer.error} retry={answer.retry} />;
  if (!answer.data) return <p class="muted pad">Reading …</p>;
  if (nodes.length === 0) return <p class="muted pad">No paths.</p>;
  return (
    <ul>
      {nodes.slice(0, NODES_MAX).map((node) => (
        <li key={`${node.id} ${node.leaf}`}>
          <NodeButton node={node} isOpen={open.has(node.id)} isFull={isFull} onToggle={toggle} onPath={onPath} />
          {open.has(node.id) && !node.leaf && <Level pattern={`${node.id}.*`} onPath={onPath} isFull={false} />}
        </li>
      ))}
      {nodes.length > NODES_MAX && <li class="muted pad">{NODES_MAX} of {count(nodes.length)} nodes; search for others.</li>}
    </ul>
  );
}

interface NodeProps {
  node: Node;
  isOpen: boolean;
  isFull: boolean;
  onToggle: (id: string) => void;
  onPath: (path: string) => void;
}

function NodeButton({ node, isOpen, isFull, onToggle, onPath }: NodeProps) {
  const name = <bdi>{oneLine(isFull ? node.id : node.text, 160)}</bdi>;
  if (node.leaf) return <button class="quiet" title={`Plot ${node.id}`} onClick={() => onPath(node.id)}><span class="leaf" aria-hidden="true" /> {name}</button>;
  return (
    <button class="quiet" aria-expanded={isOpen} onClick={() => onToggle(node.id)}>
      <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> {name}
    </button>
  );
}

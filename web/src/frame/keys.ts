// Keys: parts of the page announce theirs while they are shown, and `?` lists them.
//
// Invariants: keys do nothing while a person types, except Escape. Escape closes what was opened last; if
// nothing is open, it cancels all requests that a person waits for.

import { useEffect, useRef } from "preact/hooks";

export interface Key {
  /** As `KeyboardEvent.key` names it; `g l` is one key after the other. */
  key: string;
  does: string;
  run: () => void;
}

const announced: { current: Key[] }[] = [];
const escapes: { current: () => boolean }[] = [];
const requests: { current: () => boolean }[] = [];
let prefix = "";
let prefixAt = 0;

/** Announces keys while the component is shown. */
export function useKeys(keys: Key[]): void {
  const entry = useRef(keys);
  entry.current = keys;
  useEffect(() => {
    announced.push(entry);
    return () => void announced.splice(announced.indexOf(entry), 1);
  }, []);
}

function useHandler(list: { current: () => boolean }[], handler: () => boolean): void {
  const entry = useRef(handler);
  entry.current = handler;
  useEffect(() => {
    list.push(entry);
    return () => void list.splice(list.indexOf(entry), 1);
  }, []);
}

/** Closes something by Escape while the component is shown; the handler returns whether it was open. */
export function useEscape(handler: () => boolean): void {
  useHandler(escapes, handler);
}

/** Cancels a request by Escape; the handler returns whether there was one. */
export function useCancel(handler: () => boolean): void {
  useHandler(requests, handler);
}

export function announcedKeys(): Key[] {
  return announced.flatMap((entry) => entry.current);
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
}

export function listen(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      const isClosed = [...escapes].reverse().some((entry) => entry.current());
      const isCancelled = !isClosed && requests.map((entry) => entry.current()).includes(true);
      if (isClosed || isCancelled) event.preventDefault();
      return;
    }
    if (isTyping(event)) return;
    const keys = announcedKeys().reverse();
    const both = event.timeStamp - prefixAt < 1500 ? `${prefix} ${event.key}` : "";
    const found = keys.find(({ key }) => key === both) ?? keys.find(({ key }) => key === event.key);
    if (found) {
      event.preventDefault();
      prefix = "";
      found.run();
    } else if (keys.some(({ key }) => key.startsWith(`${event.key} `))) {
      prefix = event.key;
      prefixAt = event.timeStamp;
    }
  });
}

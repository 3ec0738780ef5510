// A button that opens a panel below it; a click elsewhere and Escape close the panel.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useEscape } from "./keys.ts";

interface PopoverProps {
  label: ComponentChildren;
  title: string;
  align?: "left" | "right";
  class?: string;
  /** Receives a function that opens the panel, for a key. */
  opener?: { current: () => void };
  children: (close: () => void) => ComponentChildren;
}

export function Popover(props: PopoverProps) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const close = () => {
    setOpen(false);
    box.current?.querySelector<HTMLElement>("button")?.focus();
  };
  if (props.opener) props.opener.current = () => setOpen(true);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>(".popover input, .popover button, .popover select")?.focus();
    const outside = (event: MouseEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("mousedown", outside);
    return () => removeEventListener("mousedown", outside);
  }, [open]);
  useEscape(() => {
    if (open) close();
    return open;
  });
  return (
    <div class="popover-box" ref={box}>
      <button class={props.class ?? ""} aria-expanded={open} title={props.title} onClick={() => setOpen(!open)}>
        {props.label}
      </button>
      {open && (
        <div class={`popover ${props.align ?? "left"}`} role="group" aria-label={props.title}>
          {props.children(close)}
        </div>
      )}
    </div>
  );
}

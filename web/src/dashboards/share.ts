// A dashboard as a part of a URL: its text, compressed, in letters that URLs permit.
//
// Invariants: a text that comes from a URL has at most `TEXT_MAX` characters after it is expanded.

import { TEXT_MAX } from "./model.ts";

/** Longest parameter; servers and proxies accept at least 8 KiB of a URL. */
export const SHARED_MAX = 6000;

/** The text as a parameter; `null` if it is too long for one. */
export async function packed(source: string): Promise<string | null> {
  const plain = JSON.stringify(JSON.parse(source));
  const stream = new Blob([plain]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  const text = btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  return text.length > SHARED_MAX ? null : text;
}

/** The text of a parameter. Fails with a message for people. */
export async function unpacked(parameter: string): Promise<string> {
  try {
    const binary = atob(parameter.replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return JSON.stringify(JSON.parse(text + decoder.decode()), null, 2);
      text += decoder.decode(value, { stream: true });
      if (text.length > TEXT_MAX) {
        await reader.cancel();
        throw new Error("too long");
      }
    }
  } catch {
    throw new Error("The dashboard in this link cannot be read: the link is cut or damaged.");
  }
}

// The state of a request of a component: answer, failure, progress. The last answer stays visible while
// the next one is awaited, so that nothing jumps.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, isAbort } from "../api/client.ts";
import { useCancel } from "./keys.ts";
import { visible } from "./text.ts";

export interface Answered<T> {
  data: T | null;
  error: ApiError | null;
  loading: boolean;
  cancelled: boolean;
  /** Milliseconds of the last answer, with the network. */
  took: number;
  retry: () => void;
  cancel: () => void;
}

/** Seconds between attempts when the server does not say. */
const RETRY_SECONDS = 3;
const ATTEMPTS_MAX = 40;

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, error instanceof Error ? error.message : String(error));
}

/** Asks when `deps` change; a function that returns `null` asks nothing. Escape cancels. */
export function useAnswer<T>(ask: (signal: AbortSignal) => Promise<T> | null, deps: unknown[]): Answered<T> {
  const [state, setState] = useState<Omit<Answered<T>, "retry" | "cancel">>({
    data: null,
    error: null,
    loading: false,
    cancelled: false,
    took: 0,
  });
  const [attempt, setAttempt] = useState(0);
  const abort = useRef<AbortController | null>(null);
  const attempts = useRef(0);
  useEffect(() => void (attempts.current = 0), deps);

  useEffect(() => {
    const controller = new AbortController();
    abort.current = controller;
    const began = performance.now();
    let timer = 0;
    const asked = ask(controller.signal);
    if (!asked) {
      setState({ data: null, error: null, loading: false, cancelled: false, took: 0 });
      return;
    }
    setState((old) => ({ ...old, loading: true, cancelled: false }));
    asked.then(
      (data) => {
        if (controller.signal.aborted) return;
        attempts.current = 0;
        setState({ data, error: null, loading: false, cancelled: false, took: performance.now() - began });
      },
      (error: unknown) => {
        if (isAbort(error) || controller.signal.aborted) {
          if (abort.current === controller) setState((old) => ({ ...old, loading: false, cancelled: true }));
          return;
        }
        const failure = asApiError(error);
        setState((old) => ({ ...old, error: failure, loading: false, took: performance.now() - began }));
        const isTemporary = failure.status === 503 || failure.status === 0;
        if (isTemporary && attempts.current < ATTEMPTS_MAX) {
          attempts.current += 1;
          const seconds = Math.min(30, failure.retryAfter ?? RETRY_SECONDS);
          timer = window.setTimeout(() => setAttempt((n) => n + 1), seconds * 1000);
        }
      },
    );
    return () => {
      clearTimeout(timer);
      if (abort.current === controller) abort.current = null;
      controller.abort();
    };
  }, [...deps, attempt]);

  const cancel = () => abort.current?.abort();
  useCancel(() => {
    if (!state.loading) return false;
    cancel();
    return true;
  });
  return { ...state, cancel, retry: () => setAttempt((n) => n + 1) };
}

/** A failure, with what a person can do. */
export function Problem({ error, retry, children }: { error: ApiError; retry?: () => void; children?: ComponentChildren }) {
  const isTemporary = error.status === 503 || error.status === 0;
  return (
    <div class="problem" role="alert">
      <strong>{error.status === 0 ? "No answer" : `Error ${error.status}`}</strong>
      <pre>{visible(error.message)}</pre>
      {error.hint !== "" && <p>{error.hint}</p>}
      {isTemporary && retry && <p>The page tries again by itself.</p>}
      {retry && <button onClick={retry}>Try again</button>}
      {children}
    </div>
  );
}

/** A thin line that moves while something is awaited; its place is always kept. */
export function Progress({ on }: { on: boolean }) {
  return <div class={on ? "progress on" : "progress"} aria-hidden="true" />;
}

// Signing in: a token is entered once and exchanged for a cookie that scripts cannot read.

import { useState } from "preact/hooks";
import { ApiError, json, send } from "../api/client.ts";
import { asApiError } from "./answer.tsx";
import { Dialog } from "./dialog.tsx";
import { root } from "./url.ts";

const SESSION = "explore/session";

/** The requests to which the browser shall add the cookie: those to the API of this server. */
function scope(): URLSearchParams {
  return new URLSearchParams({ path: root(), secure: String(location.protocol === "https:") });
}

/** Whether requests need a credential, and which one those of this browser have. */
export type Session = { kind: "none" } | { kind: "signed-in"; credential: string } | { kind: "unknown" };

/** A server that does not answer this may need a token, so the page offers to sign in. */
export async function sessionState(): Promise<Session> {
  try {
    const { credential } = (await json<{ credential: string | null }>(SESSION, {}, { isProbe: true })).body;
    return typeof credential === "string" ? { kind: "signed-in", credential } : { kind: "none" };
  } catch {
    return { kind: "unknown" };
  }
}

/** Ends the session of this browser. */
export async function signOut(): Promise<void> {
  await send(SESSION, scope(), { method: "DELETE" });
}

export function SignIn({ onDone, onClose }: { onDone: () => void; onClose: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const headers = { Authorization: `Bearer ${token.trim()}` };
      await send(SESSION, scope(), { method: "POST", headers });
      onDone();
    } catch (failure) {
      setError(asApiError(failure));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Sign in" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <p>This server requires a token (error 401). It is kept as a cookie until you sign out or close the browser; pages cannot read it.</p>
        <label>
          Token
          <input
            type="password"
            autocomplete="current-password"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <p class="wrong" role="status">{error ? `${error.status || "No answer"}: ${error.message}` : ""}</p>
        <p class="muted">
          <code>sandur token create --tenant NAME --scopes read --name ME</code> makes one.
        </p>
        <button class="primary" disabled={busy || token.trim() === ""}>Sign in</button>
      </form>
    </Dialog>
  );
}

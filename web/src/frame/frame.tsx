// The frame around every route: navigation, time range, settings, help, and signing in.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { onRefused } from "../api/client.ts";
import { Dialog } from "./dialog.tsx";
import { announcedKeys, useKeys } from "./keys.ts";
import { Popover } from "./popover.tsx";
import { RangePicker } from "./range_picker.tsx";
import { type Session, SignIn, sessionState, signOut } from "./session.tsx";
import { oneLine } from "./text.ts";
import { type Theme, applyTheme, chooseTheme, chosenTheme } from "./theme.ts";
import { LOCAL, type Range, type Span, isZone, span, zoneName } from "./time.ts";
import { type Changes, type Place, ROUTES, type RouteName, change, follow, link, show, usePlace } from "./url.ts";

/** What a route gets from the frame. */
export interface Page {
  place: Place;
  range: Range;
  /** The range as instants; `now` is the time of the last run. */
  span: Span;
  zone: string;
  /** Number of runs: a query is asked again when it changes. */
  runs: number;
  run: () => void;
  setRange: (range: Range) => void;
}

const NAMES: Record<RouteName, string> = {
  logs: "Logs",
  metrics: "Metrics",
  graphite: "Graphite",
  alerts: "Alerts",
  dashboards: "Dashboards",
  machine: "Machine",
};
/** The second key of `g` and a letter. */
const LETTERS: Record<RouteName, string> = { logs: "l", metrics: "m", graphite: "g", alerts: "a", dashboards: "d", machine: "s" };
/** Parameters that every route has; links between routes keep them. */
const SHARED = ["from", "to", "tz", "tenant"];
const DEFAULT_RANGE: Range = { from: "now-1h", to: "now" };

export function shared(params: URLSearchParams): Changes {
  return Object.fromEntries(SHARED.map((name) => [name, params.get(name)]));
}

export function Frame({ children }: { children: (page: Page) => ComponentChildren }) {
  const place = usePlace();
  const [runs, setRuns] = useState(0);
  const [help, setHelp] = useState(false);
  const [signIn, setSignIn] = useState(false);
  const zoneGiven = place.params.get("tz") ?? LOCAL;
  const zone = isZone(zoneGiven) ? zoneGiven : LOCAL;
  const from = place.params.get("from") ?? DEFAULT_RANGE.from;
  const to = place.params.get("to") ?? DEFAULT_RANGE.to;
  const range = useMemo(() => ({ from, to }), [from, to]);
  const resolved = useMemo(() => span(range, Date.now(), zone), [range, zone, runs]);
  const run = () => setRuns((n) => n + 1);
  const setRange = (chosen: Range) => change({ from: chosen.from, to: chosen.to, at: null });

  useEffect(() => onRefused(() => setSignIn(true)), []);
  useEffect(() => {
    document.title = `${NAMES[place.route]} · Sandur`;
  }, [place.route]);
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const listener = () => applyTheme(chosenTheme());
    system.addEventListener("change", listener);
    return () => system.removeEventListener("change", listener);
  }, []);
  useKeys([
    { key: "?", does: "Show the keys", run: () => setHelp(true) },
    { key: "r", does: "Run the query again", run },
    { key: "/", does: "Go to the query", run: focusEditor },
    ...ROUTES.map((route) => ({
      key: `g ${LETTERS[route]}`,
      does: `Go to ${NAMES[route]}`,
      run: () => show(link(route, shared(place.params))),
    })),
  ]);

  return (
    <>
      <header class="top">
        <a class="brand" href={link("logs", shared(place.params))} onClick={(event) => follow(event, link("logs", shared(place.params)))}>
          <img src="icon.svg" width="18" height="18" alt="" /> <span>Sandur</span>
        </a>
        <nav aria-label="Routes">
          {ROUTES.map((route) => {
            const url = link(route, shared(place.params));
            const isHere = route === place.route;
            return (
              <a key={route} href={url} aria-current={isHere ? "page" : undefined} onClick={(event) => follow(event, url)}>
                {NAMES[route]}
              </a>
            );
          })}
        </nav>
        <div class="top-right">
          <RangePicker range={range} span={resolved} zone={zone} onChange={setRange} />
          <Popover label={<span aria-label="Settings">⚙</span>} title="Settings" align="right" class="quiet">
            {() => <Settings place={place} zone={zone} onHelp={() => setHelp(true)} onSignIn={() => setSignIn(true)} onRun={run} />}
          </Popover>
        </div>
      </header>
      <main>
        <h1 class="hidden">{NAMES[place.route]}</h1>
        {children({ place, range, span: resolved, zone, runs, run, setRange })}
      </main>
      {help && <Keys onClose={() => setHelp(false)} />}
      {signIn && (
        <SignIn
          onClose={() => setSignIn(false)}
          onDone={() => {
            setSignIn(false);
            run();
          }}
        />
      )}
    </>
  );
}

/** The focus goes to the first editor of the page. */
function focusEditor(): void {
  const root = document.querySelector(".editor")?.shadowRoot;
  root?.querySelector<HTMLElement>(".cm-content")?.focus();
}

interface SettingsProps {
  place: Place;
  zone: string;
  onHelp: () => void;
  onSignIn: () => void;
  onRun: () => void;
}

function Settings({ place, zone, onHelp, onSignIn, onRun }: SettingsProps) {
  const [theme, setTheme] = useState<Theme>(chosenTheme());
  const [tenant, setTenant] = useState(place.params.get("tenant") ?? "");
  const [zoneText, setZoneText] = useState(zone);
  const [session, setSession] = useState<Session | null>(null);
  useEffect(() => void sessionState().then(setSession), []);
  const zones = useMemo(() => Intl.supportedValuesOf("timeZone"), []);
  const choose = (chosen: Theme) => {
    setTheme(chosen);
    chooseTheme(chosen);
  };
  const themes: [Theme, string][] = [["system", "System"], ["light", "Light"], ["dark", "Dark"]];
  return (
    <div class="settings stack">
      <fieldset>
        <legend>Theme</legend>
        <div class="choice">
          {themes.map(([value, name]) => (
            <label key={value}>
              <input type="radio" name="theme" checked={theme === value} onChange={() => choose(value)} /> {name}
            </label>
          ))}
        </div>
      </fieldset>
      <fieldset>
        <legend>Time zone</legend>
        <div class="choice">
          <button class={zone === LOCAL ? "chosen" : ""} onClick={() => change({ tz: null }, "replace")}>{zoneName(LOCAL)}</button>
          {zoneName(LOCAL) !== "UTC" && <button class={zone === "UTC" ? "chosen" : ""} onClick={() => change({ tz: "UTC" }, "replace")}>UTC</button>}
        </div>
        <label>
          Another zone
          <input
            list="zones"
            value={zoneText === LOCAL ? "" : zoneText}
            onInput={(event) => {
              setZoneText(event.currentTarget.value);
              if (zones.includes(event.currentTarget.value)) change({ tz: event.currentTarget.value }, "replace");
            }}
          />
          <datalist id="zones">{zones.map((name) => <option key={name} value={name} />)}</datalist>
        </label>
      </fieldset>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change({ tenant: tenant.trim() === "" ? null : tenant.trim() });
          onRun();
        }}
      >
        <label>
          Tenant (X-Scope-OrgID)
          <input value={tenant} placeholder="that of the token, or fake" onInput={(event) => setTenant(event.currentTarget.value)} />
        </label>
        <button>Use this tenant</button>
      </form>
      <div class="choice">
        <button onClick={onHelp}>Keys</button>
        {session?.kind === "unknown" && <button onClick={onSignIn}>Sign in</button>}
        {session?.kind === "signed-in" && <button onClick={onSignIn}>Use another token</button>}
        {session?.kind === "signed-in" && <button onClick={() => void signOut().then(onRun, onRun)}>Sign out</button>}
      </div>
      {session?.kind === "signed-in" && <p class="muted">Signed in: <bdi>{oneLine(session.credential, 80)}</bdi></p>}
      {session?.kind === "none" && <p class="muted">This server requires no credentials.</p>}
    </div>
  );
}

function Keys({ onClose }: { onClose: () => void }) {
  const names: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑" };
  const seen = new Set<string>();
  const keys = announcedKeys().filter(({ key }) => !seen.has(key) && seen.add(key));
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table class="keys">
        <tbody>
          {keys.map(({ key, does }) => (
            <tr key={key}>
              <td>{key.split(" ").map((part) => <kbd key={part}>{names[part] ?? part}</kbd>)}</td>
              <td>{does}</td>
            </tr>
          ))}
          <tr>
            <td><kbd>Esc</kbd></td>
            <td>Close what is open, or cancel the query, also on the server</td>
          </tr>
          <tr>
            <td><kbd>Enter</kbd> <kbd>Shift</kbd>+<kbd>Enter</kbd></td>
            <td>In a query: run it; a new line</td>
          </tr>
        </tbody>
      </table>
    </Dialog>
  );
}

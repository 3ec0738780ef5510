// What a person sees when something fails: 401, a wrong token, 403, 503, a cut answer, a slow query that is
// cancelled.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";
import { startProxy } from "../proxy.mjs";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";


export async function walk(tools) {
  await credentials(tools);
  await tenants(tools);
  await outages(tools);
}

/** A server that requires a tenant says so, and the page takes one. */
async function tenants({ server, person }) {
  const sandur = await server("--auth-require-tenant", "true");
  await sandur.push({ app: "x" }, [[Date.now() - 1000, "a line of team a"]], { "x-scope-orgid": "team-a" });
  const member = await person();
  member.expect(/401/);
  await member.open(`${sandur.url}/explore/logs`);
  await member.sees("Name a tenant in the settings");
  isTrue((await member.count("dialog")) === 0, "no token is asked for");
  await member.press("⚙");
  await member.click('[placeholder^="that of the token"]');
  await member.page.keyboard.type("team-a");
  await member.key("Enter");
  await member.press("x");
  await member.sees("a line of team a");
  equal(member.params().get("tenant"), "team-a", "the tenant in the address");
  await member.press("● Live");
  await member.sees("a line of team a", ".log-list");
}

async function credentials({ server, person, onEnd }) {
  const folder = await mkdtemp(join(tmpdir(), "sandur-auth-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "auth.toml");
  const entry = (name, scopes) => `[tokens.${name}]\nhash = "sha256:${createHash("sha256").update(name).digest("hex")}"\ntenants = ["team"]\nscopes = [${scopes}]\n`;
  await writeFile(file, entry("reader-token", '"read"') + entry("writer-token", '"write"'));
  const sandur = await server("--auth-file", file);
  await sandur.push({ app: "x" }, [[Date.now() - 1000, "a line behind a token"]], { authorization: "Bearer writer-token" });

  const reader = await person();
  reader.expect(/401|403/);
  await reader.open(`${sandur.url}/`);
  await reader.sees("Sign in");
  await reader.sees("error 401");
  await reader.click('input[type="password"]');
  await reader.page.keyboard.type("wrong");
  await reader.key("Enter");
  await reader.sees("unknown token");
  await reader.page.$eval('input[type="password"]', (input) => input.select());
  await reader.page.keyboard.type("reader-token");
  await reader.key("Enter");
  await until("the dialog to close", async () => (await reader.count("dialog")) === 0);
  await reader.press("x");
  await reader.sees("a line behind a token");
  equal(await reader.page.evaluate(() => document.cookie), "", "scripts cannot read the session");

  // The session survives a reload, and the live tail uses it too.
  await reader.page.reload();
  await reader.sees("a line behind a token");
  await reader.press("● Live");
  await reader.sees("Live", ".status");
  await reader.sees("a line behind a token", ".log-list");

  // The settings name the credential and offer to end the session.
  await reader.press("⚙");
  await reader.sees("Signed in: token reader-token", ".settings");
  await reader.sees("Sign out", ".settings");
  await reader.key("Escape");

  // A scope that the token lacks is named.
  await reader.open(`${sandur.url}/explore/machine?tab=settings`);
  await reader.sees("no scope 'admin'");

  // Another page of this machine cannot use the session.
  const foreign = await startProxy({ target: sandur.url, behaviour: () => ({ status: 200, headers: { "content-type": "text/html" }, body: "<p>another site" }) });
  onEnd(foreign.close);
  const visitor = await reader.context.newPage();
  await visitor.goto(foreign.url);
  const tried = await visitor.evaluate(async (url) => {
    const out = [];
    const soon = (promise) => Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve("no answer"), 2000))]);
    for (const init of [{ credentials: "include" }, { credentials: "include", headers: { "x-sandur-explorer": "1" } }, { credentials: "include", mode: "no-cors" }]) {
      out.push(await soon(fetch(`${url}/loki/api/v1/labels`, init).then((answer) => `${answer.type} ${answer.status}`, () => "refused")));
    }
    const socket = new WebSocket(`${url.replace("http", "ws")}/loki/api/v1/tail?query=%7Bapp%3D%22x%22%7D`);
    out.push(await soon(new Promise((resolve) => { socket.onopen = () => resolve("open"); socket.onerror = () => resolve("refused"); })));
    const frame = document.createElement("iframe");
    frame.src = `${url}/explore/logs`;
    document.body.append(frame);
    await new Promise((resolve) => { frame.onload = resolve; setTimeout(resolve, 2000); });
    let inside = "hidden";
    try { inside = frame.contentDocument.body.innerText; } catch { /* The browser shows its own page. */ }
    out.push(inside === "hidden" || inside === "" ? "hidden" : inside);
    return out;
  }, sandur.url);
  // The browser may wait for a password instead of an answer, since the server refuses the request.
  const harmless = ["refused", "no answer", "opaque 0", "hidden"];
  isTrue(tried.every((result) => harmless.includes(result)), `a foreign page got ${JSON.stringify(tried)}`);
  await visitor.close();
}

async function outages({ server, person, onEnd }) {
  const sandur = await server();
  await sandur.push({ app: "x" }, [[Date.now() - 1000, "a line in bad weather"]]);
  let fault = null;
  const proxy = await startProxy({ target: sandur.url, prefix: "/below/a/prefix", behaviour: (path) => (path.startsWith("/loki") ? fault : null) });
  onEnd(proxy.close);
  const sailor = await person();
  sailor.expect(/503|Failed to load|ERR_/);

  // The page works below a prefix, and goes on by itself after 503.
  fault = { status: 503, body: "the view is too old", headers: { "retry-after": "1" } };
  await sailor.open(`${proxy.url}/explore/logs`);
  await sailor.sees("the view is too old");
  await sailor.sees("tries again by itself");
  fault = null;
  await sailor.sees("All lines");

  fault = { status: 503, body: "the view is too old", headers: { "retry-after": "1" } };
  await sailor.write('{app="x"}');
  await sailor.key("Escape");
  await sailor.press("Run");
  await sailor.sees("the view is too old");
  fault = { cut: 40 };
  await sailor.press("Try again");
  await sailor.sees(/cut before its end|No answer/);
  fault = null;
  await sailor.press("Try again");
  await sailor.sees("a line in bad weather");

  // A slow query is cancelled by Escape.
  fault = { delay: 60_000 };
  await sailor.page.evaluate(() => document.activeElement?.blur());
  await sailor.key("r");
  await sailor.sees("Cancel (Esc)");
  await sailor.key("Escape");
  await sailor.sees("Cancelled");
  fault = null;
  await sailor.press("Run again");
  await sailor.sees("a line in bad weather");
  isTrue(sailor.page.url().includes("/below/a/prefix/explore/logs"), "the prefix is kept");
}

// A real server for journeys, on a directory of its own and a free port.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A port that was free a moment ago. */
function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Waits until `check` returns something; fails with `what` after a time. */
export async function until(what, check, timeout = 15_000) {
  const end = Date.now() + timeout;
  let last;
  for (;;) {
    try {
      const found = await check();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited ${timeout} ms for ${what}${last ? `: ${last.message}` : ""}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

export class Server {
  /** Starts a server; `options` are options of `sandur serve`. */
  static async start(binary, options = []) {
    const server = new Server();
    server.binary = binary;
    server.options = options;
    server.folder = await mkdtemp(join(tmpdir(), "sandur-web-"));
    server.port = await freePort();
    server.url = `http://127.0.0.1:${server.port}`;
    await server.run();
    return server;
  }

  async run() {
    const options = ["serve", "--store", join(this.folder, "store"), "--listen", `127.0.0.1:${this.port}`, ...this.options];
    this.log = "";
    this.child = spawn(this.binary, options, { stdio: ["ignore", "ignore", "pipe"] });
    this.child.stderr.on("data", (text) => (this.log = (this.log + text).slice(-20_000)));
    this.ended = new Promise((resolve) => this.child.on("exit", resolve));
    let exited = null;
    this.ended.then((code) => (exited = code));
    await until("the server", async () => exited !== null || (await fetch(`${this.url}/ready`)).ok, 60_000).catch((error) => {
      throw new Error(`${error.message}\n${this.log}`);
    });
    if (exited !== null) throw new Error(`the server ended with ${exited}: ${this.log}`);
  }

  async stop() {
    this.child.kill("SIGTERM");
    await this.ended;
  }

  async close() {
    await this.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  async post(path, body, headers = {}) {
    const answer = await fetch(this.url + path, { method: "POST", body, headers });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }

  /** Stores lines of a stream: `[milliseconds, text]` each. */
  async push(labels, lines, headers = {}) {
    const values = lines.map(([ms, line, metadata]) => {
      const ns = typeof ms === "string" ? ms : `${ms}000000`;
      return metadata ? [ns, line, metadata] : [ns, line];
    });
    const body = JSON.stringify({ streams: [{ stream: labels, values }] });
    await this.post("/loki/api/v1/push", body, { "content-type": "application/json", ...headers });
  }

  /** Stores samples of Prometheus's text format. */
  async samples(text, headers = {}) {
    await this.post("/api/v1/import/prometheus", text, { "content-type": "text/plain", ...headers });
  }

  async metric(name) {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split("\n").find((found) => found.startsWith(`${name} `));
    return line ? Number(line.split(" ")[1]) : 0;
  }
}

// A proxy in front of a server, for journeys: serves it below a prefix, takes the files of the page from
// `dist/`, delays or fails requests.
//
//     node test/proxy.mjs http://127.0.0.1:3100 8080 /sandur

import { createServer, request } from "node:http";
import { connect } from "node:net";
import { readFile } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const KINDS = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
const DOCUMENTS = ["logs", "metrics", "graphite", "alerts", "dashboards", "machine"];

/**
 * Starts a proxy. `behaviour(path)` may return `{ status, body, headers }` to answer instead of the server,
 * `{ cut: bytes }` to end an answer early, or `{ delay: ms }`; with `files`, pages come from `dist/`.
 */
export function startProxy({ target, prefix = "", files = false, port = 0, behaviour = () => null }) {
  const upstream = new URL(target);
  const sockets = new Set();
  const server = createServer(async (asked, answer) => {
    const path = asked.url.startsWith(prefix) ? asked.url.slice(prefix.length) : null;
    if (path === null) return answer.writeHead(404).end("outside of the prefix");
    const special = behaviour(path, asked) ?? {};
    if (special.delay) await new Promise((resolve) => setTimeout(resolve, special.delay));
    if (special.status) return answer.writeHead(special.status, special.headers ?? {}).end(special.body ?? "");
    if (files && path.startsWith("/explore/") && asked.method === "GET") {
      const wanted = path.slice("/explore/".length).split("?")[0];
      const name = DOCUMENTS.includes(wanted) ? "index.html" : normalize(wanted);
      const content = await readFile(join(DIST, name)).catch(() => null);
      if (content) return answer.writeHead(200, { "content-type": KINDS[name.split(".").at(-1)] ?? "text/plain" }).end(content);
    }
    const headers = { ...asked.headers, host: upstream.host };
    if (headers.origin) headers.origin = upstream.origin;
    const onward = request({ host: upstream.hostname, port: upstream.port, path, method: asked.method, headers }, (back) => {
      answer.writeHead(back.statusCode, back.headers);
      if (special.cut === undefined) return back.pipe(answer);
      back.once("data", (part) => answer.write(part.subarray(0, special.cut), () => answer.destroy()));
    });
    onward.on("error", () => answer.headersSent ? answer.destroy() : answer.writeHead(502).end("no upstream"));
    answer.on("close", () => onward.destroy());
    asked.pipe(onward);
  });
  server.on("upgrade", (asked, socket, head) => {
    const path = asked.url.slice(prefix.length);
    const onward = connect(Number(upstream.port), upstream.hostname, () => {
      const headers = { ...asked.headers, host: upstream.host, ...(asked.headers.origin ? { origin: upstream.origin } : {}) };
      onward.write(`${asked.method} ${path} HTTP/1.1\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\r\n")}\r\n\r\n`);
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    onward.on("error", () => socket.destroy());
    socket.on("error", () => onward.destroy());
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => {
      const url = `http://127.0.0.1:${server.address().port}${prefix}`;
      const close = () => {
        for (const socket of sockets) socket.destroy();
        return new Promise((done) => server.close(done));
      };
      resolve({ url, close });
    });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [target, port, prefix] = process.argv.slice(2);
  const { url } = await startProxy({ target, port: Number(port), prefix: prefix ?? "", files: true });
  console.log(`${url}/explore/logs`);
}

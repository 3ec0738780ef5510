// Builds the explorer: `node build.mjs` writes `dist/` and the table of files that the server embeds;
// `node build.mjs --check` fails if these differ from what the sources give.
//
// Invariants: names of assets contain a hash of their content, so they can be cached forever. The output
// depends only on the sources and on the versions in `package-lock.json`.

import { build } from "esbuild";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const DIST = join(HERE, "dist");
const TABLE = join(HERE, "../crates/http/src/explorer/files.rs");
/** Maximum sizes after gzip, in bytes: everything that the first route loads, and each chunk of the others. */
const FIRST_ROUTE_MAX = 250 << 10;
const CHUNK_MAX = 60 << 10;
const ROUTES = ["logs", "metrics", "graphite", "alerts", "dashboards", "machine"];

/** Returns the files of the explorer by their names below `dist/`. */
async function files() {
  const result = await build({
    absWorkingDir: HERE,
    entryPoints: [{ in: "src/main.tsx", out: "main" }],
    outdir: DIST,
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    minify: true,
    metafile: true,
    write: false,
    jsx: "automatic",
    jsxImportSource: "preact",
    entryNames: "assets/[name]-[hash]",
    chunkNames: "assets/[name]-[hash]",
    legalComments: "none",
    logLevel: "warning",
  });
  const theme = await build({
    absWorkingDir: HERE,
    entryPoints: [{ in: "src/frame/first_theme.ts", out: "theme" }],
    outdir: DIST,
    bundle: true,
    format: "iife",
    target: "es2022",
    minify: true,
    write: false,
    entryNames: "assets/[name]-[hash]",
    logLevel: "warning",
  });
  const found = new Map();
  for (const file of [...result.outputFiles, ...theme.outputFiles]) {
    found.set(relative(DIST, file.path), Buffer.from(file.contents));
  }
  const outputs = new Map(
    Object.entries(result.metafile.outputs).map(([path, output]) => [relative(DIST, join(HERE, path)), output]),
  );
  const name = (pattern) => [...found.keys()].find((path) => pattern.test(path));
  const main = name(/^assets\/main-[^/]*\.js$/);
  const preloads = [...loads(outputs, main)].filter((path) => path !== main).sort();
  const html = (await readFile(join(HERE, "src/index.html"), "utf8"))
    .replace("{theme}", name(/theme-/))
    .replace("{style}", name(/main-.*\.css$/))
    .replace("{main}", main)
    .replace("{preloads}", preloads.map((path) => `<link rel="modulepreload" href="${path}">\n`).join(""));
  found.set("index.html", Buffer.from(html));
  found.set("icon.svg", await readFile(join(HERE, "src/icon.svg")));
  found.set("licences.txt", await licences(result.metafile));
  return { found: new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1))), outputs, main };
}

/** The chunks that a chunk loads before it runs, itself included. */
function loads(outputs, path, seen = new Set()) {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const used of outputs.get(path).imports) {
    if (used.kind === "import-statement") loads(outputs, relative(DIST, join(HERE, used.path)), seen);
  }
  return seen;
}

/** Names and licences of the packages whose code is in the bundle. */
async function licences(metafile) {
  const packages = new Set();
  for (const path of Object.keys(metafile.inputs)) {
    const parts = path.split("node_modules/");
    if (parts.length < 2) continue;
    const inside = parts.at(-1).split("/");
    const owner = inside[0].startsWith("@") ? inside.slice(0, 2) : inside.slice(0, 1);
    packages.add(parts.slice(0, -1).join("node_modules/") + "node_modules/" + owner.join("/"));
  }
  let text = "The explorer contains code of these packages.\n";
  for (const folder of [...packages].sort()) {
    const about = JSON.parse(await readFile(join(HERE, folder, "package.json"), "utf8"));
    const names = (await readdir(join(HERE, folder))).filter((file) => /^licen[cs]e/i.test(file));
    const licence = names.length > 0 ? await readFile(join(HERE, folder, names[0]), "utf8") : "";
    text += `\n## ${about.name} ${about.version} (${about.license})\n\n${licence.trim()}\n`;
  }
  return Buffer.from(text);
}

function kind(path) {
  const kinds = {
    html: "text/html; charset=utf-8",
    js: "text/javascript; charset=utf-8",
    css: "text/css; charset=utf-8",
    svg: "image/svg+xml",
    txt: "text/plain; charset=utf-8",
  };
  return kinds[path.split(".").at(-1)];
}

/** The table of files as a source file of the crate `http`. */
function table(found) {
  const rows = [...found].map(([path, bytes]) => {
    const tag = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
    return (
      `    file(\n        "${path}",\n        "${kind(path)}",\n        "W/\\"${tag}\\"",\n` +
      `        include_bytes!("../../../../web/dist/${path}"),\n    ),\n`
    );
  });
  return (
    "//! The files of the explorer: path below `/explore/`, content type, entity tag, content.\n//!\n" +
    "//! Written by `cargo xtask web build` from `web/`; do not edit.\n\n" +
    "use super::file::{File, file};\n\n" +
    `/// Every file, sorted by path.\n#[rustfmt::skip]\npub static FILES: [File; ${found.size}] = [\n` +
    rows.join("") +
    "];\n"
  );
}

function size(found, paths) {
  return [...paths].reduce((sum, path) => sum + gzipSync(found.get(path), { level: 9 }).length, 0);
}

/** Prints what each route loads, and fails when a route is larger than its limit. */
function report({ found, outputs, main }) {
  const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
  const style = [...found.keys()].filter((path) => /\.css$|theme-/.test(path));
  const base = new Set([...loads(outputs, main), ...style, "index.html"]);
  const entry = (route) =>
    [...outputs].find(([, output]) => output.entryPoint === `src/${route}/page.tsx`)?.[0];
  const logs = new Set([...base, ...loads(outputs, entry("logs"))]);
  const problems = [];
  const first = size(found, logs);
  console.log(`frame ${kib(size(found, base))}, first route (logs, with its editor) ${kib(first)} after gzip`);
  if (first > FIRST_ROUTE_MAX) problems.push(`the first route is larger than ${kib(FIRST_ROUTE_MAX)}`);
  for (const route of ROUTES.slice(1)) {
    const added = [...loads(outputs, entry(route))].filter((path) => !logs.has(path));
    const sizes = added.map((path) => size(found, [path]));
    const sum = sizes.reduce((a, b) => a + b, 0);
    console.log(`${route}: ${kib(sum)} more than logs, in ${added.length} chunks of at most ${kib(Math.max(0, ...sizes))}`);
    if (Math.max(0, ...sizes) > CHUNK_MAX) problems.push(`a chunk of ${route} is larger than ${kib(CHUNK_MAX)}`);
  }
  const total = [...found.values()].reduce((sum, bytes) => sum + bytes.length, 0);
  console.log(`${found.size} files, ${kib(total)} embedded`);
  return problems;
}

async function committed() {
  const found = new Map();
  for (const entry of await readdir(DIST, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    found.set(relative(DIST, path), await readFile(path));
  }
  return found;
}

async function differences(found) {
  const present = await committed().catch(() => new Map());
  const names = new Set([...found.keys(), ...present.keys()]);
  const differ = [...names].filter((name) => !found.get(name)?.equals(present.get(name) ?? Buffer.alloc(0)));
  const listed = await readFile(TABLE, "utf8").catch(() => "");
  if (listed !== table(found)) differ.push(relative(join(HERE, ".."), TABLE));
  return differ;
}

const built = await files();
const problems = report(built);
if (process.argv.includes("--check")) {
  const differ = await differences(built.found);
  if (differ.length > 0) problems.push(`not what the sources give: ${differ.join(", ")}; run: cargo xtask web build`);
} else {
  await rm(DIST, { recursive: true, force: true });
  for (const [path, bytes] of built.found) {
    await mkdir(dirname(join(DIST, path)), { recursive: true });
    await writeFile(join(DIST, path), bytes);
  }
  await mkdir(dirname(TABLE), { recursive: true });
  await writeFile(TABLE, table(built.found));
}
for (const problem of problems) console.error(`web: ${problem}`);
process.exitCode = problems.length > 0 ? 1 : 0;

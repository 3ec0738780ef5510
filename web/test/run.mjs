// Runs journeys: each uses the committed page, in a real browser, against a real server.
//
//     node test/run.mjs --binary target/debug/sandur [--quick] [--browser /usr/bin/chromium] [NAME...]
//
// With `--files` the files of the page come from `dist/` instead of the binary, so that a change of the page
// needs no build of the server; then there is no content security policy.
//
// Prints results in the words of `cargo test`, and keeps a screenshot of the end of each journey.

import { readdir, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Person, launch } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";
import { Server } from "./server.mjs";

/** Time of a journey after which it has failed; a busy machine needs a part of it. */
const PATIENCE_MS = 240_000;
const HERE = dirname(fileURLToPath(import.meta.url));
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    binary: { type: "string" },
    quick: { type: "boolean", default: false },
    files: { type: "boolean", default: false },
    browser: { type: "string", default: "/usr/bin/chromium" },
    output: { type: "string", default: join(HERE, "out") },
  },
});

async function journeys() {
  const files = (await readdir(join(HERE, "journeys"))).filter((file) => file.endsWith(".mjs")).sort();
  const all = await Promise.all(files.map(async (file) => ({ name: file.slice(0, -4), ...(await import(`./journeys/${file}`)) })));
  return all.filter(({ name, quick }) =>
    positionals.length > 0 ? positionals.some((wanted) => name.includes(wanted)) : !options.quick || quick);
}

/** Runs a journey with servers and pages that end with it. */
async function walk(journey, browser) {
  const closers = [];
  const people = [];
  const tools = {
    server: async (...settings) => {
      const server = await Server.start(options.binary, settings);
      closers.push(() => server.close());
      if (options.files) {
        const proxy = await startProxy({ target: server.url, files: true });
        server.url = proxy.url;
        closers.push(proxy.close);
      }
      return server;
    },
    person: async (choices) => {
      const person = await Person.arrive(browser, choices);
      people.push(person);
      return person;
    },
    onEnd: (closer) => closers.push(closer),
    shot: (person, name) => person.page.screenshot({ path: join(options.output, `${journey.name}-${name}.png`) }),
    report: (text) => console.log(`    ${text}`),
  };
  let failure = null;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the journey took longer than ${PATIENCE_MS / 1000} s`)), PATIENCE_MS);
  });
  try {
    await Promise.race([journey.walk(tools), late]);
  } catch (error) {
    failure = error;
  }
  clearTimeout(timer);
  for (const [n, person] of people.entries()) {
    await person.page.screenshot({ path: join(options.output, `${journey.name}${n === 0 ? "" : `-${n}`}.png`) }).catch(() => {});
    await person.leave().catch((error) => (failure ??= error));
  }
  for (const close of closers.reverse()) await close().catch((error) => (failure ??= error));
  if (failure) throw failure;
}

await mkdir(options.output, { recursive: true });
const { browser, close } = await launch(options.browser);
const chosen = await journeys();
console.log(`running ${chosen.length} journeys`);
const failures = [];
for (const journey of chosen) {
  const began = performance.now();
  try {
    await walk(journey, browser);
    console.log(`test journey ${journey.name} ... ok (${((performance.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failures.push(`---- journey ${journey.name} ----\n${error.stack ?? error}`);
    console.log(`test journey ${journey.name} ... FAILED\n${error.stack ?? error}`);
  }
}
await close();
if (failures.length > 0) console.log(`\nfailures:\n\n${failures.join("\n\n")}\n`);
console.log(`\ntest result: ${failures.length > 0 ? "FAILED" : "ok"}. ${chosen.length - failures.length} passed; ${failures.length} failed; 0 ignored`);
process.exitCode = failures.length > 0 ? 1 : 0;

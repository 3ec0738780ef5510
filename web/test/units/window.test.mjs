// Goal: the window over a range shows every line once and in order, whichever way it moves, in bounded
// memory.
//
// Method: a server of random lines, many with equal times; random moves; comparison with all lines.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

globalThis.location = { pathname: "/explore/logs", search: "", href: "http://127.0.0.1/explore/logs" };
const { LogWindow } = await source("logs/window.ts");

function randomOf(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state % below;
  };
}

/** Answers like the server: `end` is exclusive. */
function serve(lines) {
  globalThis.fetch = async (url) => {
    const asked = new URL(url, "http://127.0.0.1").searchParams;
    const [start, end, limit] = [BigInt(asked.get("start")), BigInt(asked.get("end")), Number(asked.get("limit"))];
    const found = lines.filter(({ ns }) => ns >= start && ns < end);
    const chosen = asked.get("direction") === "backward" ? found.slice(-limit).reverse() : found.slice(0, limit);
    const streams = new Map();
    for (const { ns, stream, line } of chosen) {
      if (!streams.has(stream)) streams.set(stream, { stream: { s: stream }, values: [] });
      streams.get(stream).values.push([String(ns), line]);
    }
    return new Response(JSON.stringify({ data: { resultType: "streams", result: [...streams.values()], stats: {} } }));
  };
}

/** Lines of a stream with equal times are in the order of the server. */
function isInOrder(rows) {
  const last = new Map();
  return rows.every(({ ns, labels, line }) => {
    const [before, number] = [last.get(`${labels.s} ${ns}`) ?? -1, Number(line.split(" ")[1])];
    last.set(`${labels.s} ${ns}`, number);
    return number > before;
  });
}

function linesOf(random, count, spread) {
  const lines = Array.from({ length: count }, (_, n) => ({ ns: 1_795_240_900_000_000_000n + BigInt(random(spread)), stream: String(random(3)), line: `line ${n}` }));
  return lines.sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0)); // stable
}

const START = "1795240900000000000";

function windowAt(lines, from) {
  const end = String(lines.at(-1).ns + 1n);
  return new LogWindow({ query: "{}", start: START, end }, from ?? end, () => {});
}

function check(window, all) {
  const shown = window.rows.map(({ ns, labels, line }) => `${ns} ${labels.s} ${line}`);
  assert.equal(new Set(shown).size, shown.length, "a line is shown twice");
  for (let n = 1; n < window.rows.length; n += 1) assert.ok(window.rows[n - 1].ns <= window.rows[n].ns, "the order");
  assert.ok(isInOrder(window.rows), "the order of equal times");
  const [first, last] = [BigInt(window.rows[0].ns), BigInt(window.rows.at(-1).ns)];
  // Lines of the first and the last instant may be in another page.
  const inside = all.filter(({ ns }) => ns > first && ns < last);
  const known = new Set(shown);
  for (const { ns, stream, line } of inside) assert.ok(known.has(`${ns} ${stream} ${line}`), `${line} is missing`);
}

test("every line is shown once in both directions", async () => {
  for (const [seed, count, spread] of [[1, 3000, 1e9], [2, 3000, 700], [3, 2500, 40], [4, 700, 1]]) {
    const random = randomOf(seed);
    const lines = linesOf(random, count, spread);
    serve(lines);
    const window = windowAt(lines, String(lines[random(count)].ns));
    for (let step = 0; step < 40; step += 1) {
      await window.load(random(2) === 0 ? "older" : "newer");
      if (window.rows.length > 0) check(window, lines);
    }
    assert.equal(window.notice, "", `seed ${seed}`);
    assert.ok(window.sides.older.done && window.sides.newer.done);
    assert.equal(window.rows.length, count, `seed ${seed}`);
  }
});

test("the window is bounded and reads again what it dropped", async () => {
  const lines = linesOf(randomOf(5), 40_000, 1e9);
  serve(lines);
  const window = windowAt(lines, null);
  let most = 0;
  while (!window.sides.older.done) {
    await window.load("older");
    most = Math.max(most, window.rows.length);
  }
  assert.ok(most <= 12_500, `${most} rows`);
  check(window, lines);
  assert.equal(window.sides.newer.done, false, "newer lines were dropped");
  while (!window.sides.newer.done) await window.load("newer");
  check(window, lines);
  assert.equal(window.rows.at(-1).line, lines.at(-1).line);
});

test("an answer that comes after its side was dropped makes no gap", async () => {
  const lines = linesOf(randomOf(8), 40_000, 1e9);
  serve(lines);
  const window = windowAt(lines, String(lines[20_000].ns));
  await window.load("newer");
  const answers = globalThis.fetch;
  let release;
  const held = new Promise((resolve) => (release = resolve));
  globalThis.fetch = async (url) => {
    const answer = await answers(url);
    if (new URL(url, "http://127.0.0.1").searchParams.get("direction") === "forward") await held;
    return answer;
  };
  const late = window.load("newer");
  while (window.sides.newer.done === false && window.rows.length < 11_900) await window.load("older");
  for (let page = 0; page < 6; page += 1) await window.load("older");
  release();
  await late;
  check(window, lines);
});

test("large lines are fewer", async () => {
  const lines = linesOf(randomOf(6), 3000, 1e9).map((line) => ({ ...line, line: `${line.line} ${"x".repeat(40_000)}` }));
  serve(lines);
  const window = windowAt(lines, null);
  for (let page = 0; page < 40; page += 1) {
    const before = window.read;
    await window.load("older");
    assert.ok(page === 0 || window.read - before <= 110, "a page has about four million characters");
    const text = window.rows.reduce((sum, { line }) => sum + line.length, 0);
    assert.ok(text <= 48 << 20, `${text} characters in ${window.rows.length} rows`);
  }
  check(window, lines);
});

test("an instant with more lines than an answer may have is said and passed", async () => {
  const many = Array.from({ length: 6000 }, (_, n) => ({ ns: 1_795_240_900_000_000_500n, stream: "0", line: `same ${n}` }));
  const before = { ns: 1_795_240_900_000_000_100n, stream: "0", line: "before" };
  serve([before, ...many]);
  const window = windowAt([before, ...many], null);
  for (let page = 0; page < 8; page += 1) await window.load("older");
  assert.match(window.notice, /More than 5000 lines/);
  assert.equal(window.rows[0].line, "before");
  assert.ok(window.sides.older.done);
});

test("a failure is kept until the page is asked again", async () => {
  globalThis.fetch = async () => new Response("the view is too old", { status: 503 });
  const window = windowAt(linesOf(randomOf(7), 5, 10), null);
  await window.load("older");
  assert.equal(window.sides.older.error.status, 503);
  assert.equal(window.sides.older.loading, false);
});

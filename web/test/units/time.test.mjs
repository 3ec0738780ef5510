// Goal: times are read and shown as a person means them, in every zone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./sources.mjs";

const time = await source("frame/time.ts");
const NOW = Date.UTC(2026, 10, 29, 16, 0, 0);

test("instants are read in all forms", () => {
  const read = (text, zone = "UTC") => time.instant(text, NOW, zone);
  assert.equal(read("now"), NOW);
  assert.equal(read("now-1h30m"), NOW - 5_400_000);
  assert.equal(read("now - 2d"), NOW - 172_800_000);
  assert.equal(read("2026-11-29T16:00:00Z"), NOW);
  assert.equal(read("2026-11-29T18:30:00+02:30"), NOW);
  assert.equal(read("2026-11-29 16:00:00.25"), NOW + 250);
  assert.equal(read("2026-11-29"), Date.UTC(2026, 10, 29));
  assert.equal(read("2026-11-29 17:00", "Europe/Berlin"), NOW);
  assert.equal(read(String(NOW / 1000)), NOW);
  assert.equal(read(String(NOW)), NOW);
  assert.equal(read(`${NOW}000000`), NOW);
  for (const wrong of ["", "now-", "now-1", "now-1x", "yesterday", "2026-13-01", "2026-02-30", "1h", "12", "<b>"]) {
    assert.equal(read(wrong), null, wrong);
  }
});

test("clocks of a zone with summer time are converted both ways", () => {
  for (const [utc, local] of [
    ["2026-03-29T00:59:59Z", "2026-03-29 01:59:59"],
    ["2026-03-29T01:00:00Z", "2026-03-29 03:00:00"],
    ["2026-10-25T01:00:00Z", "2026-10-25 02:00:00"],
  ]) {
    assert.equal(time.dateTime(Date.parse(utc), "Europe/Berlin"), local);
  }
  for (let at = Date.UTC(2026, 0, 1); at < Date.UTC(2026, 11, 31); at += 13 * 3_600_000 + 17_000) {
    for (const zone of ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]) {
      const back = time.instant(time.dateTime(at, zone), 0, zone);
      // An hour of each year has no name of its own.
      assert.ok(back === at || Math.abs(back - at) <= 3_600_000, `${zone} ${new Date(at).toISOString()}`);
    }
  }
});

test("ranges that are wrong are the last hour", () => {
  for (const [from, to] of [["x", "now"], ["now", "now-1h"], ["now", "now"]]) {
    assert.deepEqual(time.span({ from, to }, NOW, "UTC"), { start: NOW - 3_600_000, end: NOW });
  }
  assert.deepEqual(time.span({ from: "now-5m", to: "now" }, NOW, "UTC"), { start: NOW - 300_000, end: NOW });
});

test("steps divide clocks evenly and are few", () => {
  for (let length = 1000; length < 1e12; length *= 3) {
    const step = time.niceStep({ start: NOW - length, end: NOW }, 100);
    assert.ok(step >= 1000 && length / step <= 100, `${length} ${step}`);
    assert.ok(86_400_000 % step === 0 || step % 86_400_000 === 0, `${step}`);
  }
});

test("times that no calendar has do not fail", () => {
  for (const wild of [NaN, Infinity, -1e20, 1e20]) {
    assert.equal(typeof time.exact(wild, "Europe/Berlin"), "string");
    assert.equal(typeof time.axisLabel(wild, 1, "UTC"), "string");
  }
});

// Goal: the dashboards for Grafana are those of the page, and the page reads them without a note.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { FOLDER, files } from "../../grafana.mjs";
import { source } from "./sources.mjs";

const { dashboardOf } = await source("dashboards/model.ts");
const { SHIPPED } = await source("dashboards/shipped.ts");

test("the committed files are those that the page's dashboards give", async () => {
  for (const [name, content] of await files()) {
    assert.equal(await readFile(join(FOLDER, name), "utf8"), content, `${name} differs: run node web/grafana.mjs`);
  }
});

test("read again, they are the same panels", async () => {
  const written = await files();
  for (const [n, { source: text }] of SHIPPED.entries()) {
    const [own, grafana] = [dashboardOf(text), dashboardOf(written[n][1])];
    const plain = ({ sections }) => sections.flatMap(({ panels }) => panels).map(({ title, kind, at, queries, reason, notes }) => ({ title, kind, at, reason, notes, queries: queries.map(({ text: query, name }) => [query, name]) }));
    assert.deepEqual(plain(grafana), plain(own));
    assert.deepEqual([grafana.notes, grafana.range, grafana.refresh], [[], own.range, own.refresh]);
    assert.deepEqual(grafana.variables.find(({ name }) => name === "instance").query, own.variables[0].query);
  }
});

// From an hour of lines to the lines around one of them: brush, filters by fields, columns, context.

import { equal, isTrue } from "../browser.mjs";
import { until } from "../server.mjs";

export const quick = true;

export async function walk({ server, person }) {
  const sandur = await server();
  const now = Date.now();
  const line = (n) => JSON.stringify({ level: n % 50 === 0 ? "error" : "info", user: n % 3 === 0 ? "ada" : "grace", order: n });
  await sandur.push({ app: "shop", env: "test" }, Array.from({ length: 1200 }, (_, n) => [now - 3_500_000 + n * 2900, line(n)]));

  const analyst = await person();
  await analyst.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="shop"}')}`);
  await analyst.sees("of 1,200", ".status");
  const whole = analyst.page.url();

  // The brush zooms, and Back returns.
  await analyst.brush(".histogram", 0.25, 0.5);
  await until("a shorter range", () => analyst.params().get("from")?.includes("T"));
  await analyst.sees(/of (2[5-9]\d|3[0-4]\d)\b/, ".status");
  await analyst.page.goBack();
  await analyst.sees("of 1,200", ".status");
  equal(analyst.page.url(), whole, "the address after Back");

  // The histogram groups by a field of JSON, which the query does not extract.
  await analyst.finds('.toolbar option[value="json:user"]');
  await analyst.page.select(".toolbar select", "json:user");
  await analyst.sees(/grace\s+800/, ".legend");
  await analyst.sees(/ada\s+400/, ".legend");
  await analyst.page.select(".toolbar select", "detected_level");

  // A level, then a field of JSON: the histogram and the list follow.
  await analyst.press("error 24");
  await analyst.sees("of 24", ".status");
  equal(await analyst.query(), '{app="shop"} | detected_level="error"', "the query with a level");
  await analyst.click(".log-line");
  await analyst.sees('"order":1150', ".whole-line");
  await analyst.click('[aria-label="Filter for user"]');
  // 1150 is not a multiple of 3: its user is grace, and 16 of the 24 errors are hers.
  await analyst.sees("of 16", ".status");
  equal(await analyst.query(), '{app="shop"} | detected_level="error" | json | user="grace"', "the query with a field");

  // A label of the stream changes the selector; filtering out leaves nothing.
  await analyst.click(".log-line");
  await analyst.click('[aria-label="Top values of order"]');
  await analyst.finds(".top-values li", 10);
  await analyst.click('[aria-label="Column order"]');
  await analyst.finds(".log-heads .log-column");
  equal(analyst.params().get("cols"), "order", "the columns in the address");
  equal(await analyst.text(".log-row .log-column"), "1150", "the value of the column");

  // The lines around the line, without the filters.
  await analyst.press("Lines before and after");
  await analyst.finds(".context-list .log-row.marked");
  await analyst.sees('"order":1151', ".context-list");
  await analyst.sees('"order":1149', ".context-list");
  isTrue(analyst.params().get("context")?.includes('app="shop"'), "the context is in the address");
  await analyst.key("Escape");
  await until("the dialog to close", async () => (await analyst.count("dialog")) === 0);
  await analyst.click('[aria-label="Filter out env"]');
  await analyst.sees("No lines match");
  equal(await analyst.query(), '{app="shop", env!="test"} | detected_level="error" | json | user="grace"', "the query without the label");
}

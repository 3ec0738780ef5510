// A newcomer opens the address of a server that has logs, and reads a line without writing a query.

import { equal, isTrue } from "../browser.mjs";

export const quick = true;

export async function walk({ server, person, report }) {
  const sandur = await server();
  const now = Date.now();
  await sandur.push({ service_name: "billing", level: "error" }, [[now - 60_000, "card declined order=17"], [now - 30_000, "card declined order=18"]]);
  await sandur.push({ service_name: "gateway" }, Array.from({ length: 400 }, (_, n) => [now - 200_000 + n, `GET /page/${n} 200`]));

  const newcomer = await person();
  await newcomer.open(sandur.url);
  await newcomer.sees("billing");
  isTrue(newcomer.page.url().endsWith("/explore/logs"), `the address is ${newcomer.page.url()}`);
  await newcomer.press("billing");
  await newcomer.sees("card declined order=18");
  equal(await newcomer.query(), '{service_name="billing"}', "the query");
  await newcomer.sees(/error\s+2/, ".legend");

  // The newest line is first; it opens into its fields.
  const lines = await newcomer.page.$$eval(".log-text", (all) => all.map((line) => line.innerText));
  equal(lines, ["card declined order=18", "card declined order=17"], "the lines");
  await newcomer.click(".log-line");
  await newcomer.sees("service_name", ".detail");

  // Completion knows labels and their values.
  await newcomer.write("{serv");
  await newcomer.offers("service_name");
  await newcomer.write('{service_name="g');
  await newcomer.offers("gateway");

  // Without credentials the settings offer no session.
  await newcomer.key("Escape");
  await newcomer.press("⚙");
  await newcomer.sees("This server requires no credentials.", ".settings");
  isTrue(!(await newcomer.text(".settings")).includes("Sign"), "there is nothing to sign in to");
  await newcomer.key("Escape");

  // The copied address restores the page.
  const again = await person();
  await again.open(newcomer.page.url());
  await again.sees("card declined order=18");
  const painted = await again.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  report(`first paint after ${Math.round(painted)} ms`);
  const shifts = await again.page.evaluate(() => globalThis.shifts);
  isTrue(shifts < 0.1, `the layout moved by ${shifts}`);
}

// Differences: a box over the histogram shows which fields have other values inside than outside.

import { isTrue, equal } from "../browser.mjs";
import { until } from "../server.mjs";

export async function walk({ server, person, shot }) {
  const sandur = await server();
  const now = Date.now();
  const lines = (host, from, to, each) => Array.from({ length: Math.floor((to - from) / each) }, (_, n) => {
    const at = now - to + n * each;
    // Between 30 and 24 minutes ago, host web3 answers most requests, with a new version.
    return [at, JSON.stringify({ status: n % 3 === 0 ? 200 : 204, user: `u${n}`, version: host === "web3" ? "2.0" : "1.9" })];
  });
  const hour = 3_600_000;
  for (const host of ["web1", "web2", "web3"]) await sandur.push({ app: "shop", host }, lines(host, 0, hour, 12_000));
  await sandur.push({ app: "shop", host: "web3" }, lines("web3", 24 * 60_000, 30 * 60_000, 500).map(([at, line]) => [at + 3, line]));
  const analyst = await person();
  await analyst.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="shop"}')}&from=now-1h&to=now`);
  await analyst.sees("here of", ".status");
  await analyst.page.evaluate(() => document.activeElement?.blur());
  await analyst.key("d");
  await analyst.sees("Draw a box over the histogram");
  await analyst.brush(".histogram", 0.5, 0.6);
  await until("the box", () => analyst.params().get("box"));
  isTrue(analyst.params().get("from") === "now-1h", "a box is no zoom");
  await analyst.sees(/outside\s+\d fields compared/, ".differences");
  const fields = await analyst.page.$$eval(".difference-list h3", (all) => all.map((one) => one.innerText.split(" ")[0]));
  equal([...fields].sort(), ["host", "version"], "the fields that differ");
  await analyst.sees("web3", ".difference-list");
  await analyst.sees(/No difference: .*status/, ".differences");
  await shot(analyst, "list");

  // The address has all of it; a filter leads on.
  await analyst.open(analyst.page.url());
  await analyst.sees(/outside\s+\d fields compared/, ".differences");
  await analyst.press("Filter out web3");
  await until("the filter", () => analyst.params().get("q")?.includes("host!="));
}

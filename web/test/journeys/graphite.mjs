// Graphite: the tree of paths, a plot, functions with help, completion.

import { equal } from "../browser.mjs";

export async function walk({ server, person }) {
  const sandur = await server();
  const now = Math.floor(Date.now() / 1000);
  const points = [];
  for (let n = 0; n < 50; n += 1) for (const host of ["web01", "web02"]) points.push(`servers.${host}.cpu.load ${n} ${now - n * 60}`);
  await sandur.post("/graphite/carbon", `${points.join("\n")}\n`);
  const analyst = await person();
  analyst.expect(/400/);
  await analyst.open(`${sandur.url}/explore/graphite`);
  await analyst.press("▸ servers");
  await analyst.press("▸ web01");
  await analyst.press("▸ cpu");
  await analyst.click('[title="Plot servers.web01.cpu.load"]');
  await analyst.sees("servers.web01.cpu.load", ".plot-legend");
  await analyst.press("Functions");
  await analyst.click('[aria-label="Search functions"]');
  await analyst.page.keyboard.type("movingAverage");
  await analyst.press("movingAverage");
  await analyst.sees("windowSize", ".functions");
  await analyst.click('[aria-label="Search functions"]');
  await analyst.page.$eval('[aria-label="Search functions"]', (input) => input.select());
  await analyst.page.keyboard.type("absolute");
  await analyst.press("absolute");
  await analyst.press("Apply to the target");
  await analyst.sees("absolute(servers.web01.cpu.load)", ".plot-legend");
  equal(analyst.params().get("target"), "absolute(servers.web01.cpu.load)", "the target in the address");
  await analyst.write("servers.w");
  await analyst.offers("web02");
  await analyst.write("nothing(");
  await analyst.key("Escape");
  await analyst.press("Run");
  await analyst.sees("Error 400");
}

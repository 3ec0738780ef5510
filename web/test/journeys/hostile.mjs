// Lines, labels and errors with HTML, scripts, terminal codes and marks for writing direction are shown as
// text; lines of a megabyte and thousands of fields do not stop the page.

import { isTrue } from "../browser.mjs";

const ATTACK = `<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=2</script>`;

export async function walk({ server, person, report }) {
  const sandur = await server("--limits-max-line-size", "2MiB");
  const now = Date.now();
  const fields = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`field_${n}<b>`, `value ${n}`]));
  await sandur.push({ app: "hostile", mark: ATTACK }, [
    [now - 9000, ATTACK],
    [now - 8000, "\u001b[31mred\u001b[0m \u0007 bell"],
    [now - 7000, "user \u202egnp.exe\u202c and \u2067right\u2069 \u200bnothing"],
    [now - 6000, "x".repeat(1 << 20)],
    [now - 5000, JSON.stringify(fields)],
    [now - 4000, `{"a":${'{"a":'.repeat(2000)}1${"}".repeat(2000)}}`],
    [now - 3000, "javascript:globalThis.hacked=3 ${globalThis.hacked=4} {{globalThis.hacked=5}}"],
    [now - 2000, "many\nlines\r\nin\tone"],
  ]);
  await sandur.samples(`hostile{mark="${ATTACK.replaceAll('"', '\\"')}"} 1 ${now - 60_000}\n`);

  const victim = await person();
  victim.expect(/400/);
  await victim.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{app="hostile"}')}&fields=1`);
  await victim.sees("<script>globalThis.hacked=2</script>", ".log-list");
  await victim.sees("\u241b[31mred", ".log-list");
  await victim.sees("\u2039202E\u203agnp.exe", ".log-list");
  await victim.sees("1,048,576 characters", ".log-list");

  // Every line opens; each takes less than a second.
  const rows = await victim.count(".log-row");
  for (let n = 0; n < rows; n += 1) {
    const took = await victim.page.evaluate(async (at) => {
      const began = performance.now();
      document.querySelectorAll(".log-row")[at].querySelector(".log-open").click();
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      return performance.now() - began;
    }, n);
    isTrue(took < 1000, `opening line ${n} took ${took} ms`);
    await victim.page.evaluate((at) => document.querySelectorAll(".log-row")[at].querySelector(".log-open").click(), n);
  }
  await victim.page.evaluate(() => document.activeElement?.blur());
  await victim.key("w");
  await victim.sees("many\nlines", ".log-list");
  report(`${rows} hostile lines were opened`);

  await wide(sandur, victim, report);

  // The same texts as labels, in plots, in errors, in the URL, as the context and as a column.
  await victim.open(`${sandur.url}/explore/logs?q=${encodeURIComponent(ATTACK)}`);
  await victim.sees("Error 400");
  await victim.open(`${sandur.url}/explore/logs?tz=${encodeURIComponent(ATTACK)}&from=${encodeURIComponent(ATTACK)}&cols=${encodeURIComponent(ATTACK)}&by=${encodeURIComponent(ATTACK)}&q=${encodeURIComponent('{app="hostile"}')}`);
  await victim.finds(".log-row", 1);
  await victim.open(`${sandur.url}/explore/logs?context=${encodeURIComponent(ATTACK)}`);
  await victim.sees("Lines before and after");
  await victim.open(`${sandur.url}/explore/metrics?q=hostile`);
  await victim.sees("<img src=x", ".plot-legend");
  await victim.open(`${sandur.url}/explore/metrics?q=${encodeURIComponent(ATTACK)}&names=1`);
  await victim.sees("Error 400");
  await victim.open(`${sandur.url}/explore/machine?tab=cardinality`);
  await victim.sees("<img src=x");
  isTrue((await victim.page.evaluate(() => globalThis.hacked)) === undefined, "a script of the data ran");
  isTrue((await victim.count('img[src="x"]')) === 0, "HTML of the data became elements");

  // Even a script that were inserted would not run: the policy refuses it.
  victim.expect(/content security policy|Content Security Policy|Refused|violates|Trusted|script-src/i);
  const refused = await victim.page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return false;
    } catch {
      return true;
    }
  });
  isTrue(refused, "the policy permits innerHTML");
  await victim.page.evaluate(() => {
    const script = document.createElement("img");
    script.setAttribute("onerror", "globalThis.hacked = 6");
    script.src = "nothing";
    document.body.append(script);
  }).catch(() => {});
  isTrue((await victim.page.evaluate(() => globalThis.hacked)) === undefined, "an inline handler ran");
}

const STREAMS = 3000;

/** Thousands of streams, each with a label of its own, and long values. */
async function wide(sandur, victim, report) {
  const now = Date.now();
  const streams = Array.from({ length: STREAMS }, (_, n) => ({ stream: { wide: `${n} ${"v".repeat(500)}`, [`label_${n}`]: "1" }, values: [[`${now - 1000}000000`, `wide ${n}`]] }));
  await sandur.post("/loki/api/v1/push", JSON.stringify({ streams }), { "content-type": "application/json" });
  const began = performance.now();
  await victim.open(`${sandur.url}/explore/logs`);
  await victim.sees("All lines");
  await victim.press("wide 3,000");
  await victim.sees("The 200 largest of", ".start");
  await victim.open(`${sandur.url}/explore/logs?q=${encodeURIComponent('{wide=~".+"}')}&fields=1&by=wide`);
  await victim.sees("search for others", ".field-bar");
  await victim.sees("others", ".legend");
  report(`${STREAMS} streams with labels of their own: ${Math.round(performance.now() - began)} ms for both pages`);
}

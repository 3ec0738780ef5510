// A browser for journeys, and what a person does in it.
//
// Invariants: every violation of the content security policy, every error of a script and every request
// to another host fails the journey in which it happens.

import puppeteer from "puppeteer-core";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./server.mjs";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

export async function launch(executablePath) {
  const userDataDir = await mkdtemp(join(tmpdir(), "sandur-chromium-"));
  const browser = await puppeteer.launch({ executablePath, userDataDir, headless: true, args: FLAGS });
  const close = async () => {
    await browser.close();
    await rm(userDataDir, { recursive: true, force: true, maxRetries: 5 });
  };
  return { browser, close };
}

export class Person {
  /** Opens a page in a context of its own. */
  static async arrive(browser, { width = 1280, height = 800, theme = "light" } = {}) {
    const person = new Person();
    person.context = await browser.createBrowserContext();
    person.page = await person.context.newPage();
    person.problems = [];
    person.expected = [];
    const { page, problems } = person;
    page.on("pageerror", (error) => problems.push(`error: ${error.stack ?? error.message}`));
    page.on("console", (message) => message.type() === "error" && problems.push(`console: ${message.text()} ${message.location()?.url ?? ""}`));
    page.on("request", (request) => {
      const { hostname, protocol } = new URL(request.url());
      if (/^(http|ws)/.test(protocol) && hostname !== "127.0.0.1") problems.push(`a request to ${request.url()}`);
    });
    await page.evaluateOnNewDocument(() => {
      globalThis.violations = [];
      addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
      globalThis.shifts = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((entry) => entry.hadRecentInput || (globalThis.shifts += entry.value))).observe({ type: "layout-shift", buffered: true });
    });
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    return person;
  }

  /** Failures that the journey causes: the browser reports failed requests in its console. */
  expect(pattern) {
    this.expected.push(pattern);
  }

  async leave() {
    const violations = await this.page.evaluate(() => globalThis.violations ?? []).catch(() => []);
    const problems = [...this.problems, ...violations.map((text) => `content security policy: ${text}`)]
      .filter((text) => !this.expected.some((pattern) => pattern.test(text)));
    await this.context.close();
    if (problems.length > 0) throw new Error(problems.slice(0, 5).join("\n"));
  }

  async open(url) {
    await this.page.goto(url, { waitUntil: "domcontentloaded" });
  }

  params() {
    return new URL(this.page.url()).searchParams;
  }

  text(selector = "body") {
    return this.page.$eval(selector, (element) => element.innerText).catch(() => "");
  }

  /** Waits until a text is on the page. */
  sees(text, selector = "body") {
    const matches = (found) => (text instanceof RegExp ? text.test(found) : found.includes(text));
    return until(`"${text}" in ${selector}`, async () => matches(await this.text(selector))).catch(async (error) => {
      throw new Error(`${error.message}\nThe page shows:\n${(await this.text("body")).slice(0, 1500)}`);
    });
  }

  async lacks(text, selector = "body") {
    await until(`no "${text}" in ${selector}`, async () => !(await this.text(selector)).includes(text));
  }

  /** Waits until there are elements. */
  finds(selector, least = 1) {
    return until(`${least} of ${selector}`, async () => (await this.page.$$(selector)).length >= least);
  }

  count(selector) {
    return this.page.$$eval(selector, (elements) => elements.length);
  }

  async click(selector) {
    await this.finds(selector);
    await this.page.click(selector);
  }

  /** Clicks the button or link with this text. */
  async press(text) {
    const handle = await until(`a button "${text}"`, async () => {
      const found = await this.page.evaluateHandle((wanted) => {
        const all = [...document.querySelectorAll("button, a, [role=button]")].filter((element) => element.offsetParent !== null || element.closest("dialog"));
        const label = (element) => (element.getAttribute("aria-label") ?? element.innerText).trim().replace(/\s+/g, " ");
        return all.find((element) => label(element) === wanted) ?? all.find((element) => label(element).startsWith(wanted)) ?? null;
      }, text);
      return found.asElement();
    });
    await handle.click();
  }

  key(...keys) {
    return keys.reduce((before, key) => before.then(() => this.page.keyboard.press(key)), Promise.resolve());
  }

  /** Replaces the text of an editor. */
  async write(text, n = 0) {
    await this.finds(".editor", n + 1);
    await until("the editor", () => this.page.evaluate((at) => {
      const content = document.querySelectorAll(".editor")[at]?.shadowRoot?.querySelector(".cm-content");
      content?.focus();
      return content !== null && content !== undefined;
    }, n));
    await this.page.keyboard.down("Control");
    await this.page.keyboard.press("a");
    await this.page.keyboard.up("Control");
    await this.page.keyboard.type(text);
  }

  /** The text of an editor. */
  query(n = 0) {
    return this.page.evaluate((at) => {
      const lines = document.querySelectorAll(".editor")[at]?.shadowRoot?.querySelectorAll(".cm-line") ?? [];
      return [...lines].map((line) => line.textContent).join("\n");
    }, n);
  }

  /** Completions that the editor offers. */
  async offers(text) {
    return until(`the completion ${text}`, () => this.page.evaluate((wanted) => {
      for (const editor of document.querySelectorAll(".editor")) {
        const items = [...(editor.shadowRoot?.querySelectorAll(".cm-tooltip-autocomplete li") ?? [])];
        if (items.some((item) => item.textContent.includes(wanted))) return true;
      }
      return false;
    }, text));
  }

  /** Draws a box over an element, from one part of its width to another. */
  async brush(selector, from, to) {
    await this.finds(selector);
    const box = await (await this.page.$(selector)).boundingBox();
    const y = box.y + box.height / 3;
    await this.page.mouse.move(box.x + box.width * from, y);
    await this.page.mouse.down();
    await this.page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 4 });
    await this.page.mouse.move(box.x + box.width * to, y, { steps: 4 });
    await this.page.mouse.up();
  }
}

// With `TRACE=1` every step is printed, so that a step that hangs is known.
if (process.env["TRACE"]) {
  for (const name of ["open", "sees", "lacks", "finds", "click", "press", "key", "write", "offers", "brush"]) {
    const step = Person.prototype[name];
    Person.prototype[name] = function (...choices) {
      console.log(`    ${name} ${choices.map(String).join(" ")}`);
      return step.apply(this, choices);
    };
  }
}

export function equal(found, wanted, what) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
  }
}

export function isTrue(found, what) {
  if (!found) throw new Error(what);
}

// A browser at somebody's command: reads {"do": ..., ...} a line, answers {"ok": ...} or {"error": ...}.
// First argument: a folder with playwright-core, second: the browser. See tests/studio_tabs.py.
import path from "node:path";
import readline from "node:readline";
import { createRequire } from "node:module";

const [packages, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(path.join(packages, "node_modules", "/"))("playwright-core");
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const tabs = {}, errors = [];
const LONG = { timeout: 180000 };                       // software drawing: half a frame a second

const button = (page, name) => page.getByRole("button", { name, exact: true }).first();
const picture = page => page.screenshot({ timeout: LONG.timeout });
const actions = {
  async open(_, { tab, url, width, height }) {
    // A window of its own: a tab behind another is not drawn, and reads no messages.
    const own = await browser.newContext({ viewport: { width, height } });
    tabs[tab] = await own.newPage();
    tabs[tab].on("pageerror", e => errors.push(e.message));
    await tabs[tab].goto(url);
  },
  close: page => page.close(),
  text: page => page.evaluate(() => document.body.innerText),
  until: (page, { words }) => page.waitForFunction(w => document.body.innerText.includes(w), words, { polling: 500, ...LONG }),
  async click(page, { x, y, shift }) {
    if (shift) await page.keyboard.down("Shift");
    await page.mouse.click(x, y);
    if (shift) await page.keyboard.up("Shift");
  },
  move: (page, { x, y }) => page.mouse.move(x, y),
  down: page => page.mouse.down(),
  up: page => page.mouse.up(),
  async drag(page, { x, y, dx, dy, steps, pause, before }) {
    await page.mouse.move(x, y);
    await page.waitForTimeout(before);                  // the handle must have seen the pointer
    await page.mouse.down();
    for (let k = 1; k <= steps; k++) {
      await page.mouse.move(x + dx * k / steps, y + dy * k / steps);
      await page.waitForTimeout(pause);
    }
    await page.mouse.up();
  },
  together: (_, { jobs }) => Promise.all(jobs.map(job => actions[job.do](tabs[job.tab], job))),
  async slide(page, { slider, key }) {                  // by its number from above
    await page.getByRole("slider").nth(slider).focus(LONG);
    await page.keyboard.press(key);
  },
  async choose(page, { list, option }) {                // of a list by its number from above
    await page.locator("input[aria-haspopup=listbox]:visible").nth(list).click({ force: true, ...LONG });
    await page.getByRole("option", { name: option, exact: true }).click({ force: true, ...LONG });
  },
  press: (page, { name }) => button(page, name).click({ force: true, ...LONG }),
  unfold: (page, { name }) => page.getByText(name, { exact: true }).first().click({ force: true, ...LONG }),
  async shot(page, { file, still }) {                   // still: until two pictures are the same
    let last = await picture(page);
    for (let k = 0; still && k < 12; k++) {
      await page.waitForTimeout(400);
      const next = await picture(page);
      if (next.equals(last)) break;
      last = next;
    }
    (await import("node:fs")).writeFileSync(file, last);
  },
  async download(page, { name, folder }) {
    const coming = page.waitForEvent("download", LONG);
    await button(page, name).click(LONG);               // when it stands still: a folder unfolds
    const got = await coming;
    await got.saveAs(path.join(folder, got.suggestedFilename()));
    return got.suggestedFilename();
  },
  async upload(page, { name, file }) {
    const coming = page.waitForEvent("filechooser", LONG);
    await button(page, name).click({ force: true, ...LONG });
    await (await coming).setFiles(file);
  },
  errors: () => errors,
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  if (job.do === "end") break;
  try {
    const ok = await actions[job.do](tabs[job.tab], job);
    console.log(JSON.stringify({ ok: ok ?? null }));
  } catch (e) { console.log(JSON.stringify({ error: String(e) })); }
}
await browser.close();
process.exit(0);

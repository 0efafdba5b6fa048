// The studio as a person uses it: open, click the object, pull its arrow, play, go live, download.
// Reads a job (see tests/test_studio_browser.py), writes pictures and prints what it saw as JSON.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const job = JSON.parse(fs.readFileSync(process.argv[2]));
const { chromium } = createRequire(path.join(job.packages, "node_modules", "/"))("playwright-core");
const browser = await chromium.launch({
  executablePath: job.chromium,
  args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: job.width, height: job.height } });
const errors = [], said = {};
page.on("pageerror", e => errors.push(e.message));

const text = () => page.evaluate(() => document.body.innerText);
const until = async (words, seconds = 120) => {
  await page.waitForFunction(w => document.body.innerText.includes(w), words, { timeout: seconds * 1000 });
};
const shot = name => page.screenshot({ path: path.join(job.folder, `${name}.png`), timeout: 120000 });
const press = name => page.getByRole("button", { name, exact: true }).click({ force: true, timeout: 60000 });
const settle = () => page.waitForTimeout(job.wait);    // software drawing: half a frame a second

try {
  await page.goto(job.url);
  await until("Gaussians;");
  await settle();
  await shot("opened");
  await page.mouse.click(...job.object);
  await until("Gaussians move");
  await settle();
  await shot("picked");
  const [x, y] = job.handle, [dx, dy] = job.pull;
  await page.mouse.move(x, y);
  await page.waitForTimeout(job.wait);        // the handle must have seen the pointer
  await page.mouse.down();
  for (let k = 1; k <= 4; k++) {
    await page.mouse.move(x + dx * k / 4, y + dy * k / 4);
    await page.waitForTimeout(700);
  }
  await page.mouse.up();
  await settle();
  await shot("pulled");
  await press("Play");
  await page.waitForTimeout(2500);
  await press("Pause");
  await until("paused at frame");
  said.paused = (await text()).match(/paused at frame (\d+)/)[1];
  await settle();
  await shot("played");
  await press("Live");
  await until("live:");
  await page.waitForTimeout(1500);
  await press("Stop");
  await press("Keep the live run");
  await until("kept");
  await page.getByText("Take it home", { exact: true }).click();
  await settle();                             // the folder unfolds
  const [file] = await Promise.all([
    page.waitForEvent("download", { timeout: 120000 }),
    page.getByRole("button", { name: "Export and download" }).click(),
  ]);
  said.file = file.suggestedFilename();
  await file.saveAs(path.join(job.folder, said.file));
  await press("Show command and Python");
  await until("newtongs.animate(");
  said.lines = await text();
} catch (e) { errors.push(String(e)); await shot("failed").catch(() => {}); said.failed = await text().catch(() => ""); }
await browser.close();
console.log(JSON.stringify({ ...said, errors }));
process.exit(0);

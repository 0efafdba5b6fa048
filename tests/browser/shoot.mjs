// Pictures of an exported animation in headless Chromium, by our own page or by other people's
// viewers. Not part of the suite: see tests/test_export_browser.py.
//
//   node shoot.mjs JOB.json
//
// JOB: { viewer: "page" | "babylon" | "playcanvas" | "three", file, folder, packages, chromium, width, height,
//        times: [...], eye, target, fov (degrees, across the height), background: [r, g, b] }
// `packages` is a folder with node_modules: playwright-core, and babylonjs with babylonjs-loaders,
// or playcanvas, or three; and meshoptimizer for a compressed .glb, whose decoder Babylon.js would fetch
// from its own server. PlayCanvas also opens a .sog. Writes FOLDER/shot_0.png ... and, for the page, FOLDER/screen.png. Prints JSON.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";

const job = JSON.parse(fs.readFileSync(process.argv[2]));
const require = createRequire(path.join(job.packages, "x.js"));
const { chromium } = require("playwright-core");

const BABYLON = `<script src="/packages/babylonjs/babylon.js"></script>
<script src="/packages/babylonjs-loaders/babylonjs.loaders.min.js"></script><script>
window.start = async job => {
  const canvas = document.querySelector("canvas");
  const engine = new BABYLON.Engine(canvas, false, { preserveDrawingBuffer: true });
  const scene = new BABYLON.Scene(engine);
  scene.useRightHandedSystem = true;
  scene.clearColor = new BABYLON.Color4(...job.background, 1);
  const camera = new BABYLON.FreeCamera("c", new BABYLON.Vector3(...job.eye), scene);
  camera.setTarget(new BABYLON.Vector3(...job.target));
  camera.fov = job.fov * Math.PI / 180;
  camera.minZ = 0.05;
  camera.maxZ = 500;
  BABYLON.MeshoptCompression.Configuration.decoder.url = "/packages/meshoptimizer/meshopt_decoder.cjs";
  const made = await BABYLON.SceneLoader.ImportMeshAsync("", "/", "model.glb", scene);
  // Babylon orders whole meshes by the distance of their middles, and a background has its middle
  // anywhere: as one compound mesh all Gaussians are sorted together. Its parts follow the nodes.
  const meshes = made.meshes.filter(m => m.getClassName() === "GaussianSplattingMesh");
  const all = new BABYLON.GaussianSplattingCompoundMesh("all", null, scene, true);
  all.addParts(meshes, false).forEach((part, k) => {
    part.parent = meshes[k];
    part.position.setAll(0);
    part.scaling.setAll(1);
    part.rotationQuaternion = BABYLON.Quaternion.Identity();
    meshes[k].isVisible = false;
  });
  const motion = made.animationGroups[0];
  if (motion) {
    motion.stop();
    motion.start(false, 1);
    motion.pause();
  }
  engine.runRenderLoop(() => scene.render());
  window.seek = t => motion && motion.goToFrame(60 * t);
  return { version: BABYLON.Engine.Version, meshes: made.meshes.map(m => m.getClassName()) };
};</script>`;

const PLAYCANVAS = `<script type="module">
import { MeshoptDecoder } from "/packages/meshoptimizer/meshopt_decoder.mjs";
import * as pc from "/packages/playcanvas/build/playcanvas.mjs";
window.start = async job => {
  const canvas = document.querySelector("canvas");
  const app = new pc.Application(canvas, { graphicsDeviceOptions: { preserveDrawingBuffer: true, antialias: false } });
  app.graphicsDevice.maxPixelRatio = 1;
  app.setCanvasResolution(pc.RESOLUTION_FIXED, job.width, job.height);
  app.start();
  const camera = new pc.Entity();
  camera.addComponent("camera", { clearColor: new pc.Color(...job.background), fov: job.fov, nearClip: 0.05, farClip: 500 });
  camera.setPosition(...job.eye);
  camera.lookAt(...job.target);
  app.root.addChild(camera);
  const load = async asset => {
    app.assets.add(asset);
    await new Promise((done, failed) => { asset.ready(done); asset.on("error", failed); app.assets.load(asset); });
    return asset.resource;
  };
  window.seek = () => {};
  if (job.file.endsWith(".sog")) {
    const splats = new pc.Entity(), asset = new pc.Asset("model", "gsplat", { url: "/model.sog" });
    await load(asset);
    splats.addComponent("gsplat", { asset });
    splats.setLocalEulerAngles(180, 0, 0);    // y of captures points down
    app.root.addChild(splats);
    return { version: pc.version };
  }
  const processAsync = (view, buffers, done) => {    // the engine leaves meshopt to its users
    const packed = view.extensions && view.extensions.EXT_meshopt_compression;
    if (!packed) return done(null, null);
    Promise.all([buffers[packed.buffer], MeshoptDecoder.ready]).then(([buffer]) => {
      const out = new Uint8Array(packed.count * packed.byteStride);
      const from = buffer.subarray(packed.byteOffset, packed.byteOffset + packed.byteLength);
      MeshoptDecoder.decodeGltfBuffer(out, packed.count, packed.byteStride, from, packed.mode, packed.filter);
      out.byteStride = packed.byteStride;
      done(null, out);
    }, done);
  };
  const resource = await load(new pc.Asset("model", "container", { url: "/model.glb" }, null,
    { bufferView: { processAsync } }));
  const model = resource.instantiateRenderEntity();
  app.root.addChild(model);
  if (resource.animations.length) {
    model.addComponent("anim", { activate: true });
    model.anim.assignAnimation("motion", resource.animations[0].resource);
    model.anim.baseLayer.play("motion");
    model.anim.speed = 0;
    window.seek = t => { model.anim.baseLayer.activeStateCurrentTime = t; };
  }
  return { version: pc.version, splats: resource.gsplats.length };
};</script>`;

const THREE_PAGE = `<script type="importmap">{ "imports": {
  "three": "/packages/three/build/three.webgpu.js", "three/webgpu": "/packages/three/build/three.webgpu.js",
  "three/tsl": "/packages/three/build/three.tsl.js", "three/addons/": "/packages/three/examples/jsm/" } }</script>
<script type="module">
import * as THREE from "three";
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";
import { GLTFGaussianSplatLoaderExtension } from "three/addons/loaders/GLTFGaussianSplatLoaderExtension.js";
import { MeshoptDecoder } from "/packages/meshoptimizer/meshopt_decoder.mjs";
window.start = async job => {
  const renderer = new THREE.WebGPURenderer({ canvas: document.querySelector("canvas"), forceWebGL: true, antialias: false });
  await renderer.init();
  renderer.setSize(job.width, job.height, false);
  renderer.outputColorSpace = THREE.LinearSRGBColorSpace;
  const scene = new THREE.Scene();
  scene.background = new THREE.Color(...job.background);
  const camera = new THREE.PerspectiveCamera(job.fov, job.width / job.height, 0.05, 500);
  camera.position.set(...job.eye);
  camera.lookAt(...job.target);
  const loader = new GLTFLoader();
  loader.register(parser => new GLTFGaussianSplatLoaderExtension(parser));
  loader.setMeshoptDecoder(MeshoptDecoder);
  const made = await loader.loadAsync("/model.glb");
  scene.add(made.scene);
  const mixer = new THREE.AnimationMixer(made.scene);
  if (made.animations[0]) mixer.clipAction(made.animations[0]).play();
  renderer.setAnimationLoop(() => renderer.render(scene, camera));
  window.seek = t => mixer.setTime(t);
  return { version: THREE.REVISION };
};</script>`;

const VIEWERS = { babylon: BABYLON, playcanvas: PLAYCANVAS, three: THREE_PAGE };

const SHELL = viewer => `<!doctype html><style>body{margin:0}canvas{display:block;width:${job.width}px;height:${job.height}px}</style>
<canvas width="${job.width}" height="${job.height}"></canvas>${viewer}`;

function serve() {
  const server = http.createServer((request, response) => {
    const url = request.url.split("?")[0];
    if (url === "/") {
      response.setHeader("content-type", "text/html");
      return response.end(SHELL(VIEWERS[job.viewer]));
    }
    const file = /^\/model\.(glb|sog)$/.test(url) ? job.file
      : path.join(job.packages, "node_modules", path.normalize(url.replace("/packages/", "/")));
    if (url === "/favicon.ico") return response.end();
    if (!fs.existsSync(file)) { response.statusCode = 404; return response.end(); }
    response.setHeader("content-type", /\.[mc]?js$/.test(file) ? "text/javascript" : "application/octet-stream");
    fs.createReadStream(file).pipe(response);
  });
  return new Promise(ready => server.listen(0, "127.0.0.1", () => ready(server)));
}

const save = (name, url) => fs.writeFileSync(path.join(job.folder, name), Buffer.from(url.split(",")[1], "base64"));

async function shootPage(page) {
  await page.goto(`file://${job.file}#t=0`);
  await page.waitForFunction(() => window.player, null, { timeout: 60000 });
  for (const [k, t] of job.times.entries()) {
    save(`shot_${k}.png`, await page.evaluate(t => window.player.snapshot(t), t));
  }
  await page.screenshot({ path: path.join(job.folder, "screen.png") });
  return {};
}

// What is seen. three.js does not keep what it has drawn: the screen has it.
async function seen(page) {
  if (job.viewer === "three") return page.screenshot();
  const url = await page.evaluate(() => document.querySelector("canvas").toDataURL("image/png"));
  return Buffer.from(url.split(",")[1], "base64");
}

// The picture once it has stayed the same for two seconds: on a busy machine the first ones lack
// objects, or have them in the wrong order.
async function settled(page) {
  let last = await seen(page);
  for (let k = 0, same = 0; k < 60 && same < 2; k++) {
    await page.waitForTimeout(1000);
    const now = await seen(page);
    same = now.equals(last) ? same + 1 : 0;
    last = now;
  }
  return last;
}

async function shootViewer(page) {
  const server = await serve();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.start, null, { timeout: 60000 });
  const about = await page.evaluate(job => window.start(job), job);
  for (const [k, t] of job.times.entries()) {
    await page.evaluate(t => window.seek(t), t);
    await page.waitForTimeout(job.wait || 6000);   // viewers sort in a worker, and here without a GPU
    fs.writeFileSync(path.join(job.folder, `shot_${k}.png`), await settled(page));
  }
  server.close();
  return about;
}

const browser = await chromium.launch({
  executablePath: job.chromium,
  args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: job.width, height: job.height } });
const said = [], asked = [];
page.on("pageerror", e => said.push(e.message));
page.on("console", m => { if (m.type() === "error") said.push(m.text()); });
page.on("request", r => asked.push(r.url().slice(0, 100)));
let about = {};
try { about = await (job.viewer === "page" ? shootPage(page) : shootViewer(page)); }
catch (e) { said.push(String(e)); }
await browser.close();
console.log(JSON.stringify({ ...about, errors: said, requests: asked }));
process.exit(0);

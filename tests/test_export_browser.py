"""Exports in a real browser, against our own renders. Only where it is asked for:

    npm install --prefix DIR playwright-core babylonjs babylonjs-loaders playcanvas three \\
      meshoptimizer
    NEWTONGS_BROWSER=DIR pytest tests/test_export_browser.py

with Debian's chromium, or another one named by NEWTONGS_CHROMIUM.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from export_samples import park, two_objects

from newtongs.base import rotations
from newtongs.exports import default_camera, write_glb, write_html
from newtongs.exports.loss import around
from newtongs.formats import save
from newtongs.formats.axes import to_ours
from newtongs.render import render
from newtongs.render.video import to_bytes
from newtongs.samples import named_scene
from newtongs.scene import Animation, WorldFrame

PACKAGES = os.environ.get("NEWTONGS_BROWSER", "")
CHROMIUM = os.environ.get("NEWTONGS_CHROMIUM") or shutil.which("chromium") or ""
SCRIPT = Path(__file__).parent / "browser" / "shoot.mjs"
SKY = (0.55, 0.78, 0.95)


def installed(package):
    return bool(PACKAGES) and (Path(PACKAGES) / "node_modules" / package).is_dir()


pytestmark = pytest.mark.skipif(
    not (installed("playwright-core") and CHROMIUM and shutil.which("node")),
    reason="set NEWTONGS_BROWSER to a folder with playwright-core; needs node and chromium",
)


def shoot(tmp_path, viewer, file, animation, camera, frames):
    """Pictures ``(H, W, 3)`` of some frames, and what the browser said."""
    eye = camera.position.double()
    target = eye + camera.w2c[2, :3].double()
    job = {
        "viewer": viewer,
        "file": str(file),
        "folder": str(tmp_path),
        "packages": str(Path(PACKAGES).resolve()),
        "chromium": CHROMIUM,
        "width": camera.width,
        "height": camera.height,
        "times": [float(animation.times[t]) for t in frames],
        "eye": rotations.rotate(animation.world.rotation, eye).tolist(),
        "target": rotations.rotate(animation.world.rotation, target).tolist(),
        "fov": float(2 * np.degrees(np.arctan(camera.height / 2 / float(camera.K[1, 1])))),
        "background": SKY,
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        ["node", SCRIPT, tmp_path / "job.json"], capture_output=True, text=True, timeout=240
    )
    said = json.loads(done.stdout)
    assert said["errors"] == []
    pillow = pytest.importorskip("PIL.Image")
    names = [f"shot_{k}.png" for k in range(len(frames))]
    return [np.asarray(pillow.open(tmp_path / n).convert("RGB")) for n in names], said


def psnr(a, b):
    return 10 * np.log10(255**2 / max(np.mean((a.astype(float) - b) ** 2), 1e-12))


def compare(animation, camera, frames, pictures):
    wanted = [render(animation.frames()[t], camera, backend="ewa", background=SKY) for t in frames]
    return [psnr(to_bytes(w), got) for w, got in zip(wanted, pictures, strict=True)]


def write_page(path, animation, camera, compress):
    options = {"background": SKY, "sh_degree": 3, "compress": compress}
    write_html(animation, path, camera=camera, **options)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("make", "size"), [(park, (512, 512)), (two_objects, (400, 300))])
def test_the_page_shows_what_we_render(tmp_path, make, size, compress):
    animation, frames = make(9), (0, 5)
    camera = default_camera(animation, size)
    write_page(tmp_path / "a.html", animation, camera, compress)
    pictures, said = shoot(tmp_path, "page", tmp_path / "a.html", animation, camera, frames)
    assert said["requests"] == [f"file://{tmp_path / 'a.html'}"]  # and nothing else
    quality = compare(animation, camera, frames, pictures)
    print("PSNR in dB:", [round(float(x), 1) for x in quality])
    assert min(quality) > 50
    assert psnr(*pictures) < 40  # it moved


VIEWERS = {
    "babylon": "babylonjs",
    "playcanvas": "playcanvas",
    "three": "three",
}  # and the package of each


def need(viewer):
    for package in (VIEWERS[viewer], "meshoptimizer"):
        if not installed(package):
            pytest.skip(f"needs {package} in NEWTONGS_BROWSER")


@pytest.mark.parametrize(
    ("viewer", "make", "size", "floor"),
    [
        ("babylon", park, (512, 512), 33),
        ("babylon", two_objects, (400, 300), 38),
        ("playcanvas", park, (512, 512), 30),
        ("playcanvas", two_objects, (400, 300), 38),
        ("three", park, (512, 512), 27),
        ("three", two_objects, (400, 300), 38),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_other_peoples_viewers_play_the_glb(tmp_path, viewer, make, size, floor, compress):
    """They cut Gaussians off elsewhere and store them with fewer bits: hence the lower floors."""
    need(viewer)
    animation, frames = make(9), (0, 5)
    camera = default_camera(animation, size)
    write_glb(animation, tmp_path / "a.glb", compress=compress)
    pictures, _ = shoot(tmp_path, viewer, tmp_path / "a.glb", animation, camera, frames)
    quality = compare(animation, camera, frames, pictures)
    print("PSNR in dB:", [round(float(x), 1) for x in quality])
    assert min(quality) > floor
    assert psnr(*pictures) < min(quality) - 4  # it moved


@pytest.mark.parametrize(
    ("viewer", "ending", "floor"),
    [
        ("playcanvas", ".sog", 30),
        ("playcanvas", ".glb", 30),
        ("playcanvas", ".compressed.glb", 30),
        ("babylon", ".glb", 30),
        ("babylon", ".compressed.glb", 30),
        ("three", ".compressed.glb", 27),
    ],
)
def test_a_still_scene_stands_upright_in_other_peoples_viewers(tmp_path, viewer, ending, floor):
    """A scene with y down, as captures have it, saved and opened."""
    need(viewer)
    scene = to_ours(named_scene("kitchen_table").scene(), "RUB")
    animation = Animation(scene, torch.zeros(1), {}, world=WorldFrame.of_floor((0, -1, 0), 0.0))
    camera = around(scene, -torch.eye(3)[1])[0]
    save(scene, tmp_path / f"a{ending}")
    pictures, _ = shoot(tmp_path, viewer, tmp_path / f"a{ending}", animation, camera, (0,))
    wanted = to_bytes(render(scene, camera, backend="ewa", background=SKY))
    print(f"{viewer}, {ending}: PSNR {psnr(wanted, pictures[0]):.1f} dB")
    assert psnr(wanted, pictures[0]) > floor

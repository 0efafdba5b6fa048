"""Exports in a real browser, against our own renders. Only where it is asked for:

    npm install --prefix DIR playwright-core babylonjs babylonjs-loaders playcanvas
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
from export_samples import park, two_objects

from newtongs import rotations
from newtongs.exports import default_camera, write_glb, write_html
from newtongs.render import render
from newtongs.render.video import to_bytes

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


def write_page(path, animation, camera):
    write_html(animation, path, camera=camera, background=SKY, sh_degree=3)


@pytest.mark.parametrize(("make", "size"), [(park, (512, 512)), (two_objects, (400, 300))])
def test_the_page_shows_what_we_render(tmp_path, make, size):
    animation, frames = make(9), (0, 5)
    camera = default_camera(animation, size)
    write_page(tmp_path / "a.html", animation, camera)
    pictures, said = shoot(tmp_path, "page", tmp_path / "a.html", animation, camera, frames)
    assert said["requests"] == [f"file://{tmp_path / 'a.html'}"]  # and nothing else
    quality = compare(animation, camera, frames, pictures)
    print("PSNR in dB:", [round(float(x), 1) for x in quality])
    assert min(quality) > 50
    assert psnr(*pictures) < 40  # it moved


VIEWERS = {"babylon": "babylonjs", "playcanvas": "playcanvas"}  # and the package of each


@pytest.mark.parametrize(
    ("viewer", "make", "size", "floor"),
    [
        ("babylon", park, (512, 512), 33),
        ("babylon", two_objects, (400, 300), 38),
        ("playcanvas", park, (512, 512), 30),
        ("playcanvas", two_objects, (400, 300), 38),
    ],
)
def test_other_peoples_viewers_play_the_glb(tmp_path, viewer, make, size, floor):
    """They cut Gaussians off elsewhere and store them with fewer bits: hence the lower floors."""
    if not installed(VIEWERS[viewer]):
        pytest.skip(f"needs {VIEWERS[viewer]} in NEWTONGS_BROWSER")
    animation, frames = make(9), (0, 5)
    camera = default_camera(animation, size)
    write_glb(animation, tmp_path / "a.glb")
    pictures, _ = shoot(tmp_path, viewer, tmp_path / "a.glb", animation, camera, frames)
    quality = compare(animation, camera, frames, pictures)
    print("PSNR in dB:", [round(float(x), 1) for x in quality])
    assert min(quality) > floor
    assert psnr(*pictures) < min(quality) - 4  # it moved

"""The studio in a real browser. Only where it is asked for, as in test_export_browser.py:

npm install --prefix DIR playwright-core
NEWTONGS_BROWSER=DIR pytest tests/test_studio_browser.py
"""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("viser", reason="needs viser: pip install 'newtongs[studio]'")

from newtongs.actors import TOSS
from newtongs.exports import read_glb
from newtongs.scene.cameras import look_at
from newtongs.state import State
from newtongs.studio import Session
from newtongs.studio.aids import ARROW, HANDLE
from newtongs.studio.server import Studio
from newtongs.studio.view import FIELD

PACKAGES = os.environ.get("NEWTONGS_BROWSER", "")
CHROMIUM = os.environ.get("NEWTONGS_CHROMIUM") or shutil.which("chromium") or ""
SCRIPT = Path(__file__).parent / "browser" / "studio.mjs"
SIZE = 1200, 520
PULL = -1.5  # units a second that the arrow is pulled to the left

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (
            PACKAGES
            and (Path(PACKAGES) / "node_modules" / "playwright-core").is_dir()
            and CHROMIUM
            and shutil.which("node")
        ),
        reason="set NEWTONGS_BROWSER to a folder with playwright-core; needs node and chromium",
    ),
]


def first_camera(studio):
    """As new pages look."""
    first = studio.server.initial_camera
    return look_at(
        first.position.tolist(), first.look_at.tolist(), width=SIZE[0], height=SIZE[1],
        fov=float(np.degrees(FIELD)),
    )  # fmt: skip


def pixel(camera, point):
    return camera.project(torch.as_tensor(point, dtype=torch.float32))[0].tolist()


def near(picture, at, radius=8):
    x, y = (round(v) for v in at)
    return picture[y - radius : y + radius, x - radius : x + radius].astype(float)


def apart(a, b, at):
    return float(np.abs(near(a, at) - near(b, at)).mean())


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """What a browser saw, and the studio afterwards."""
    folder = tmp_path_factory.mktemp("studio")
    session = Session("sunny_park")
    studio = Studio(session, port=0)
    camera = first_camera(studio)
    middle = session.world.to_physics(session.scene.object(0).means.double().mean(0))
    tip = middle + ARROW * torch.tensor(TOSS[0], dtype=torch.float64)
    handle = tip + torch.tensor([0.8 * HANDLE, 0, 0])
    left = handle + torch.tensor([ARROW * PULL, 0, 0])
    pull = np.subtract(pixel(camera, left), pixel(camera, handle)).tolist()
    job = {
        "packages": str(Path(PACKAGES).resolve()), "chromium": CHROMIUM, "url": studio.url,
        "folder": str(folder), "width": SIZE[0], "height": SIZE[1], "wait": 6000,
        "object": pixel(camera, middle), "handle": pixel(camera, handle), "pull": pull,
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        ["node", SCRIPT, folder / "job.json"], capture_output=True, text=True, timeout=580
    )
    said = json.loads(done.stdout)
    yield studio, camera, middle, said, folder
    studio.close()


@pytest.fixture(scope="module")
def pictures(used):
    image = pytest.importorskip("PIL.Image")
    names = ("opened", "picked", "pulled", "played")
    return {n: np.asarray(image.open(used[-1] / f"{n}.png").convert("RGB")) for n in names}


def test_nothing_failed(used):
    assert used[3]["errors"] == []


def test_a_click_tints_the_object(used, pictures):
    _, camera, middle, *_ = used
    change = near(pictures["picked"], pixel(camera, middle)) - near(
        pictures["opened"], pixel(camera, middle)
    )
    red, _, blue = change.mean((0, 1))
    assert red - blue > 20  # towards orange


def test_pulling_the_arrow_changes_the_velocity(used):
    push = used[0].page.session.recipe.pushes[0]
    wanted = (TOSS[0][0] + PULL, *TOSS[0][1:])
    assert push.velocity == pytest.approx(wanted, abs=0.25)


def test_it_is_where_the_simulation_says(used, pictures):
    studio, camera, middle, said, _ = used
    recipe, index = replace(studio.page.session.recipe, seconds=2.0), int(said["paused"])
    x = State(Session(recipe).states()[index, 0]).p
    there = pixel(camera, x)
    assert apart(pictures["played"], pictures["opened"], pixel(camera, middle)) > 25  # it has left
    assert apart(pictures["played"], pictures["opened"], there) > 25  # and is there


def test_the_download_is_the_animation(used):
    *_, said, folder = used
    assert said["file"] == "sunny_park.zip"
    shutil.unpack_archive(folder / said["file"], folder / "got")
    assert sorted(p.name for p in (folder / "got").iterdir()) == [
        "sunny_park.glb",
        "sunny_park.html",
    ]
    got = read_glb(folder / "got" / "sunny_park.glb")
    assert got is not None
    assert "newtongs animate sunny_park --push" in said["lines"]

"""Sizes that cannot end well are refused before the work, with the estimate."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from export_samples import park

from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.exports import estimates, save_animation, write_sequence
from newtongs.exports.estimates import Estimate, estimated
from newtongs.formats import load_cameras


def cameras(path, side):
    frames = [{"transform_matrix": np.eye(4).tolist()}]
    path.write_text(json.dumps({"fl_x": 500.0, "w": side, "h": side, "frames": frames}))
    return path


def refused(capsys, *words):
    """One line and code 2, long before anything could have been drawn."""
    start = time.process_time()
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said.count("\n") == 1
    assert time.process_time() - start < 5
    return said


def test_cameras_of_more_pixels_than_a_sensor_has(tmp_path):
    with pytest.raises(InputError, match=r"1 to 16,384 whole pixels per side, got 30000$"):
        load_cameras(cameras(tmp_path / "transforms.json", 30_000))
    assert load_cameras(cameras(tmp_path / "transforms.json", 14_204))


def test_a_film_that_fits_on_no_disk(tmp_path, capsys):
    said = refused(
        capsys, "animate", "bowling", "--out", str(tmp_path / "o"), "--seconds", "600",
        "--fps", "1000", "--size", "8192", "8192", "--formats", "mp4",
    )  # fmt: skip
    assert "600,001 pictures of 8192 x 8192 pixels: 120796.16" in said
    assert not (tmp_path / "o").exists()


def test_a_picture_that_fits_in_no_memory(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(estimates, "available_memory", lambda: 8 * 10**9)
    path = cameras(tmp_path / "transforms.json", 16_000)
    said = refused(capsys, "animate", "bowling", "--out", str(tmp_path), "--cameras", str(path))
    assert "a picture of 16000 x 16000 pixels takes 12.3 GB to draw, 8.0 GB are free" in said


def test_the_renderer_of_the_paper_takes_more_of_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(estimates, "available_memory", lambda: 8 * 10**9)
    words = ["animate", "bowling", "--out", str(tmp_path), "--size", "8192", "8192"]
    said = refused(capsys, *words, "--renderer", "light", "--formats", "png")
    assert "a picture of 8192 x 8192 pixels takes 8.1 GB to draw, 8.0 GB are free" in said


def test_a_large_sequence_needs_a_yes(tmp_path, capsys):
    words = ["animate", "bowling", "--out", str(tmp_path), "--formats", "ply", "--fps", "1000"]
    said = refused(capsys, *words, "--seconds", "100")
    assert "one .ply per frame takes" in said
    assert "100,001 frames of" in said
    assert "or confirm with --yes" in said
    large = Estimate(10**6, (0, 0), 10**5, 16)
    with pytest.raises(InputError):
        large.check(tmp_path, sure=False)
    large.check(tmp_path, sure=True)
    assert list(large.announcements()) == ["one .ply per frame: 25,200.0 GB in 1,000,000 files"]
    assert not list(Estimate(48, (512, 512), 50_000, 16).announcements())


def test_a_replay_is_estimated_too(tmp_path, capsys, monkeypatch):
    save_animation(park(3), tmp_path / "a.json")
    monkeypatch.setattr(estimates, "free_bytes", lambda folder: 1000)
    said = refused(capsys, "replay", str(tmp_path / "a.json"), "--formats", "ply")
    assert "3 frames of" in said


@pytest.mark.parametrize("degree", [None, 0])
def test_the_estimate_of_a_sequence_is_its_size(tmp_path, degree):
    animation = park(3)
    paths = write_sequence(animation, tmp_path / "s", sh_degree=degree)
    wanted = estimated(3, (0, 0), [animation.scene], degree).sequence
    got = sum(path.stat().st_size for path in paths)
    assert wanted <= got < 1.01 * wanted + 3 * 3000


DRAWN = """
import re, sys, torch
from pathlib import Path
from newtongs.render import render
from newtongs.views.framing import fit_camera
from newtongs.samples import named_scene

scene, up = named_scene("sunny_park").scene(), torch.tensor([0.0, 1, 0]).double()

def peak(side):
    camera = fit_camera(scene.means.double(), up, width=side, height=side, azimuth=25)
    render(scene, camera, backend=sys.argv[1])
    # Not getrusage, which counts what the parent had when it started this process.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = peak(256)
print((peak(3000) - before) / 3000**2)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units there")
@pytest.mark.parametrize("renderer", ["ewa", "light"])
def test_a_picture_takes_no_more_than_is_asked_for(renderer):
    words = [sys.executable, "-c", DRAWN, renderer]
    for _ in range(2):  # where kernels are compiled for the first time, that is the peak
        taken = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    asked = estimates.OF_RENDERER.get(renderer, estimates.PIXEL_BYTES)
    assert asked / 4 < taken < asked

"""Damaged files through every reader: a scene or one clear line, quickly, in little memory.

The damage is seeded. Each kind of file has a valid original; cut, mutated, padded, wrong-endian
and huge-header variants are drawn from it, besides random bytes and random text.
"""

import gzip
import io
import json
import re
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from harness.damage import DAMAGE
from test_formats import inria, lgm_tensor, ply, save_tensor
from test_scene import random_scene

from newtongs.base.errors import InputError
from newtongs.formats import load, load_cameras, save
from newtongs.formats.files import READABLE
from newtongs.scene import Camera, GaussianScene

SEED = 3
FILES_A_KIND = 200
SECONDS = 1.0  # for one file; a usual one takes a few milliseconds
MEMORY = 1 << 30


def plain(order):
    return lambda path: path.write_bytes(ply(("vertex", inria(random_scene(30, 1))), order=order))


def glb_file(path):
    from test_formats_glb import Document

    Document(random_scene(30, 1), {"scale": [1.0, 2.0, 1.0]}).write(path)


def ksplat_file(path):
    from test_formats_ksplat import ksplat

    path.write_bytes(ksplat(random_scene(300, 1), level=1))


def camera_json(path):
    pose = np.eye(4).tolist()
    frames = [{"file_path": f"{i}.png", "transform_matrix": pose, "k1": 0.0} for i in range(3)]
    path.write_text(json.dumps({"fl_x": 500.0, "w": 640, "h": 480, "frames": frames}))


def colmap(path):
    path.mkdir()
    (path / "cameras.txt").write_text("# comment\n1 OPENCV 640 480 500 500 320 240 0 0 0 0\n")
    (path / "images.txt").write_text(
        "# c\n1 1 0 0 0 0.5 1 2 1 a b.png\n\n2 1 0 0 0 1 1 2 1 c\n0 0\n"
    )


KINDS = {
    "scene.ply": plain("<"),
    "big.ply": plain(">"),
    "text.ply": plain(""),
    "scene.compressed.ply": lambda path: save(random_scene(300, 1), path),
    "scene.spz": lambda path: save(random_scene(300, 1), path),
    "scene.splat": lambda path: save(random_scene(30, 0), path),
    "scene.glb": glb_file,
    "scene.ksplat": ksplat_file,
    "scene.npy": lambda path: save_tensor(path, lgm_tensor(2, 30)),
    "scene.pt": lambda path: save_tensor(path, lgm_tensor(2, 30)),
    "scene.safetensors": lambda path: save_tensor(path, lgm_tensor(2, 30)),
    "cameras": None,
}


def in_place(damage, rng, content):
    return damage(rng, content)


def within_gzip(damage, rng, content):
    """Damage that no checksum of the container gives away."""
    return gzip.compress(damage(rng, gzip.decompress(content)), compresslevel=1)


def within_zip(damage, rng, content):
    """Damage to the pickle of a torch file, with a right checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            x = old.read(name)
            new.writestr(name, damage(rng, x) if name.endswith("data.pkl") else x)
    return out.getvalue()


WITHIN = {"scene.spz": within_gzip, "scene.pt": within_zip}


def peak_memory(*, restart=False):
    """Peak resident bytes of this process, since the last restart where the system allows it."""
    try:
        if restart:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        import resource

        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])


def read(reader, path):
    """What came of it; anything but a result or an InputError of one line fails the test."""
    start = time.process_time()
    try:
        result = reader(path)
    except InputError as error:
        result, message = None, str(error)
        one_line = message.strip() and "\n" not in message
        assert one_line, message
    assert time.process_time() - start < SECONDS, "too slow"
    return result


def check_scene(scene):
    assert isinstance(scene, GaussianScene)
    for field in (scene.means, scene.quats, scene.covariances, scene.opacities, scene.sh):
        assert torch.isfinite(field).all()
    assert ((scene.quats.norm(dim=-1) - 1).abs() < 1e-5).all()


def check_cameras(cameras):
    assert all(isinstance(camera, Camera) for camera in cameras)
    for camera in cameras:
        assert torch.isfinite(camera.K).all()
        assert torch.isfinite(camera.w2c).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(tmp_path, kind):
    if "compressed" in kind or "spz" in kind:
        pytest.importorskip("gsply", reason="needs newtongs[formats]")
    rng = np.random.default_rng([SEED, *kind.encode()])
    originals, reader, check = [tmp_path / kind], load, check_scene
    if kind == "cameras":
        camera_json(tmp_path / "transforms.json")
        colmap(tmp_path / "model")
        model = tmp_path / "model"
        originals = [tmp_path / "transforms.json", model / "cameras.txt", model / "images.txt"]
        reader, check = load_cameras, check_cameras
    else:
        KINDS[kind](tmp_path / kind)
    reader(originals[0])  # compiles what is compiled, and shows that the original is valid
    before, outcomes = peak_memory(restart=True), []
    for i in range(FILES_A_KIND):
        path = originals[i % len(originals)]
        whole = path.read_bytes()
        damage = DAMAGE[i % len(DAMAGE)]
        where = WITHIN.get(kind, in_place) if i // len(DAMAGE) % 2 else in_place
        damaged = where(damage, rng, whole)
        path.write_bytes(damaged)
        try:
            result = read(reader, path)
            if result is not None:
                check(result)
        except BaseException:
            (tmp_path / "failed").write_bytes(damaged)
            print(f"file {i}: {damaged[:300]!r}")
            raise
        outcomes.append(result is not None)
        path.write_bytes(whole)
    assert peak_memory() - before < MEMORY
    assert np.mean(outcomes) < 0.6, "the damage should be noticed"


@pytest.mark.parametrize("ending", READABLE)
def test_every_format_that_is_read_has_its_damaged_files(ending):
    # Their damage goes into the planes as well: test_formats_sog.py, test_formats_lod.py.
    elsewhere = {".sog", "lod-meta.json"}
    assert ending in elsewhere or any(kind.endswith(ending) for kind in KINDS)


def test_warnings_of_damaged_files_are_one_line(tmp_path):
    scene = random_scene(30, 1)
    means = scene.means.clone()
    means[3] = torch.nan
    save(scene.replace(means=means), tmp_path / "a.ply")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(tmp_path / "a.ply")
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)

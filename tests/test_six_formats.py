"""One scene in every format that we write, read back: the same pictures, up, floor, objects."""

from pathlib import Path

import pytest
import torch

from newtongs.exports.loss import around, loss
from newtongs.exports.parts import cut
from newtongs.formats import load, save
from newtongs.pipeline.source import Source, floor_of
from newtongs.samples import named_scene
from newtongs.scene import BACKGROUND
from newtongs.segment import cluster

pytest.importorskip("gsply")
pytest.importorskip("PIL")

SIX = (".ply", ".compressed.ply", ".sog", ".spz", ".glb", ".splat")
ASSETS = Path(__file__).parents[2] / "shared" / "assets"
ALIKE = 40  # dB
UP = {"kitchen_table": (0, 1, 0)}  # our own scenes stand otherwise than captures


def scene_of(name):
    if "." not in name:
        return named_scene(name).scene()
    if not (ASSETS / name).is_file():
        pytest.skip(f"needs {name} in ../shared/assets")
    return load(ASSETS / name)


def rewritten(scene, ending, tmp_path):
    save(scene, tmp_path / f"scene{ending}")
    return load(tmp_path / f"scene{ending}")


@pytest.mark.slow
@pytest.mark.parametrize("ending", [*SIX, ".compressed.glb"])
@pytest.mark.parametrize("name", ["kitchen_table", "unicorn_stuffy.ply", "narcissus.sog"])
def test_pictures_are_the_same(tmp_path, name, ending):
    scene = scene_of(name)
    # .splat has no view-dependent colour, and is compared with what it can hold.
    wanted = cut(scene, 0) if ending == ".splat" else scene
    got = rewritten(scene, ending, tmp_path)
    decibels = loss(wanted, got, around(scene, size=256)[::2])
    print(f"{name} as {ending}: {decibels:.1f} dB")
    assert decibels > ALIKE


@pytest.mark.slow
@pytest.mark.parametrize("ending", [*SIX[1:], ".compressed.glb"])
@pytest.mark.parametrize("name", ["kitchen_table", "unicorn_stuffy.ply", "narcissus.sog"])
def test_up_floor_and_objects_are_the_same(tmp_path, name, ending):
    scene = scene_of(name)
    scene = scene.replace(ids=torch.full_like(scene.ids, BACKGROUND))  # which only .ply keeps
    got = rewritten(scene, ending, tmp_path)
    a, b = (floor_of(Source(x, None, ours=False), UP.get(name)) for x in (scene, got))
    ours, theirs = cluster(scene, a.carrying), cluster(got, b.carrying)
    print(f"{name} as {ending}: floor {b.height:.4g}, was {a.height:.4g}")
    print(f"{len(theirs)} objects, were {len(ours)}; {theirs[0].count}, were {ours[0].count}")
    assert (a.plinth is None) == (b.plinth is None)
    size = float(ours[0].size.max())
    assert torch.rad2deg(torch.acos((a.up @ b.up).clamp(-1, 1))) < 1
    assert abs(a.height - b.height) < 0.02 * size
    assert abs(len(ours) - len(theirs)) <= 0.1 * len(ours)
    assert abs(theirs[0].count / ours[0].count - 1) < 0.05
    assert (theirs[0].center - ours[0].center).abs().max() < 0.05 * size

"""Streamed SOG: the level that is taken, parts of files, names that lead elsewhere."""

import json

import numpy as np
import pytest
import torch
from test_formats_fuzz import DAMAGE, read
from test_formats_sog import folder, sog
from test_scene import random_scene

from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.formats import load, lod
from newtongs.formats.files import scene_name

pytest.importorskip("PIL", reason="needs newtongs[formats]")


def leaf(**lods):
    names = ("file", "offset", "count")
    return {"lods": {k[1:]: dict(zip(names, v, strict=True)) for k, v in lods.items()}}


@pytest.fixture
def streamed(tmp_path):
    """Two files of 100 in level 0, one of 30 in level 1, and surroundings."""
    for i, (name, n) in enumerate({"0_0": 100, "0_1": 100, "1_0": 30, "env": 7}.items()):
        scene = random_scene(n)
        folder(tmp_path / name, *sog(scene.replace(means=scene.means + 10 * i)))
    meta = {
        "version": 1,
        "filenames": ["0_0/meta.json", "0_1/meta.json", "1_0/meta.json"],
        "environment": "env/meta.json",
        "tree": {
            "children": [
                leaf(l0=(0, 0, 60), l1=(2, 0, 20)),
                {"children": [leaf(l0=(0, 60, 40)), leaf(l0=(1, 0, 50), l1=(2, 20, 10))]},
            ]
        },
    }
    return tmp_path, meta


def written(streamed, **changed):
    place, meta = streamed
    (place / "lod-meta.json").write_text(json.dumps(meta | changed))
    return place / "lod-meta.json"


def test_the_finest_level_by_its_folder_and_by_name(streamed):
    path = written(streamed)
    scene = load(path)
    assert len(scene) == 60 + 40 + 50 + 7
    expected = [load(path.parent / name).means for name in ("0_0", "0_1", "env")]
    assert torch.equal(scene.means, torch.cat([expected[0], expected[1][:50], expected[2]]))
    assert torch.equal(load(path.parent).means, scene.means)


def test_a_coarser_level_takes_the_nearest_where_a_leaf_has_none(streamed):
    assert len(load(written(streamed), level=1)) == 20 + 40 + 10 + 7
    with pytest.raises(InputError, match=r"expected a level of \[0, 1\], got 5"):
        load(written(streamed), level=5)


def test_the_level_is_chosen_by_size(streamed, monkeypatch):
    monkeypatch.setattr(lod, "MOST_GAUSSIANS", 100)
    assert len(load(written(streamed))) == 20 + 40 + 10 + 7
    monkeypatch.setattr(lod, "MOST_GAUSSIANS", 1)  # none fits: the coarsest
    assert len(load(written(streamed))) == 20 + 40 + 10 + 7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"filenames": ["../x/meta.json"] * 1}, "name of a SOG in its folder"),
        ({"filenames": ["/etc/passwd"]}, "name of a SOG in its folder"),
        ({"filenames": ["0_0/meta.json"] * 3}, "a file twice"),
        ({"filenames": "x"}, "not a streamed SOG"),
        ({"filenames": []}, "refers to file 0 of 0"),
        ({"environment": "C:\\x"}, "name of a SOG in its folder"),
        ({"tree": [1]}, "not a tree of boxes"),
        ({"tree": {}}, "lists no Gaussians"),
        ({"tree": leaf(l0=(0, 50, 51))}, "up to 101 of a file of 100"),
        ({"tree": leaf(l0=(0, -1, 51))}, "lists no Gaussians"),
    ],
)
def test_damage_is_told_in_one_line(streamed, changed, message):
    with pytest.raises(InputError, match=message):
        load(written(streamed, **changed))


@pytest.mark.filterwarnings("ignore")
def test_100_damaged_descriptions(streamed):
    rng = np.random.default_rng([3, *b"lod"])
    path = written(streamed)
    whole = path.read_bytes()
    outcomes = []
    for i in range(100):
        path.write_bytes(DAMAGE[i % len(DAMAGE)](rng, whole))
        outcomes.append(read(load, path) is not None)
    assert np.mean(outcomes) < 0.6, "the damage should be noticed"


def test_inspect_honours_the_level(streamed, capsys):
    from newtongs.cli import main

    path = written(streamed)

    main(["inspect", str(path), "--plain", "--level", "1"])
    assert "77 Gaussians" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["inspect", str(path), "--plain", "--level", "5"])
    assert "got 5" in capsys.readouterr().err


def test_inspect_lists_the_levels(streamed, capsys):
    path = written(streamed)
    assert lod.levels(path) == {0: 60 + 40 + 50, 1: 20 + 40 + 10}
    main(["inspect", str(path), "--level", "1", "--plain"])
    said = capsys.readouterr().out
    assert "--level 0: 150 Gaussians\n--level 1: 70 Gaussians\n77 Gaussians" in said


def test_what_is_made_of_a_folder_is_called_like_it(streamed, monkeypatch):
    path = written(streamed)
    assert scene_name(path) == scene_name(path.parent) == path.parent.name
    assert scene_name("far/garden.v2/meta.json") == "garden.v2"
    assert scene_name("kitchen.compressed.ply") == scene_name("a/kitchen.sog") == "kitchen"
    assert scene_name("bowling") == "bowling"
    monkeypatch.chdir(path.parent)
    assert scene_name("lod-meta.json") == scene_name(".") == path.parent.name

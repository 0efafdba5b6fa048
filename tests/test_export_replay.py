"""Saved animations replay frame for frame, and what does not fit is told in one line."""

import json
import shutil

import numpy as np
import pytest
import torch
from export_samples import park, two_objects

from newtongs.base.errors import InputError
from newtongs.exports import load_animation, save_animation, write_sequence
from newtongs.formats import files
from newtongs.scene.animation import About, Animation

FIELDS = ("means", "quats", "log_scales", "logits", "sh", "ids")


def assert_same(a, b):
    for name in FIELDS:
        assert torch.equal(getattr(a.scene, name), getattr(b.scene, name)), name
    assert torch.equal(a.times, b.times)
    assert list(a.states) == list(b.states)
    for index, z in a.states.items():
        assert torch.equal(z, b.states[index])
        assert z.dtype == b.states[index].dtype
    for name in ("rotation", "offset"):
        assert torch.equal(getattr(a.world, name), getattr(b.world, name))
    assert (a.world.scale, a.about) == (b.world.scale, b.about)
    for x, y in zip(a.frames(), b.frames(), strict=True):
        assert torch.equal(x.means, y.means)
        assert torch.equal(x.covariances, y.covariances)
        assert torch.equal(x.sh, y.sh)


@pytest.mark.parametrize("seed", range(2))
def test_round_trip_is_exact(tmp_path, seed):
    animation = two_objects(seed=seed)
    save_animation(animation, tmp_path / "a.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.npz", "a_scene.ply"]
    assert_same(animation, load_animation(tmp_path / "a.json"))


def test_double_states_stay_double(tmp_path):
    a = park(5)
    double = Animation(a.scene, a.times, {3: a.states[3].double()}, a.world, a.about)
    save_animation(double, tmp_path / "a.json")
    assert_same(double, load_animation(tmp_path / "a.json"))


def test_the_affine_map_is_kept(tmp_path):
    a = two_objects()
    other = Animation(a.scene, a.times, a.states, a.world, a.about, form="impl")
    save_animation(other, tmp_path / "a.json")
    assert load_animation(tmp_path / "a.json").form == "impl"
    assert_same(other, load_animation(tmp_path / "a.json"))
    path = tmp_path / "a.json"
    assert json.loads(path.read_text())["version"] == 3  # an older reader would draw the other map
    path.write_text(path.read_text().replace('"impl"', '"some"'))
    with pytest.raises(InputError, match="'some'"):
        load_animation(path)


def test_the_source_is_referred_to_and_the_folder_can_move(tmp_path):
    animation = two_objects()
    (tmp_path / "one" / "out").mkdir(parents=True)
    files.save(animation.scene.replace(ids=torch.full_like(animation.scene.ids, -1)),
                 tmp_path / "one" / "capture.ply")  # fmt: skip
    out = tmp_path / "one" / "out" / "a.json"
    save_animation(animation, out, source=tmp_path / "one" / "capture.ply")
    assert sorted(p.name for p in out.parent.iterdir()) == ["a.json", "a.npz"]
    assert json.loads(out.read_text())["scene"]["path"] == "../capture.ply"
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert_same(animation, load_animation(tmp_path / "two" / "out" / "a.json"))


def test_a_source_that_is_not_the_scene_is_not_trusted(tmp_path):
    """Ghosts were removed, say: then the Gaussians are written."""
    animation = two_objects()
    files.save(animation.scene[1:], tmp_path / "capture.ply")
    save_animation(animation, tmp_path / "a.json", source=tmp_path / "capture.ply")
    assert (tmp_path / "a_scene.ply").exists()
    assert_same(animation, load_animation(tmp_path / "a.json"))


def test_the_numbers_are_plain(tmp_path):
    animation = two_objects()
    save_animation(animation, tmp_path / "a.json")
    numbers = np.load(tmp_path / "a.npz", allow_pickle=False)
    A, b = numbers["A_7"], numbers["b_7"]
    rows = (animation.scene.ids == 7).numpy()
    moved = animation.frames()[4].means.numpy()[rows]
    start = animation.scene.means.numpy()[rows].astype(float)
    np.testing.assert_allclose(start @ A[4].T + b[4], moved, atol=1e-5)
    entry = json.loads((tmp_path / "a.json").read_text())["objects"][0]
    assert entry["id"] == 7
    assert entry["gaussians"] == rows.sum()
    assert entry["initial_state"]["p"] == pytest.approx(animation.states[7][0, :3].tolist())


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: (d / "a_scene.ply").unlink(), "is missing"),
        (lambda d: cut_off(d / "a_scene.ply"), "has changed"),
        (lambda d: (d / "a.npz").unlink(), "is missing"),
        (lambda d: cut_off(d / "a.npz"), "has changed"),
        (lambda d: change(d / "a.json", version=99), "version 99"),
        (lambda d: change(d / "a.json", format="other"), "not a saved animation"),
        (lambda d: (d / "a.json").write_text("{"), "JSON"),
        (lambda d: (d / "a.json").write_text("[]"), "not a saved animation"),
        (lambda d: change(d / "a.json", world=3), "changed by hand"),
        (lambda d: change(d / "a.json", objects=[{"id": 12}]), "changed by hand"),
        (lambda d: (d / "a.json").unlink(), "no file"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, damage, said):
    save_animation(park(3), tmp_path / "a.json")
    damage(tmp_path)
    with pytest.raises(InputError, match=said) as caught:
        load_animation(tmp_path / "a.json")
    assert "\n" not in str(caught.value)


def test_pickles_are_not_opened(tmp_path):
    save_animation(park(3), tmp_path / "a.json")
    np.savez(tmp_path / "a.npz", times=np.array([{"evil": 1}], dtype=object))
    tree = json.loads((tmp_path / "a.json").read_text())
    from newtongs.exports.replay import _entry

    change(tmp_path / "a.json", numbers=_entry(tmp_path / "a.npz", tmp_path / "a.json"))
    assert tree["numbers"] != json.loads((tmp_path / "a.json").read_text())["numbers"]
    with pytest.raises(InputError, match="changed by hand"):
        load_animation(tmp_path / "a.json")


def test_double_scenes_and_wrong_names_are_told(tmp_path):
    a = park(2)
    scene = a.scene.replace(means=a.scene.means.double())
    with pytest.raises(InputError, match="float32"):
        save_animation(Animation(scene, a.times, a.states), tmp_path / "a.json")
    with pytest.raises(InputError, match=r"\.json"):
        save_animation(a, tmp_path / "a.txt")


def test_sequence_is_the_transform_frame_by_frame(tmp_path):
    animation, seen = two_objects(4), []
    paths = write_sequence(animation, tmp_path / "s", progress=seen.append)
    assert [p.name for p in paths] == [f"frame000{i}.ply" for i in (1, 2, 3, 4)]
    assert seen == [1, 2, 3, 4]
    for t, path in enumerate(paths):
        got, wanted = files.load(path), animation.frames()[t]
        for name in FIELDS:
            assert torch.equal(getattr(got, name), getattr(wanted, name)), (t, name)
    first = files.load(paths[0])
    assert torch.equal(first.means, animation.scene.means)


def test_a_shorter_sequence_leaves_no_old_frames(tmp_path):
    write_sequence(two_objects(4), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "frame9.ply").write_text("mine too")
    write_sequence(two_objects(2), tmp_path, sh_degree=0)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["frame0001.ply", "frame0002.ply", "frame9.ply", "notes.txt"]
    assert files.load(tmp_path / "frame0002.ply").sh_degree == 0


def test_files_of_version_1_are_still_read(tmp_path):
    """They had a free-form "info", of which nothing is kept."""
    made = park(3)
    save_animation(made, tmp_path / "a.json")
    tree = json.loads((tmp_path / "a.json").read_text())
    del tree["about"]
    old = tree | {"version": 1, "info": {"pushes": [{"velocity": [1, 2, 3]}]}}
    (tmp_path / "a.json").write_text(json.dumps(old))
    again = load_animation(tmp_path / "a.json")
    assert again.about == About()
    assert all(torch.equal(again.states[i], z) for i, z in made.states.items())

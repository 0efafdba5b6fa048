"""The codec of EXT_meshopt_compression by its laws, and compressed glTF against the scene."""

import contextlib

import numpy as np
import pytest
import torch
from animated_glb import read_glb
from export_samples import park, random_scene, two_objects
from test_export_glb import tree_of

from newtongs.base.errors import InputError
from newtongs.exports import write_glb
from newtongs.exports.loss import loss
from newtongs.exports.parts import parts
from newtongs.formats import load, meshopt, save
from newtongs.views.framing import default_camera

# One stream of the codec, written by hand from its description. The differences of the columns of
# ROWS are 0 1 0 and 0 0 -56 and 0 -1 0, folded 0 2 0 and 0 0 111 and 0 1 0.
BY_HAND = bytes(
    [0xA0]
    + [0b01, 0b00100000, 0, 0, 0]  # 2 bits a number: 0 2 0
    + [0b01, 0b00001100, 0, 0, 0, 111]  # 0 0 and one that is too large
    + [0b01, 0b00010000, 0, 0, 0]  # 0 1 0: one less
    + [0b00]
    + [0] * 28
    + [7, 0, 5, 0]
)
ROWS = np.array([[7, 0, 5, 0], [8, 0, 4, 0], [8, 200, 4, 0]], np.uint8)


def test_a_stream_made_by_hand():
    assert np.array_equal(meshopt.decode(BY_HAND, 3, 4), ROWS)
    assert meshopt.encode(ROWS).tobytes() == BY_HAND


@pytest.mark.parametrize(("n", "width"), [(1, 4), (15, 8), (256, 12), (257, 12), (40, 256)])
def test_rows_come_back(n, width):
    rng = np.random.default_rng(n)
    spread = rng.choice([0, 1, 4, 40], width)
    rows = (rng.normal(size=(n, width)) * spread).astype(np.int8).view(np.uint8)
    assert np.array_equal(meshopt.decode(meshopt.encode(rows).tobytes(), n, width), rows)


def test_what_repeats_costs_two_bits_for_sixteen():
    rows = np.tile(np.arange(12, dtype=np.uint8), (25_600, 1))
    assert len(meshopt.encode(rows)) == 1 + 25_600 * 12 // 64 + 32


@pytest.mark.parametrize("cut", [1, 20, 33, 200])
def test_a_stream_cut_off_is_refused(cut):
    rows = np.random.default_rng(0).integers(0, 256, (300, 8), np.uint8)
    stream = meshopt.encode(rows).tobytes()
    with pytest.raises(InputError, match="meshopt"):
        meshopt.decode(stream[:-cut], 300, 8)
    with pytest.raises(InputError, match="meshopt"):
        meshopt.decode(stream[:cut], 300, 8)


def test_a_small_file_cannot_ask_for_much_memory():
    with pytest.raises(InputError, match="cannot hold"):
        meshopt.decode(meshopt.encode(ROWS).tobytes(), 1 << 31, 4)


def test_filters_are_as_fine_as_they_say():
    x = np.random.default_rng(0).normal(size=(500, 3)) * 3

    def back(codes):
        return meshopt.to_floats(codes.view(np.uint8).reshape(500, -1)).reshape(500, 3)

    assert np.abs(back(meshopt.fixed_point(x, -6)) - x).max() <= 2**-7
    assert np.abs(back(meshopt.floating_point(np.exp(x), 7)) / np.exp(x) - 1).max() <= 2**-7
    q = np.random.default_rng(1).normal(size=(500, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    rows = meshopt.from_quaternions(q, 12).view(np.uint8).reshape(500, 8)
    turned = (meshopt.to_quaternions(rows) / 32767 * q).sum(1)
    assert np.abs(np.abs(turned) - 1).max() < 1 / 32767


def test_a_compressed_animation_moves_as_the_exact_one(tmp_path):
    animation = two_objects()
    for name, compress in (("exact", False), ("small", True)):
        write_glb(animation, tmp_path / f"{name}.glb", compress=compress)
    _, exact = read_glb(tmp_path / "exact.glb")
    scene, small = read_glb(tmp_path / "small.glb")
    assert torch.equal(exact.times, small.times)
    for index, matrices in exact.matrices.items():
        assert torch.equal(matrices, small.matrices[index])
    for index in animation.states:
        assert int((scene.ids == index).sum()) == int((animation.scene.ids == index).sum())


@pytest.mark.parametrize("make", [park, two_objects])
def test_a_compressed_animation_looks_the_same(tmp_path, make):
    animation = make(9)
    write_glb(animation, tmp_path / "a.glb", compress=True)
    camera = default_camera(animation, (200, 200))
    assert loss(animation.scene, load(tmp_path / "a.glb"), [camera]) > 45


def test_a_compressed_file_says_what_it_needs(tmp_path):
    write_glb(two_objects(), tmp_path / "a.glb", compress=True)
    tree, data = tree_of(tmp_path / "a.glb")
    assert tree["extensionsRequired"] == ["EXT_meshopt_compression"]
    assert {"KHR_gaussian_splatting", "EXT_meshopt_compression"} == {*tree["extensionsUsed"]}
    assert tree["buffers"][0]["byteLength"] == len(data)
    assert tree["buffers"][1]["extensions"]["EXT_meshopt_compression"] == {"fallback": True}
    for view in tree["bufferViews"]:
        if about := view.get("extensions", {}).get("EXT_meshopt_compression"):
            assert view["byteLength"] == about["count"] * about["byteStride"]
            assert about["byteOffset"] % 4 == 0
    accessors = [
        tree["accessors"][i] for i in tree["meshes"][0]["primitives"][0]["attributes"].values()
    ]
    assert {a["componentType"] for a in accessors} == {5126, 5122, 5121}
    position = tree["meshes"][0]["primitives"][0]["attributes"]["POSITION"]
    still = next(p.scene for p in parts(two_objects()) if p.id is None)
    low = torch.tensor(tree["accessors"][position]["min"])
    torch.testing.assert_close(low, still.means.amin(0), atol=1e-2, rtol=0)


def test_many_gaussians_are_a_tenth(tmp_path):
    """View-dependent colour from a palette of a few: the rest of a Gaussian takes some 20 bytes."""
    few = random_scene(100, seed=1)
    scene = random_scene(100_000, seed=2)
    colours = few.sh[torch.randint(0, 100, (100_000,), generator=torch.Generator().manual_seed(0))]
    scene = scene.replace(sh=torch.cat([scene.sh[:, :1], colours[:, 1:]], 1))
    for name in ("a.glb", "a.compressed.glb"):
        save(scene, tmp_path / name)
    exact, small = ((tmp_path / n).stat().st_size for n in ("a.glb", "a.compressed.glb"))
    assert exact / small > 9


def test_a_still_glb_is_the_scene_bit_for_bit(tmp_path):
    scene = random_scene(200)
    save(scene, tmp_path / "a.glb")
    back = load(tmp_path / "a.glb")
    torch.testing.assert_close(back.means, scene.means, rtol=0, atol=0)
    torch.testing.assert_close(back.sh, scene.sh, rtol=0, atol=0)
    torch.testing.assert_close(back.covariances, scene.covariances)


def test_another_codec_is_named_in_the_error(tmp_path):
    save(random_scene(50), tmp_path / "a.compressed.glb")
    raw = (tmp_path / "a.compressed.glb").read_bytes()
    other = raw.replace(b"ATTRIBUTES", b"TRIANGLES ")
    (tmp_path / "b.glb").write_bytes(other)
    with pytest.raises(InputError, match="mode 'TRIANGLES '"):
        load(tmp_path / "b.glb")


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_are_one_line(tmp_path, seed):
    """A byte changed anywhere: the scene, or an error, never anything else."""
    save(random_scene(60, seed=3), tmp_path / "a.compressed.glb")
    raw = bytearray((tmp_path / "a.compressed.glb").read_bytes())
    rng = np.random.default_rng(seed)
    for at in rng.integers(12, len(raw), 4):
        raw[at] ^= int(rng.integers(1, 256))
    (tmp_path / "b.glb").write_bytes(raw)
    with contextlib.suppress(InputError):
        assert len(load(tmp_path / "b.glb")) <= 60

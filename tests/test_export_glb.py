"""Binary glTF: the file read back moves as the formula says, and is what the standard asks for."""

import json
import struct

import numpy as np
import pytest
import torch
from animated_glb import read_glb
from export_samples import park, reference_frame, relative, two_objects

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.exports import write_glb
from newtongs.exports.parts import parts
from newtongs.formats.files import load
from newtongs.scene.animation import About, Animation


def tree_of(path):
    data = path.read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    assert data[:4] == b"glTF"
    assert struct.unpack_from("<I", data, 8)[0] == len(data)
    return json.loads(data[20 : 20 + size]), data[20 + size + 8 :]


def in_file_order(animation):
    """Rows of the scene in the order in which a file has them."""
    ids = animation.scene.ids
    still = ~torch.isin(ids, torch.tensor(list(animation.states)))
    groups = [still, *(ids == i for i in animation.states)]
    return torch.cat([g.nonzero().squeeze(-1) for g in groups])


@pytest.mark.parametrize("seed", range(3))
def test_every_frame_reads_back(tmp_path, seed):
    animation = two_objects(seed=seed)
    path = tmp_path / "a.glb"
    write_glb(animation, path)
    scene, tracks = read_glb(path)
    rows = in_file_order(animation)
    upright = rotations.to_matrix(animation.world.rotation)
    torch.testing.assert_close(tracks.times.float(), animation.times)
    for t in range(len(animation)):
        means, sigma = reference_frame(animation, t)
        got_means, got_sigma = tracks.place(scene, t)
        torch.testing.assert_close(got_means, means[rows] @ upright.T, rtol=0, atol=3e-6)
        assert relative(got_sigma, (upright @ sigma @ upright.T)[rows]) < 5e-6


def test_frames_agree_with_the_renderers_frames(tmp_path):
    """The second witness: what the renderers are handed."""
    animation = two_objects()
    write_glb(animation, tmp_path / "a.glb")
    scene, tracks = read_glb(tmp_path / "a.glb")
    rows, back = in_file_order(animation), tracks.root[:3, :3].T
    for t, frame in enumerate(animation.frames()):
        means, sigma = tracks.place(scene, t)
        torch.testing.assert_close((means @ back.T).float(), frame.means[rows], rtol=0, atol=1e-5)
        packed = (back @ sigma @ back.T).flatten(1)[:, [0, 1, 2, 4, 5, 8]]
        torch.testing.assert_close(packed.float(), frame.covariances[rows], rtol=1e-4, atol=1e-6)


def test_colour_and_opacity_read_back(tmp_path):
    animation = two_objects()
    write_glb(animation, tmp_path / "a.glb")
    scene, _ = read_glb(tmp_path / "a.glb")
    wanted = animation.scene[in_file_order(animation)]
    torch.testing.assert_close(scene.sh.float(), wanted.sh, rtol=0, atol=0)
    torch.testing.assert_close(scene.opacities.float(), wanted.opacities, rtol=0, atol=1e-6)
    torch.testing.assert_close(scene.quats.float().abs(), wanted.quats.abs(), rtol=0, atol=2e-7)
    assert set(scene.ids.tolist()) == {-1, 7, 2}


def test_the_tree_is_what_the_standard_asks_for(tmp_path):
    animation = park()
    write_glb(animation, tmp_path / "a.glb")
    tree, data = tree_of(tmp_path / "a.glb")
    assert tree["asset"]["version"] == "2.0"
    assert tree["asset"]["extras"]["about"] == json.loads(json.dumps(animation.about.to_json()))
    assert tree["extensionsUsed"] == ["KHR_gaussian_splatting"]
    assert tree["buffers"] == [{"byteLength": len(data)}]
    for view in tree["bufferViews"]:
        assert view["byteOffset"] % 4 == 0
        assert view["byteOffset"] + view["byteLength"] <= len(data)
    for mesh in tree["meshes"]:
        (primitive,) = mesh["primitives"]
        assert primitive["mode"] == 0
        assert primitive["extensions"]["KHR_gaussian_splatting"] == {
            "kernel": "ellipse",
            "colorSpace": "srgb_rec709_display",
            "projection": "perspective",
            "sortingMethod": "cameraDistance",
        }
        position = tree["accessors"][primitive["attributes"]["POSITION"]]
        start = tree["bufferViews"][position["bufferView"]]["byteOffset"]
        rows = np.frombuffer(data, "<f4", 3 * position["count"], start).reshape(-1, 3)
        assert rows.min(0).tolist() == position["min"]
        assert rows.max(0).tolist() == position["max"]
    (motion,) = tree["animations"]
    clock = {s["input"] for s in motion["samplers"]}
    assert len(clock) == 1
    assert "min" in tree["accessors"][clock.pop()]
    paths = [c["target"]["path"] for c in motion["channels"]]
    assert paths == ["translation", "rotation", "scale"]
    assert all(s["interpolation"] == "LINEAR" for s in motion["samplers"])


def test_rotations_do_not_flip(tmp_path):
    """Viewers mix neighbouring quaternions; opposite signs would make the object tumble."""
    animation = park()
    assert (animation.states[3][1:, 3:7] * animation.states[3][:-1, 3:7]).sum(-1).min() < 0
    write_glb(animation, tmp_path / "a.glb")
    tree, data = tree_of(tmp_path / "a.glb")
    sampler = tree["animations"][0]["samplers"][1]
    accessor = tree["accessors"][sampler["output"]]
    start = tree["bufferViews"][accessor["bufferView"]]["byteOffset"]
    q = np.frombuffer(data, "<f4", 4 * accessor["count"], start).reshape(-1, 4)
    assert ((q[1:] * q[:-1]).sum(1) > 0).all()
    assert np.allclose((q * q).sum(1), 1, atol=1e-6)


def test_an_object_of_50k_with_60_frames_is_under_5_mb(tmp_path):
    big = two_objects(60, degree=3, n=25_000)
    part = big.scene[(big.scene.ids == 7) | (big.scene.ids == 2)]
    animation = Animation(part, big.times, big.states, big.world)
    assert len(part) > 50_000
    write_glb(animation, tmp_path / "small.glb", sh_degree=0)
    assert (tmp_path / "small.glb").stat().st_size < 3e6
    write_glb(animation, tmp_path / "full.glb")
    assert (tmp_path / "full.glb").stat().st_size > 236 * len(part)
    assert read_glb(tmp_path / "small.glb")[0].sh_degree == 0


def test_a_single_frame_and_no_background(tmp_path):
    animation = two_objects(1)
    only = animation.scene[animation.scene.ids == 7]
    still = Animation(only, animation.times, {7: animation.states[7]}, animation.world)
    write_glb(still, tmp_path / "a.glb")
    assert "animations" not in tree_of(tmp_path / "a.glb")[0]
    scene, tracks = read_glb(tmp_path / "a.glb")
    means, _ = tracks.place(scene, 0)
    upright = rotations.to_matrix(animation.world.rotation)
    torch.testing.assert_close(means, only.means.double() @ upright.T, rtol=0, atol=2e-6)


def test_parts_cover_every_gaussian_once():
    animation = two_objects()
    pieces = parts(animation)
    assert [p.id for p in pieces] == [None, 7, 2]
    assert sum(len(p.scene) for p in pieces) == len(animation.scene)
    assert set(pieces[0].scene.ids.tolist()) == {-1, 5}


@pytest.mark.parametrize(
    "damage",
    [lambda x: b"", lambda x: x[:100], lambda x: b"no" + x, lambda x: x[: len(x) // 2],
     lambda x: x.replace(b'"nodes"', b'"knots"')],
)  # fmt: skip
def test_damaged_files_are_told_in_one_line(tmp_path, damage):
    write_glb(park(3), tmp_path / "a.glb")
    (tmp_path / "b.glb").write_bytes(damage((tmp_path / "a.glb").read_bytes()))
    with pytest.raises(InputError) as caught:
        load(tmp_path / "b.glb")
    assert "\n" not in str(caught.value)


def test_bad_input_is_told(tmp_path):
    animation = park(3)
    with pytest.raises(InputError, match="sh_degree"):
        write_glb(animation, tmp_path / "a.glb", sh_degree=4)
    about = About(seconds=float("nan"))
    odd = Animation(animation.scene, animation.times, animation.states, about=about)
    with pytest.raises(InputError, match="JSON"):
        write_glb(odd, tmp_path / "a.glb")
    missing = Animation(animation.scene, animation.times, {9: animation.states[3]})
    with pytest.raises(InputError, match="no object 9"):
        write_glb(missing, tmp_path / "a.glb")
    assert not list(tmp_path.iterdir())

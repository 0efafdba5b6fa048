"""Axes of files: every naming, positions, shapes and colour turned together, and back exactly."""

import gzip
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from test_formats_packed import spz
from test_scene import random_scene

from newtongs.base.errors import InputError
from newtongs.formats import axes as file_axes
from newtongs.formats import load, save
from newtongs.formats.axes import AXES, from_ours, matrix, to_ours
from newtongs.scene.sh import basis

ASSETS = Path(__file__).parents[2] / "shared" / "assets"


@pytest.fixture(scope="module")
def scene():
    return random_scene(50, 3)


def test_there_are_48_and_half_of_them_mirror():
    assert len(AXES) == len({*AXES}) == 48
    assert sum(torch.linalg.det(matrix(name)) < 0 for name in AXES) == 24
    assert torch.equal(matrix("RDF"), torch.eye(3).double())
    assert matrix("RUB").diagonal().tolist() == [1, -1, -1]
    assert matrix("RBU")[:, 2].tolist() == [0, -1, 0]  # its z is up, which is our -y


@pytest.mark.parametrize("name", AXES)
def test_positions_covariances_and_colours_turn_alike(scene, name):
    M, ours = matrix(name), to_ours(scene, name)
    torch.testing.assert_close(ours.means.double(), scene.means.double() @ M.mT)
    expected = M @ scene.covariances.double() @ M.mT
    torch.testing.assert_close(ours.covariances.double(), expected, rtol=1e-5, atol=1e-6)
    d = torch.nn.functional.normalize(torch.randn(20, 3, dtype=torch.float64), dim=-1)
    before = torch.einsum("dk,nkc->dnc", basis(d), scene.sh.double())
    after = torch.einsum("dk,nkc->dnc", basis(d @ M.mT), ours.sh.double())
    torch.testing.assert_close(after, before, rtol=0, atol=1e-5)
    assert torch.equal(ours.logits, scene.logits)
    assert torch.equal(ours.ids, scene.ids)


@pytest.mark.parametrize("name", ["RUB", "LUF", "LDB", "RUF", "RBU"])
def test_back_again_is_exact_but_for_the_colour_of_quarter_turns(scene, name):
    back = from_ours(to_ours(scene, name), name)
    for field in ("means", "quats", "log_scales"):
        assert torch.equal(getattr(back, field), getattr(scene, field)), field
    flips = "U" in name[1] or "D" in name[1]
    torch.testing.assert_close(back.sh, scene.sh, rtol=0, atol=0 if flips else 1e-5)


def test_our_own_axes_leave_the_scene_alone(scene):
    assert to_ours(scene, "rdf") is scene


@pytest.mark.parametrize("wrong", ["", "up", "RRF", "RDD", "XYZ", "RDFB"])
def test_wrong_names(wrong):
    with pytest.raises(InputError, match="axes"):
        file_axes.checked(wrong)


def record(kind, payload):
    return struct.pack("<II", kind, len(payload)) + payload


def with_extension(code=None, *, version=2, flag=2, before=b""):
    """One Gaussian at (1, -2, 0.5), and what a writer says of its axes."""
    positions = b"".join((v & 0xFFFFFF).to_bytes(3, "little") for v in (4096, -8192, 2048))
    body = positions + bytes([204, 255, 0, 128, 160, 144, 176, 255, 128, 128])
    more = before + (b"" if code is None else record(0xADBE0003, struct.pack("<I", code)))
    head = struct.pack("<4sIIBBBB", b"NGSP", version, 1, 0, 12, flag, 0)
    return gzip.compress(head + body + more)


@pytest.fixture
def written(tmp_path):
    pytest.importorskip("gsply", reason="needs newtongs[formats]")

    def write(content):
        (tmp_path / "a.spz").write_bytes(content)
        return tmp_path / "a.spz"

    return write


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (None, [1, 2, -0.5]),  # RUB, as the format says
        (0, [1, 2, -0.5]),  # unspecified
        (4, [1, 2, -0.5]),
        (6, [1, -2, 0.5]),  # RDF
        (7, [-1, 2, 0.5]),  # LUF
        (16, [1, -0.5, 2]),  # RBU: y is back, z is up
        (12, [1, -0.5, -2]),  # RFU
    ],
)
def test_an_spz_says_its_axes_or_is_right_up_back(written, code, expected):
    path = written(with_extension(code))
    assert load(path).means.tolist() == [expected]
    assert load(path, axes="RDF").means.tolist() == [[1, -2, 0.5]]


def test_other_extensions_come_before_and_none_counts_without_its_flag(written):
    orbit = record(0xADBE0002, bytes(12))
    assert load(written(with_extension(6, before=orbit))).means.tolist() == [[1, -2, 0.5]]
    assert load(written(with_extension(6, flag=0))).means.tolist() == [[1, 2, -0.5]]


@pytest.mark.parametrize("tail", [record(0xADBE0003, b"")[:5], record(0xADBE0003, b"\1\0")])
def test_a_cut_extension_is_damage(written, tail):
    with pytest.raises(InputError, match="extension"):
        load(written(with_extension(before=tail)))


def test_unknown_axes_of_an_extension(written):
    with pytest.raises(InputError, match="got 17"):
        load(written(with_extension(17)))
    assert len(load(written(with_extension(17)), axes="RUB")) == 1


def test_version_4_holds_its_extension_between_header_and_table(tmp_path):
    pytest.importorskip("zstandard")
    gsply = pytest.importorskip("gsply")
    scene = random_scene(100, 1)
    save(scene, tmp_path / "three.spz")
    gsply.write_spz(tmp_path / "four.spz", gsply.read_spz(tmp_path / "three.spz"), version=4)
    raw = bytearray((tmp_path / "four.spz").read_bytes())
    extension = record(0xADBE0003, struct.pack("<I", 6))
    raw[14] |= 2
    raw[16:20] = struct.pack("<I", 32 + len(extension))
    (tmp_path / "four.spz").write_bytes(raw[:32] + extension + raw[32:])
    plain, said = load(tmp_path / "three.spz"), load(tmp_path / "four.spz")
    torch.testing.assert_close(said.means, plain.means * torch.tensor([1.0, -1, -1]))


def test_an_spz_is_written_right_up_back(tmp_path):
    gsply = pytest.importorskip("gsply")
    scene = random_scene(100, 3)
    save(scene, tmp_path / "a.spz")
    stored = torch.from_numpy(np.array(gsply.read_spz(tmp_path / "a.spz").means))
    assert (stored - scene.means * torch.tensor([1.0, -1, -1])).abs().max() < 1e-3
    assert (load(tmp_path / "a.spz").means - scene.means).abs().max() < 1e-3


def test_axes_override_every_format(tmp_path):
    scene = random_scene(20, 2)
    save(scene, tmp_path / "a.ply")
    turned = load(tmp_path / "a.ply", axes="RUB")
    assert torch.equal(turned.means, scene.means * torch.tensor([1.0, -1, -1]))
    with pytest.raises(InputError, match="axes"):
        load(tmp_path / "a.ply", axes="up")


def test_a_bomb_of_extensions_is_not_unfolded(written):
    zeros = gzip.decompress(with_extension(6)) + bytes(50 << 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(written(gzip.compress(zeros))).means.tolist() == [[1, -2, 0.5]]
    assert spz(n=1)


# The same capture in three formats


def asset(ending):
    path = ASSETS / f"narcissus{ending}"
    if not path.exists():
        pytest.skip(f"needs the capture {path.name}")
    pytest.importorskip("gsply", reason="needs newtongs[formats]")
    return load(path)


@pytest.mark.parametrize("ending", [".spz", ".compressed.ply"])
def test_one_capture_in_three_formats_comes_out_alike(ending):
    spatial = pytest.importorskip("scipy.spatial")
    if ending == ".spz":
        pytest.importorskip("zstandard")
    one, other = asset(".sog"), asset(ending)
    low, high = (a - b for a, b in zip(one.bounds(), other.bounds(), strict=True))
    step = 3.8 / 1023 / 2 + 1 / 4096  # half a step of the coarsest: 10 bits of a chunk's height
    assert max(low.abs().max(), high.abs().max()) < step

    def features(s):
        return torch.cat([300 * s.means, 3 * s.log_scales, 50 * s.colors], 1).numpy()

    _, match = spatial.cKDTree(features(other)).query(features(one))
    off = (one.means - other.means[match]).norm(dim=-1)
    assert off.max() < 2 * step
    assert len({*match.tolist()}) > 0.999 * len(one)
    apart = (one.covariances - other.covariances[match]).flatten(1).norm(dim=1)
    size = one.covariances.flatten(1).norm(dim=1)
    assert (apart / size).median() < 1 / 16  # half a step of 1/16 in SPZ's log scales, squared


# Through the program


def test_an_animation_remembers_the_axes_its_file_was_read_in(tmp_path):
    pytest.importorskip("gsply", reason="needs newtongs[formats]")
    from newtongs import animate
    from newtongs.exports.replay import load_animation, save_animation

    source = tmp_path / "a.spz"
    save(random_scene(200, 1), source)
    for axes, path in ((None, tmp_path / "one.json"), ("RDF", tmp_path / "two.json")):
        scene = load(source, axes=axes)
        animation = animate(scene, select="all", seconds=0.1, up=(0, -1, 0), floor_height=-20)
        save_animation(animation, path, source=source)
        assert torch.equal(load_animation(path).scene.means, animation.scene.means)


def test_old_animations_of_an_spz_were_made_of_it_as_it_is_stored(tmp_path):
    pytest.importorskip("gsply", reason="needs newtongs[formats]")
    import json

    from newtongs import animate
    from newtongs.exports.replay import load_animation, save_animation

    source = tmp_path / "a.spz"
    save(random_scene(200, 1), source)
    still = {"up": (0, -1, 0), "floor_height": -20, "show_floor": False}
    animation = animate(source, select="all", seconds=0.1, **still)
    save_animation(animation, tmp_path / "a.json", source=source)
    tree = json.loads((tmp_path / "a.json").read_text())
    assert tree["scene"].pop("axes") == "RUB"
    (tmp_path / "a.json").write_text(json.dumps(tree))
    old = load_animation(tmp_path / "a.json").scene
    assert torch.equal(old.means, load(source, axes="RDF").means)


@pytest.mark.parametrize("command", ["inspect", "animate", "collider"])
def test_axes_are_checked_before_anything_is_done(tmp_path, command, capsys):
    from newtongs.cli import main

    save(random_scene(20), tmp_path / "a.ply")
    out = [] if command == "inspect" else ["--out", str(tmp_path / "x.glb")]
    with pytest.raises(SystemExit) as stop:
        main([command, str(tmp_path / "a.ply"), "--axes", "up", *out])
    assert stop.value.code == 2
    assert "three letters" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([command, "sunny_park", "--axes", "RUB", *out])
    assert "leave them out" in capsys.readouterr().err


def test_inspect_says_that_it_turned(tmp_path, capsys):
    pytest.importorskip("gsply", reason="needs newtongs[formats]")
    from newtongs.cli import main

    save(random_scene(300), tmp_path / "a.spz")
    main(["inspect", str(tmp_path / "a.spz"), "--plain"])
    assert "axes: RUB in the file, rotated to RDF" in capsys.readouterr().out

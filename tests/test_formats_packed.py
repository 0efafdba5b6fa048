"""Compressed .ply, .spz and .splat: bits laid by hand, rounding, files that lie about size."""

import gzip
import io
import struct
import sys

import numpy as np
import pytest
import torch
from test_formats import ply
from test_scene import random_scene

from newtongs.base.errors import InputError
from newtongs.formats import load, save
from newtongs.formats import spz as packed

pytest.importorskip("gsply", reason="needs newtongs[formats]")


@pytest.fixture
def written(tmp_path):
    def write(content, name="scene.ply"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize("ending", [".compressed.ply", ".spz"])
@pytest.mark.parametrize("degree", [0, 2, 3])
def test_packed_round_trip_is_within_its_rounding(tmp_path, ending, degree):
    scene = random_scene(700, degree)
    scene = scene.replace(sh=scene.sh.clamp(-0.9, 0.9), log_scales=scene.log_scales - 3)
    save(scene, tmp_path / f"a{ending}")
    read = load(tmp_path / f"a{ending}")
    spread = float(scene.means.max() - scene.means.min())
    within = {"means": spread / 1023, "log_scales": 1 / 32 + 1e-6, "opacities": 0.5 / 255 + 1e-5}
    for name, limit in within.items():
        assert (getattr(read, name) - getattr(scene, name)).abs().max() <= limit, name
    coarse = 1 / 16 if ending == ".spz" and degree > 1 else 1 / 32  # 4 bits, as in its own writer
    assert (read.sh - scene.sh).abs().max() <= coarse
    assert ((read.quats * scene.quats).sum(-1).abs() > 0.9999).all()


def compressed_columns(n=1):
    """All Gaussians alike: in the middle of their bounds, turned by 90 degrees about x."""
    bounds = {"x": (-1, 1), "y": (0, 4), "z": (5, 7)}
    chunk = {f"min_{a}": [lo] for a, (lo, _) in bounds.items()}
    chunk |= {f"max_{a}": [hi] for a, (_, hi) in bounds.items()}
    chunk |= {f"{end}_scale_{a}": [v] for end, v in (("min", -4), ("max", -2)) for a in "xyz"}
    middle = (1024 << 21) | (512 << 11) | 1023
    turned = (1 << 30) | (1023 << 20) | (512 << 10) | 512  # largest is x, w = sqrt(1/2)
    color = (255 << 24) | (0 << 16) | (51 << 8) | 204
    packed = {"position": middle, "rotation": turned, "scale": middle, "color": color}
    vertex = {f"packed_{k}": np.full(n, v, np.uint32) for k, v in packed.items()}
    return {k: np.float32(v) for k, v in chunk.items()}, vertex


@pytest.mark.parametrize("order", ["<", ">"])
def test_compressed_ply_bits_also_of_old_files_without_colour_bounds(written, order):
    chunk, vertex = compressed_columns()
    rest = {f"f_rest_{i}": np.array([i * 20], np.uint8) for i in range(9)}
    path = written(ply(("chunk", chunk), ("vertex", vertex), ("sh", rest), order=order))
    scene = load(path)
    torch.testing.assert_close(scene.means[0], torch.tensor([0, 2, 6.0]), rtol=0, atol=3e-3)
    assert (scene.log_scales + 3).abs().max() < 2e-3
    torch.testing.assert_close(scene.colors[0], torch.tensor([1, 0, 0.2]), rtol=0, atol=1e-5)
    assert abs(scene.opacities[0] - 0.8) < 1e-5
    half = 0.5**0.5
    torch.testing.assert_close(scene.quats[0], torch.tensor([half, half, 0, 0]), rtol=0, atol=2e-3)
    expected = (torch.arange(9).reshape(3, 3).T * 20 - 127.5) / 32  # stored channel by channel
    torch.testing.assert_close(scene.sh[0, 1:], expected)


def test_compressed_ply_with_too_few_chunks(written):
    chunk, vertex = compressed_columns(257)
    with pytest.raises(InputError, match="need 2 chunks, found 1"):
        load(written(ply(("chunk", chunk), ("vertex", vertex))))


def spz(version=2, n=2, degree=0, body=None):
    body = bytes(n * (19 if version < 3 else 20)) if body is None else body
    return gzip.compress(struct.pack("<4sIIBBBB", b"NGSP", version, n, degree, 12, 0, 0) + body)


def test_spz_bytes(written):
    positions = b"".join((v & 0xFFFFFF).to_bytes(3, "little") for v in (4096, -8192, 2048))
    body = positions + bytes([204]) + bytes([255, 0, 128]) + bytes([160, 144, 176])
    body += bytes([255, 128, 128])  # x = 1: half a turn
    scene = load(written(spz(n=1, body=body), "a.spz"))
    assert scene.means.tolist() == [[1, 2, -0.5]]  # stored right, up, back
    assert scene.log_scales.tolist() == [[0, -1, 1]]
    assert abs(scene.opacities[0] - 0.8) < 1e-5
    assert scene.quats[0, 1] > 0.9999
    torch.testing.assert_close(
        scene.sh[0, 0], torch.tensor([0.5, -0.5, 128 / 255 - 0.5]) / 0.15, rtol=0, atol=1e-5
    )


def test_spz_version_4(tmp_path):
    pytest.importorskip("zstandard")
    import gsply

    scene = random_scene(100, 1)
    save(scene, tmp_path / "three.spz")
    gsply.write_spz(tmp_path / "four.spz", gsply.read_spz(tmp_path / "three.spz"), version=4)
    torch.testing.assert_close(
        load(tmp_path / "four.spz").means, load(tmp_path / "three.spz").means
    )
    content = bytearray((tmp_path / "four.spz").read_bytes())
    content[8:12] = struct.pack("<I", 2**32 - 1)
    (tmp_path / "five.spz").write_bytes(content)
    with pytest.raises(InputError, match="declares"):
        load(tmp_path / "five.spz")


def test_gzip_that_unfolds_without_end_is_stopped(written):
    """600 MB of zeros in 600 kB; first with an honest small count, then with a large one."""
    zeros = io.BytesIO()
    with gzip.GzipFile(fileobj=zeros, mode="wb", compresslevel=1) as f:
        f.write(struct.pack("<4sIIBBBB", b"NGSP", 2, 3, 0, 12, 0, 0))
        for _ in range(600):
            f.write(bytes(1 << 20))
    assert len(load(written(zeros.getvalue(), "small.spz"))) == 3
    bomb = gzip.compress(struct.pack("<4sIIBBBB", b"NGSP", 2, 10**8, 0, 12, 0, 0) + bytes(10**7))
    with pytest.raises(InputError, match="declares 100,000,000 Gaussians"):
        load(written(bomb, "large.spz"))


def test_missing_gsply_names_the_extra(tmp_path, written, monkeypatch):
    monkeypatch.setitem(sys.modules, "gsply", None)
    for work in (lambda: load(written(spz(), "a.spz")), lambda: save(random_scene(3), "b.spz")):
        with pytest.raises(InputError, match=r"pip install 'newtongs\[formats\]'"):
            work()


def test_splat_bytes(written):
    rows = struct.pack("<6f8B", 1, -2, 3, 0.5, 0.25, 2, 255, 0, 51, 204, 255, 128, 128, 128)
    rows += struct.pack("<6f8B", 0, 0, 0, 1, 1, 1, 0, 0, 0, 255, 128, 128, 192, 64)
    scene = load(written(rows, "scene.splat"))
    torch.testing.assert_close(scene.means[0], torch.tensor([1.0, -2, 3]), rtol=0, atol=0)
    torch.testing.assert_close(scene.scales[0], torch.tensor([0.5, 0.25, 2]))
    torch.testing.assert_close(scene.colors[0], torch.tensor([1, 0, 0.2]), rtol=0, atol=1e-6)
    torch.testing.assert_close(scene.opacities, torch.tensor([0.8, 1]))
    half = 0.5**0.5
    torch.testing.assert_close(scene.quats, torch.tensor([[1, 0, 0, 0], [0, 0, half, -half]]))


def test_splat_round_trip_is_within_a_byte(tmp_path):
    scene = random_scene(300, 0, sh=torch.rand(300, 1, 3))
    save(scene, tmp_path / "a.splat")
    assert (tmp_path / "a.splat").stat().st_size == 300 * 32
    read = load(tmp_path / "a.splat")
    assert torch.equal(read.means, scene.means)
    torch.testing.assert_close(read.scales, scene.scales, rtol=1e-6, atol=0)
    for name in ("colors", "opacities"):
        difference = getattr(read, name) - getattr(scene, name)
        assert difference.abs().max() <= 0.5 / 255 + 1e-6
    assert ((read.quats * scene.quats).sum(-1).abs() > 0.9998).all()


def test_splat_of_a_wrong_length(written):
    with pytest.raises(InputError, match="32 bytes per Gaussian"):
        load(written(bytes(65), "scene.splat"))


def test_what_would_be_lost_is_refused(tmp_path):
    """An .spz stores coordinates in 24 bits; neither format knows numbers that are none."""
    far = random_scene(5, 0)
    far = far.replace(means=far.means + torch.tensor([3000.0, 0, 0]))
    with pytest.raises(InputError, match="coordinates below 2048, the scene reaches 3,00"):
        save(far, tmp_path / "a.spz")
    save(far, tmp_path / "a.compressed.ply")
    for ending in (".spz", ".compressed.ply"):
        with pytest.raises(InputError, match="means contain numbers that are not finite"):
            save(far.replace(means=far.means * torch.nan), tmp_path / f"b{ending}")
    assert [p.name for p in tmp_path.iterdir()] == ["a.compressed.ply"]


def test_an_empty_splat_file_is_not_written(tmp_path):
    with pytest.raises(InputError, match="cannot store an empty scene"):
        save(random_scene(0, 0), tmp_path / "a.splat")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", [".compressed.ply", ".spz"])
def test_blocks_make_the_same_file_as_one_piece(tmp_path, monkeypatch, ending):
    scene, told = random_scene(1000), []
    save(scene, tmp_path / f"a{ending}")
    monkeypatch.setattr(packed, "BLOCK", packed.CHUNK)
    save(scene, tmp_path / f"b{ending}", progress=lambda *x: told.append(x))
    assert (tmp_path / f"b{ending}").read_bytes() == (tmp_path / f"a{ending}").read_bytes()
    assert [done for _, done, of in told] == [256, 512, 768, 1000]

"""SOG as we write it: every value within its step, files of others unchanged, codebooks."""

import json
import zipfile

import numpy as np
import pytest
import torch
from test_scene import random_scene

from newtongs.base.errors import InputError
from newtongs.formats import load, save
from newtongs.formats.codebooks import codebook, nearest_code, palette, size_codebook
from newtongs.formats.sog import morton_order

pytest.importorskip("PIL", reason="needs newtongs[formats]")


def in_order(scene):
    return scene[torch.from_numpy(morton_order(scene.means.numpy()))]


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, 3000])
def test_round_trip_within_its_steps(tmp_path, n, degree):
    scene = in_order(random_scene(n, degree))
    save(scene, tmp_path / "a.sog")
    read = load(tmp_path / "a.sog")
    assert (len(read), read.sh_degree) == (n, degree)
    packed = scene.means.sign() * scene.means.abs().log1p()
    half = (packed.amax(0) - packed.amin(0)) / 65535 / 2
    stretched = 1 + scene.means.abs()  # by the exponential, in scene units
    assert ((read.means - scene.means).abs() <= 1.01 * half * stretched + 1e-6).all()
    off = 3**0.5 * 2**0.5 / 2 / 255  # three components, half a step each; the fourth follows
    cosine = (read.quats * scene.quats).sum(-1).abs()
    assert (cosine >= 1 - 4 * off**2 / 2 - 1e-6).all()
    assert (read.opacities - scene.opacities).abs().max() <= 0.5 / 255 + 1e-5
    for a, b, make in (
        (read.log_scales, scene.log_scales, size_codebook),
        (read.sh[:, 0], scene.sh[:, 0], codebook),
    ):
        book = torch.from_numpy(make(b.numpy())).float()
        nearest = (b.reshape(-1, 1) - book).abs().amin(1).view_as(b)
        torch.testing.assert_close((a - b).abs(), nearest, rtol=0, atol=1e-5)
    if n <= 1024 and degree:  # a palette entry each: only the codebook rounds
        assert (read.sh - scene.sh)[:, 1:].abs().max() < 0.1


def test_what_was_packed_before_loses_nothing_more(tmp_path):
    save(random_scene(3000, 0), tmp_path / "a.sog")
    once = load(tmp_path / "a.sog")
    save(once, tmp_path / "b.sog")
    twice = load(tmp_path / "b.sog")
    again = in_order(once)
    for field in ("log_scales", "sh", "logits"):
        torch.testing.assert_close(getattr(twice, field), getattr(again, field), rtol=0, atol=1e-6)
    torch.testing.assert_close(twice.means, again.means, rtol=1e-5, atol=1e-5)


def test_the_bundle_is_what_the_format_asks_for(tmp_path):
    scene = random_scene(2000, 2)
    save(scene, tmp_path / "a.sog")
    with zipfile.ZipFile(tmp_path / "a.sog") as archive:
        meta = json.loads(archive.read("meta.json"))
        names = {name for part in meta.values() if isinstance(part, dict)
                 for name in part.get("files", [])}  # fmt: skip
        assert names == {*archive.namelist()} - {"meta.json"}
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    assert (meta["version"], meta["count"], meta["shN"]["bands"]) == (2, 2000, 2)
    assert all(len(meta[part]["codebook"]) == 256 for part in ("scales", "sh0", "shN"))
    save(scene, tmp_path / "b.sog")
    assert (tmp_path / "a.sog").read_bytes() == (tmp_path / "b.sog").read_bytes()


def test_invisible_gaussians_keep_their_colour(tmp_path):
    scene = random_scene(80, 0)  # fewer values than codes
    save(scene.replace(logits=torch.full((80,), -50.0)), tmp_path / "a.sog")
    assert (load(tmp_path / "a.sog").colors - in_order(scene).colors).abs().max() < 1e-5


@pytest.mark.parametrize("n", [0, 3])
def test_what_cannot_be_written(tmp_path, n):
    scene = random_scene(n)
    scene = scene.replace(log_scales=scene.log_scales * torch.nan) if n else scene
    with pytest.raises(InputError, match=r"write a \.ply"):
        save(scene, tmp_path / "a.sog")
    assert not (tmp_path / "a.sog").exists()


def test_large_gaussians_are_rounded_finer_than_small_ones():
    x = np.random.default_rng(0).normal(-5, 1.5, 100_000).astype(np.float32)
    x[:20] = np.linspace(-0.5, 1.5, 20)  # few, and in every picture
    book = size_codebook(x)
    off = np.abs(book[nearest_code(x, book)] - x)
    assert off[x > -0.5].max() < 0.05
    assert off[x > -0.5].mean() < off[x < -8].mean()
    assert off.max() < 0.25


def test_a_codebook_is_near_the_best_there_is():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50_000).astype(np.float32)
    codes = codebook(x, 64)
    off = ((codes[nearest_code(x, codes)] - x) ** 2).mean()
    best = 3**0.5 * np.pi / 2 / 64**2  # Panter and Dite, for a normal distribution
    assert off < 1.05 * best
    even = np.linspace(x.min(), x.max(), 64)
    assert off < 0.8 * ((even[nearest_code(x, even)] - x) ** 2).mean()


def test_a_palette_in_two_steps_is_near_plain_k_means():
    torch.manual_seed(0)
    middles = 3 * torch.randn(200, 9)
    x = middles[torch.randint(200, (20_000,))] + 0.05 * torch.randn(20_000, 9)
    found, labels = palette(x, 1024)
    assert len(found) <= 1024
    assert labels.max() < len(found)
    off = (found[labels] - x).square().sum(1).mean()
    spread = 9 * 0.05**2  # within a cluster
    assert off < 1.5 * spread


def test_vectors_that_came_from_a_palette_lose_nothing():
    torch.manual_seed(0)
    x = torch.randn(1000, 24)[torch.randint(1000, (50_000,))]
    found, labels = palette(x, 1024)
    assert torch.equal(found[labels], x)


def test_neighbours_on_the_curve_are_neighbours_in_space():
    x = np.random.default_rng(0).random((4096, 3)).astype(np.float32)
    step = np.linalg.norm(np.diff(x[morton_order(x)], axis=0), axis=1)
    assert np.median(step) < 0.15 < np.median(np.linalg.norm(np.diff(x, axis=0), axis=1))

""".ksplat: rows laid by hand at every level, buckets, sections, damage."""

import struct

import numpy as np
import pytest
import torch
from test_scene import random_scene

from newtongs.base.errors import InputError
from newtongs.formats import load
from newtongs.scene import join

BLOCK, BUCKET, STEPS = 5.0, 16, 32767
REST = (0, 9, 24, 45)


def in_buckets(scene):
    """Rows in the order of a file, lengths of full and of other buckets, middles ``(B, 3)``."""
    cell = np.floor(scene.means.numpy() / BLOCK).astype(int)
    places, which = np.unique(cell, axis=0, return_inverse=True)
    full, partial = [], []
    for i, place in enumerate(places):
        rows = np.flatnonzero(which.reshape(-1) == i)
        middle = (place + 0.5) * BLOCK
        whole = len(rows) // BUCKET * BUCKET
        full += [(rows[k : k + BUCKET], middle) for k in range(0, whole, BUCKET)]
        partial += [(rows[whole:], middle)] if whole < len(rows) else []
    return full, partial


def section(scene, level, room=0):
    """Its 1,024 bytes, its content, and the Gaussians in the order they were written in."""
    degree, full, partial = scene.sh_degree, *in_buckets(scene)
    order = np.concatenate([rows for rows, _ in full + partial]) if level else np.arange(len(scene))
    middles = np.array([m for _, m in full + partial], np.float32)
    lengths = np.array([len(rows) for rows, _ in partial], np.uint32)
    x = scene[order.tolist()]
    half, small = ("<f4", "<f2", "<f2")[level], ("<f4", "<f2", "u1")[level]
    row = np.dtype([
        ("m", ("<f4", "<u2", "<u2")[level], 3), ("s", half, 3), ("q", half, 4), ("c", "u1", 4),
        ("r", small, (REST[degree],)),
    ])  # fmt: skip
    rows = np.zeros(len(x) + room, row)
    own = rows[: len(x)]
    if level:
        at = np.repeat(middles, [len(r) for r, _ in full + partial], axis=0)
        own["m"] = np.round((x.means.numpy() - at) * (STEPS / (BLOCK / 2))) + STEPS
    else:
        own["m"] = x.means
    own["s"], own["q"] = x.scales, x.quats
    rgba = torch.cat([x.colors, x.opacities[:, None]], 1)
    own["c"] = (255 * rgba).round().clamp(0, 255)
    bands = [x.sh[:, d * d : (d + 1) ** 2].transpose(1, 2).flatten(1) for d in range(1, degree + 1)]
    rest = torch.cat([torch.zeros(len(x), 0), *bands], 1).numpy()
    own["r"] = np.round((rest + 1.5) / 3 * 255).clip(0, 255) if level == 2 else rest
    head = struct.pack(
        "<IIIIfHxxIIIIH", len(x), len(rows), BUCKET if level else 0, len(middles) if level else 0,
        BLOCK, 12 if level else 0, STEPS, 0, len(full) if level else 0,
        len(partial) if level else 0, degree,
    )  # fmt: skip
    content = lengths.tobytes() + middles.tobytes() if level else b""
    return head.ljust(1024, b"\0"), content + rows.tobytes(), x


def ksplat(*scenes, level=0, room=0):
    parts = [section(scene, level, room) for scene in scenes]
    n = sum(map(len, scenes))
    head = struct.pack("<BBxxIIIIHxx3f2f", 0, 1, len(parts), len(parts), n, n, level, *[0.0] * 5)
    return head.ljust(4096, b"\0") + b"".join(p[0] for p in parts) + b"".join(p[1] for p in parts)


def ordered(*scenes, level):
    return join(*(section(scene, level)[2] for scene in scenes))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ksplat"


def sample(n, degree):
    scene = random_scene(n, degree)
    return scene.replace(
        means=4 * scene.means,
        log_scales=scene.log_scales - 3,
        sh=scene.sh.clamp(-1.4, 1.4),
    )


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_every_level_and_degree(path, level, degree):
    scenes = [sample(200, degree), sample(77, degree)]
    path.write_bytes(ksplat(*scenes, level=level, room=5))
    read, scene = load(path), ordered(*scenes, level=level)
    assert (len(read), read.sh_degree) == (277, degree)
    within = [1e-6, BLOCK / 2 / STEPS / 2 * 1.01 + 1e-6][level > 0]
    assert (read.means - scene.means).abs().max() <= within
    assert (read.log_scales - scene.log_scales).abs().max() <= [1e-5, 1e-2][level > 0]
    assert ((read.quats * scene.quats).sum(-1).abs() > 1 - 1e-5).all()
    assert (read.opacities - scene.opacities).abs().max() <= 0.5 / 255 + 1e-5
    inside = (scene.colors > 0) & (scene.colors < 1)
    assert (read.colors - scene.colors)[inside].abs().max() <= 0.5 / 255 + 1e-5
    off = (read.sh[:, 1:] - scene.sh[:, 1:]).abs().amax() if degree else 0
    assert off <= [1e-6, 1e-3, 1.5 / 255 + 1e-5][level]


def changed(at, fmt, value, level=1):
    content = bytearray(ksplat(sample(200, 1), level=level))
    struct.pack_into(fmt, content, at, value)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\1" + bytes(100), "cut off"),
        (changed(1, "<B", 9), "version 0.9"),
        (changed(20, "<H", 3), "level 0 to 2"),
        (changed(4, "<I", 2**32 - 1), "sections"),
        (changed(4096, "<I", 10**6), "declares 1,000,000"),
        (changed(4100, "<I", 10**9), "cut off"),
        (changed(4096 + 40, "<H", 4), "SH degree"),
        (changed(4096 + 32, "<I", 2**31), "none of its"),
        (changed(4096 + 12, "<I", 1), "none of its"),
        (changed(4096, "<I", 0), "no Gaussians"),
        (ksplat(sample(200, 1))[:-1], "cut off"),
    ],
)
def test_damage_is_told_in_one_line(path, content, message):
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(path)

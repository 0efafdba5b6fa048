"""The data of a page: Gaussians as bytes, deflated, and encoded as text that is safe in HTML.

Exact, the arrays are consecutive and little-endian; 30 bytes per Gaussian, and 9, 24 or 45 more for
colour of degree 1, 2 or 3:

=========================  ==========  ==========================================================
means                      float32 x3  exact
quaternions, scalar first  int16 x4    of 32767: within 2e-5
log scales                 uint16 x3   between the smallest and the largest: within 0.05 %
colour and opacity         uint8 x4    colour without direction, clamped to [0, 1]
view-dependent colour      int8 x3     each further coefficient over the largest: optional
=========================  ==========  ==========================================================

Compressed, about 14 bytes per Gaussian after deflation, in planes: all first bytes, all second
bytes. Gaussians are stored along Morton's curve, group by group, so that neighbours are similar:

=========================  ==========  ==========================================================
means                      uint8 x6    difference of 48-bit positions on the curve, 16 per axis,
                                       of ``sign(x) log(1 + |x|)`` between the group's limits
scales                     uint8 x3    index into a codebook: of the largest, and the steps down to
                                       the next and to the smallest
quaternions                int8 x3     x, y, z of ``127 sqrt(2)``; w is the largest, and positive
colour and opacity         uint8 x4    green, red - green, blue - green, opacity
view-dependent colour      uint8 x2    label, and after the labels a palette of int8 x3
=========================  ==========  ==========================================================

An ellipsoid is invariant under renaming and flipping its axes: so its scales can be sorted and w
can be the largest, which saves the bits that would tell.
"""

import math
import zlib
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.files import afford, allowance, silent
from ..base.types import Array, Progress
from ..formats.codebooks import Stacked, nearest_code, palette, size_codebook
from ..formats.sog import every_third, thirds
from ..scene.gaussians import GaussianScene, color_to_sh, join
from .parts import ExportPart

THIN = math.log(1e-9)  # thinner Gaussians look the same, and would widen the range of all
LEVEL = 6  # of zlib; higher levels gain 0.3 % and take three times as long
FORBIDDEN = (0, 13, ord("<"))  # HTML changes or interprets them
IS_FORBIDDEN = np.isin(np.arange(128), FORBIDDEN)
PLACES = (1 << 16) - 1  # along an axis
GAUSSIANS_PER_ENTRY, LEAST_ENTRIES, MOST_ENTRIES = 64, 8192, 32768  # of the palette
MEAN_PLANES = 6
MOST_COEFFICIENTS = 15  # per channel, besides the constant one
GAUSSIAN_BYTES = 56  # of a scene without view-dependent colour
BLOCK = 1 << 18
TEXT_BLOCK = 7 << 17  # bytes encoded at a time, as intermediates are eight times as large
# Signs and order of the components of a quaternion times 1, i, j, k, so that component k is first.
TURNS = torch.tensor([[1, 1, 1, 1], [1, -1, -1, 1], [1, 1, -1, -1], [1, -1, 1, -1]]).double()
SWAPS = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])


def _axes_renamed() -> Tensor:
    """Rotations ``(9, 4)`` that make axes a, b, c of an ellipsoid the first three, at 3 a + b.

    The third is flipped if that is needed to keep them right-handed.
    """
    turns = torch.zeros(9, 4).double()
    for order in permutations(range(3)):
        axes = torch.eye(3).double()[:, list(order)]
        axes[:, 2] *= torch.linalg.det(axes)
        turns[3 * order[0] + order[1]] = rotations.from_matrix(axes)
    return turns


RENAMED = _axes_renamed()


class Numbers(NamedTuple):
    """The data of a page's Gaussians."""

    arrays: list[Array]
    about: dict[str, Any]
    """Metadata to decode them, for the page's JSON."""
    ends: list[dict[str, Any]]
    """The same for each group."""

    def deflated(self, tell: Progress = silent) -> bytes:
        """All arrays, deflated."""
        packer, pieces = zlib.compressobj(LEVEL), []
        for done, x in enumerate(self.arrays, 1):
            pieces.append(packer.compress(np.ascontiguousarray(x).data))
            tell("packing", done, len(self.arrays))
        return b"".join([*pieces, packer.flush()])


def to_text(data: bytes) -> bytes:
    """Seven bits per character in UTF-8; characters special in HTML are shifted by 128.

    A seventh larger than the data, while base64 is a third larger.
    """
    blocks = (data[at : at + TEXT_BLOCK] for at in range(0, len(data), TEXT_BLOCK))
    return b"".join(map(_block_to_text, blocks))


def _block_to_text(data: bytes) -> bytes:
    x = np.frombuffer(data + bytes(-len(data) % 7), np.uint8).reshape(-1, 7)
    whole = np.zeros((len(x), 8), np.uint8)
    whole[:, :7] = x
    number = whole.view("<u8")
    symbols = (number >> np.arange(0, 56, 7, dtype=np.uint64)).astype(np.uint8).reshape(-1) & 127
    escaped = IS_FORBIDDEN[symbols]
    out = np.repeat(symbols, 1 + escaped)
    at = np.flatnonzero(escaped) + np.arange(int(escaped.sum()))
    out[at] = 0xC2  # of the two bytes of U+0080 to U+00BF
    out[at + 1] |= 128
    return out.tobytes()


def from_text(text: bytes) -> bytes:
    """The inverse of :func:`to_text`, with up to six zeros appended."""
    x = np.frombuffer(text, np.uint8)
    symbols = (x[x != 0xC2] & 127).astype(np.uint64).reshape(-1, 8)
    number = (symbols << np.arange(0, 56, 7, dtype=np.uint64)).sum(1, dtype=np.uint64)
    return number.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :7].tobytes()


# --- exact ----------------------------------------------------------------------------------------


def exact(parts: Sequence[ExportPart]) -> Numbers:
    """The first table above."""
    scene = join(*(part.scene for part in parts))
    logs = scene.log_scales.clamp_min(THIN)
    low, high = float(logs.min()), float(logs.max())
    rest = scene.sh[:, 1:]
    peak = float(rest.abs().max()) if rest.numel() else 0.0
    step = peak / 127 or 1.0
    rgba = torch.cat([scene.colors, scene.opacities.unsqueeze(-1)], -1).clamp(0, 1)
    arrays = [
        (scene.means, "<f4"),
        (32767 * scene.quats, "<i2"),
        ((logs - low) * (65535 / ((high - low) or 1.0)), "<u2"),
        (255 * rgba, "u1"),
        (rest / step, "i1"),
    ]
    about = {"log_scales": [low, high], "sh": {"coefficients": rest.shape[1], "step": step}}
    return Numbers([_rounded(x, kind) for x, kind in arrays], about, [{} for _ in parts])


def _rounded(x: Tensor, kind: str) -> Array:
    array = x.detach().cpu().numpy()
    return (array if kind == "<f4" else np.rint(array)).astype(kind)


# --- compressed -----------------------------------------------------------------------------------


def compressed(parts: Sequence[ExportPart], tell: Progress = silent) -> Numbers:
    """The second table above."""
    # View-dependent colour is most of a scene, and is not copied to the new order.
    plain = [part.plain for part in parts]
    placed = [_along_curve(scene) for scene in plain]
    labels, about = _palette(parts, [order for order, _, _ in placed], tell)
    scene = join(*(part[order] for part, (order, _, _) in zip(plain, placed, strict=True)))
    axes = scene.log_scales.clamp_min(THIN).sort(dim=1, descending=True, stable=True)
    # In blocks: matrices of all Gaussians would take more memory than the scene.
    turned = zip(scene.quats.split(BLOCK), axes.indices.split(BLOCK), strict=True)
    quats = torch.cat([_first_largest(_renamed(q, order)) for q, order in turned])
    codes = size_codebook(axes.values.numpy())
    arrays = [
        _bytes_of(np.concatenate([steps for _, steps, _ in placed])),
        _falling(nearest_code(axes.values.numpy(), codes)),
        np.rint(127 * math.sqrt(2) * quats[:, 1:].numpy()).clip(-127, 127).astype("i1").T,
        _colours(scene),
    ]
    return Numbers(
        arrays + labels,
        {"codes": codes.tolist(), "sh": about},
        [{"ends": ends} for _, _, ends in placed],
    )


def _along_curve(scene: GaussianScene) -> tuple[Array, Array, list[list[float]]]:
    """The order of the Gaussians, their steps along the curve, and the limits per axis."""
    x = scene.means.double().numpy()
    x = np.sign(x) * np.log1p(np.abs(x))
    ends = [x.min(0), x.max(0)]
    places = np.rint((x - ends[0]) * (PLACES / np.maximum(ends[1] - ends[0], 1e-30)))
    keys = every_third(places.astype(np.uint64)) @ np.array([1, 2, 4], np.uint64)
    order = np.argsort(keys, kind="stable")
    return order, np.diff(keys[order], prepend=np.uint64(0)), [end.tolist() for end in ends]


def _bytes_of(steps: Array) -> Array:
    """Byte planes ``(6, n)`` of integers, lowest byte first."""
    return steps.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :MEAN_PLANES].T


def _renamed(q: Tensor, order: Tensor) -> Tensor:
    """Quaternions of the same ellipsoids with their axes in another order."""
    return rotations.multiply(q.double(), RENAMED[3 * order[:, 0] + order[:, 1]])


def _first_largest(q: Tensor) -> Tensor:
    """Quaternions of the same ellipsoids whose w is the largest, and positive.

    An ellipsoid is invariant under half a turn about one of its axes.
    """
    largest = q.abs().argmax(1)
    turned = q.gather(1, SWAPS[largest]) * TURNS[largest].to(q)
    return (turned * torch.where(turned[:, :1] < 0, -1, 1)).float()


def _falling(codes: Array) -> Array:
    """Planes of descending numbers ``(n, 3)``: the first, and the differences."""
    a, b, c = codes.T
    return np.stack([a, a - b, b - c])


def _colours(scene: GaussianScene) -> Array:
    """Planes of colour and opacity; red and blue as differences from green."""
    rgba = torch.cat([scene.colors, scene.opacities.unsqueeze(-1)], -1).clamp(0, 1)
    r, g, b, a = _rounded(255 * rgba, "u1").T
    return np.stack([g, r - g, b - g, a])


def _palette(
    parts: Sequence[ExportPart], orders: list[Array], tell: Progress
) -> tuple[list[Array], dict[str, Any]]:
    """Two planes of labels, in the given order, and the planes of the palette; their metadata."""
    n, k = sum(part.size for part in parts), parts[0].source.sh.shape[1] - 1
    if not k:
        return [], {"coefficients": 0, "step": 1.0, "entries": 0}
    entries = min(MOST_ENTRIES, max(LEAST_ENTRIES, n // GAUSSIANS_PER_ENTRY))
    x = Stacked([(part.source.sh.flatten(1)[:, 3:], part.rows) for part in parts])
    found, labels = palette(x, entries, tell=tell)
    pieces = labels.split([part.size for part in parts])
    labels = torch.cat([x[order] for x, order in zip(pieces, orders, strict=True)])
    step = float(found.abs().max()) / 127 or 1.0
    planes = labels.numpy().astype("<u2").view(np.uint8).reshape(-1, 2).T
    about = {"coefficients": k, "step": step, "entries": len(found)}
    return [planes, _rounded(found / step, "i1").T], about


# --- decoding -------------------------------------------------------------------------------------


def gaussians(path: Path, data: bytes, meta: dict[str, Any]) -> GaussianScene:
    """The Gaussians of a page as displayed, without object ids; ``path`` is for errors."""
    n, k = meta["count"], meta["sh"]["coefficients"]
    if not all(isinstance(x, int) and x >= 0 for x in (n, k)) or k > MOST_COEFFICIENTS:
        raise InputError(f"{path}: expected numbers of Gaussians and coefficients; it is damaged")
    afford(path, n * (GAUSSIAN_BYTES + 12 * k), len(data), f"{n:,} Gaussians")
    unfolded = zlib.decompressobj().decompress(data, allowance(len(data)))
    return (_from_compressed if "codes" in meta else _from_exact)(_Taker(unfolded), meta)


class _Taker:
    """Reads consecutive arrays."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __call__(self, kind: str, *shape: int) -> Tensor:
        x = np.frombuffer(self.data, kind, math.prod(shape), self.at)
        self.at += x.nbytes
        return torch.from_numpy(x.reshape(shape).astype(x.dtype.newbyteorder("=")))


def _from_exact(take: _Taker, meta: dict[str, Any]) -> GaussianScene:
    n, sh, (low, high) = meta["count"], meta["sh"], meta["log_scales"]
    means, quats = take("<f4", n, 3), take("<i2", n, 4)
    logs, rgba = take("<u2", n, 3), take("u1", n, 4)
    colours = torch.empty(n, 1 + sh["coefficients"], 3)
    torch.mul(take("i1", n, sh["coefficients"], 3), sh["step"], out=colours[:, 1:])
    return _scene(means, quats.float(), low + (high - low) / 65535 * logs.float(), rgba, colours)


def _from_compressed(take: _Taker, meta: dict[str, Any]) -> GaussianScene:
    n, sh = meta["count"], meta["sh"]
    steps = np.zeros((n, 8), np.uint8)
    steps[:, :MEAN_PLANES] = take("u1", MEAN_PLANES, n).numpy().T
    a, down, more = take("u1", 3, n).long()
    codes = torch.tensor(meta["codes"])
    logs = codes[torch.stack([a, a - down, a - down - more], 1)]
    small = take("i1", 3, n).T.double() / (127 * math.sqrt(2))
    w = (1 - small.square().sum(1, keepdim=True)).clamp_min(0).sqrt()
    g, r, b, opacity = take("u1", 4, n)
    rgba = torch.stack([r + g, g, b + g, opacity], 1)
    colours = torch.empty(n, 1 + sh["coefficients"], 3)
    if k := sh["coefficients"]:
        label = take("u1", 2, n).int()
        palette = take("i1", 3 * k, sh["entries"]).T.float() * sh["step"]
        for out, rows in zip(colours.split(BLOCK), label.T.split(BLOCK), strict=True):
            out[:, 1:] = palette[rows[:, 0] + 256 * rows[:, 1]].view(-1, k, 3)
    means = _from_steps(steps.view("<u8")[:, 0], meta["groups"])
    return _scene(means, torch.cat([w, small], 1).float(), logs, rgba, colours)


def _from_steps(steps: Array, groups: list[dict[str, Any]]) -> Tensor:
    out, counts = [], [group["count"] for group in groups]
    if min(counts, default=0) < 0 or sum(counts) != len(steps):
        raise ValueError("its groups do not have the Gaussians of the page")
    for group in groups:
        first, low, high = group["first"], *np.array(group["ends"], float).reshape(2, 3)
        keys = np.cumsum(steps[first : first + group["count"]], dtype=np.uint64)
        for start in range(0, len(keys), BLOCK):
            places = thirds(keys[start : start + BLOCK, None] >> np.arange(3, dtype=np.uint64))
            x = low + (high - low) / PLACES * places
            out.append((np.sign(x) * np.expm1(np.abs(x))).astype(np.float32))
    return torch.from_numpy(np.concatenate(out))


def _scene(
    means: Tensor, quats: Tensor, logs: Tensor, rgba: Tensor, colours: Tensor
) -> GaussianScene:
    """``colours (N, K, 3)`` have all but the constant coefficients, which are filled in."""
    rgba = rgba.float() / 255
    colours[:, :1] = color_to_sh(rgba[:, :3])
    return GaussianScene.make(
        means=means, quats=quats, scales=logs.exp(), opacities=rgba[:, 3], sh=colours
    )

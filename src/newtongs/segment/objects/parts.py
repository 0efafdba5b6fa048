"""The parts of an object: what differs in colour and touches the rest in few places.

Points of the surface are gathered in cells, and neighbouring cells are merged step by step, first
what looks alike and shares much of its border. Of all steps that join large parts, one joins those
that differ most in colour and touch least: a guitar and its stand, a cushion and its chair. There
the object divides, and each part divides in the same way.
"""

import heapq
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...base.process import threads
from ...base.types import Array, Vec3
from ...scene.gaussians import GaussianScene
from ..sparse_voxels import Voxels
from ..surface import SurfacePoints, surface_points

CELLS = (2.6, 2.8, 3.0, 3.2, 3.4)  # spacings: edges of cells; chance decides with a single one
TOUCH = 2.0  # spacings between points that touch
SHADE = 0.12  # distance of colours from which more makes hardly a difference
STAND = 0.08  # least share of the points of a stand
LEANS = 0.25  # contact below which two parts only lean on each other
UNLIKE = 0.2  # distance of their colours from which they are surely two things
BESIDE = 0.7  # of the height of the lower one: so much of it the other one must be beside
GROUND = 0.1  # of the height of both: so near both come to the ground
SMALLEST = 0.03  # share of the points of a part; smaller ones are details


class Division(NamedTuple):
    """An object as two parts."""

    parts: tuple[Tensor, Tensor]
    """Their Gaussians, as increasing indices; the larger part first."""
    contact: float
    """Pairs of points across the border over the points of the smaller part."""
    shade: float
    """Distance between the mean colours."""


class _Merge(NamedTuple):
    """A step that joined two large parts."""

    inside: Array
    """The points ``(n,)`` of the smaller part."""
    share: float
    """Of all points."""
    contact: float
    shade: float

    @property
    def difference(self) -> float:
        """How unlike the parts are, and how little they touch."""
        return float((1 - np.exp(-((self.shade / SHADE) ** 2))) / max(self.contact, 1e-6))


def divided(scene: GaussianScene, rows: Tensor) -> Division | None:
    """The two parts of the object with these ``rows``; None if it is of one piece."""
    points = surface_points(scene[rows])
    if points is None:
        return None
    found = [merge for cell in CELLS for merge in _merges(points, cell)]
    if not found:
        return None
    return _division(
        scene, rows, points, max(found, key=lambda merge: merge.difference * merge.share**0.5)
    )


def standing_apart(scene: GaussianScene, mask: Tensor, up: Vec3) -> Tensor | None:
    """The larger one ``(N,)`` of two things that stand side by side and lean on each other.

    None unless both nearly reach the ground beside each other, as a guitar and its stand do. A seat
    on legs is one thing, and so is a cushion, which shares much of its surface with its chair.
    """
    rows = mask.nonzero().squeeze(-1)
    points = surface_points(scene[rows])
    if points is None:
        return None
    height = points.x @ up.numpy()
    found = [merge for cell in CELLS for merge in _merges(points, cell) if _leans(merge, height)]
    if not found:
        return None
    division = _division(scene, rows, points, max(found, key=lambda merge: merge.difference))
    out = torch.zeros_like(mask)
    out[rows if division is None else division.parts[0]] = True
    return out


def _leans(merge: _Merge, height: Array) -> bool:
    """Whether the smaller part is a stand; ``height (n,)`` is that of all points."""
    if merge.share < STAND or merge.contact > LEANS or merge.shade < UNLIKE:
        return False
    low, high = np.quantile(height[~merge.inside], (0.01, 0.99))
    low_2, high_2 = np.quantile(height[merge.inside], (0.01, 0.99))
    both, beside = max(high, high_2) - min(low, low_2), min(high, high_2) - max(low, low_2)
    shorter = min(high - low, high_2 - low_2)
    return bool(abs(low - low_2) <= GROUND * both and beside >= BESIDE * shorter)


def _division(
    scene: GaussianScene, rows: Tensor, points: SurfacePoints, merge: _Merge
) -> Division | None:
    inside = torch.from_numpy(merge.inside[_nearest(points, scene.means[rows])])
    parts = sorted((rows[~inside], rows[inside]), key=len, reverse=True)
    return Division((parts[0], parts[1]), merge.contact, merge.shade) if len(parts[1]) else None


def _nearest(points: SurfacePoints, x: Tensor) -> Array:
    """The surface point ``(N,)`` nearest to each centre ``(N, 3)``."""
    from scipy.spatial import cKDTree

    found: Array = cKDTree(points.x).query(x.double().nan_to_num().numpy(), workers=threads())[1]
    return found


def _merges(points: SurfacePoints, cell: float) -> list[_Merge]:
    """Merges of two large parts.

    The cost of a merge is the difference in colour, times how small the common border is compared
    with the smaller part; the larger the parts, the later they are merged.
    """
    of = Voxels.of(torch.from_numpy(points.x), cell * points.spacing).of_point.numpy()
    size, color, touching = _cells(points, of)
    members = [[k] for k in range(len(size))]
    stamp = [0] * len(size)  # changes whenever a part grows
    out = list[_Merge]()

    def step(a: int, b: int) -> tuple[float, int, int, int, int]:
        small, apart = min(size[a], size[b]), float(((color[a] - color[b]) ** 2).sum())
        cost = (1 - np.exp(-apart / SHADE**2) + 1e-3) * small * small / touching[a][b]
        return float(cost), a, b, stamp[a], stamp[b]

    queue = [step(a, b) for a, near in enumerate(touching) for b in near if a < b]
    heapq.heapify(queue)
    while queue:
        _, a, b, was_a, was_b = heapq.heappop(queue)
        if (stamp[a], stamp[b]) != (was_a, was_b):
            continue
        small = min(size[a], size[b])
        if small >= SMALLEST * len(of):
            inside = np.zeros(len(size), bool)
            inside[members[a if size[a] < size[b] else b]] = True
            shade = float(np.linalg.norm(color[a] - color[b]))
            out.append(_Merge(inside[of], small / len(of), touching[a][b] / small, shade))
        color[a] = (size[a] * color[a] + size[b] * color[b]) / (size[a] + size[b])
        size[a] += size[b]
        members[a] += members[b]
        stamp[a], stamp[b] = stamp[a] + 1, -1
        for c, pairs in touching[b].items():
            touching[c].pop(b)
            if c != a:
                touching[a][c] = touching[c][a] = touching[a].get(c, 0) + pairs
        for c in touching[a]:
            heapq.heappush(queue, step(a, c))
    return out


def _cells(points: SurfacePoints, of: Array) -> tuple[Array, Array, list[dict[int, int]]]:
    """Points in each cell ``(k,)``, its mean colour ``(k, 3)``, pairs of points to its neighbours.

    ``of (n,)`` is the cell of each point.
    """
    size = np.bincount(of).astype(float)
    color = np.stack([np.bincount(of, shade) for shade in points.colors.T], -1) / size[:, None]
    i, j = np.repeat(np.arange(len(of)), points.near.shape[1]), points.near.ravel()
    near = np.linalg.norm(points.x[i] - points.x[j], axis=-1) < TOUCH * points.spacing
    a, b = (np.sort([of[i], of[j]], axis=0))[:, near & (of[i] != of[j])]
    pairs, count = np.unique(a * len(size) + b, return_counts=True)
    touching: list[dict[int, int]] = [{} for _ in size]
    for pair, n in zip(pairs.tolist(), count.tolist(), strict=True):
        a, b = divmod(pair, len(size))
        touching[a][b] = touching[b][a] = n
    return size, color, touching

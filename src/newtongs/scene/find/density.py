"""How much matter there is in every cell of a grid: the optical depth of a scene's Gaussians.

A ray through the middle of a Gaussian of opacity ``alpha`` keeps ``1 - alpha`` of its light, one at
``d`` standard deviations from it ``1 - alpha exp(-d^2 / 2)``. The sum of ``-ln`` of these over all
Gaussians, taken at the middle of a cell, says how solid the scene is there. A Gaussian counts as no
narrower than half a cell, ``Sigma + h^2 / 4``, so that none falls between the middles.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import numpy.typing as npt
import torch

from ...numba_rotations import write_matrix
from ...rotations import to_matrix
from ...threads import sharing
from ..gaussians import GaussianScene
from ..world_frame import WorldFrame

Array: TypeAlias = npt.NDArray[Any]

FAINTEST = 0.02  # what a Gaussian adds to a cell, below which the cell is out of its reach
MOST_OPAQUE = 0.999


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a box in the physics frame; the middle of cell ``i`` is ``low + (i + 1/2) h``."""

    low: Array
    """Lowest corner ``(3,)``."""
    h: Array
    """Edges of a cell ``(3,)``."""
    shape: tuple[int, int, int]
    """Cells along x, y and z."""

    @classmethod
    def around(cls, low: Array, high: Array, h: Array, *, margin: int = 0) -> "Grid":
        """The cells that cover a box, and ``margin`` more on every side."""
        count = np.maximum(np.ceil((high - low) / h - 1e-9).astype(int), 1) + 2 * margin
        x, y, z = (int(n) for n in count)
        return cls(low - margin * h, h, (x, y, z))

    def cells(self, points: Array) -> Array:
        """The cell ``(N, 3)`` of each point, not clipped to the grid."""
        return np.floor((points - self.low) / self.h).astype(int)

    def corners(self, cells: Array) -> Array:
        """Where the lowest corners of cells ``(..., 3)`` lie."""
        return self.low + cells * self.h

    def middles(self, cells: Array) -> Array:
        """Middles ``(N, 3)`` of cells."""
        return self.low + (cells + 0.5) * self.h


class Density(NamedTuple):
    """What the Gaussians of a scene put into the cells of a grid, each ``grid.shape``, float32."""

    depth: Array
    """Optical depth at the cell's middle."""
    weight: Array
    """Sum of opacities of the sheets that pass through the cell's column at this height."""
    height: Array
    """Sum of the same, times where in the cell they pass: 0 at its bottom, 1 at its top."""


def optical_depth(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Array:
    """Optical depth ``grid.shape``, float32, of the Gaussians as they lie in the physics frame."""
    nothing = np.zeros((0, 0, 0), np.float32)
    depth = np.zeros(grid.shape, np.float32)
    _run(scene, world, grid, depth, nothing, nothing)
    return depth


def density(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Density:
    """Optical depth, and at which heights surfaces lie."""
    found = Density(*(np.zeros(grid.shape, np.float32) for _ in range(3)))
    _run(scene, world, grid, *found)
    return found


def _run(
    scene: GaussianScene,
    world: WorldFrame,
    grid: Grid,
    depth: Array,
    weight: Array,
    height: Array,
) -> None:
    """Threads share the grid, not the Gaussians: every cell is summed in the Gaussians' order."""
    gaussians = (
        world.to_physics(scene.means).numpy(force=True).astype(np.float32, copy=False),
        scene.quats.numpy(force=True),
        (scene.log_scales + math.log(world.scale)).numpy(force=True),
        scene.logits.numpy(force=True),
        to_matrix(world.rotation.double()).numpy(),
    )
    low, h = grid.low.astype(np.float64), grid.h.astype(np.float64)
    columns, wide = grid.shape[0], -(-grid.shape[0] // torch.get_num_threads())

    def splat(x: int) -> None:
        begin, end = np.array([x, 0, 0]), np.array([min(x + wide, columns), *grid.shape[1:]])
        _splat(*gaussians, low, h, begin, end, depth, weight, height)

    with sharing() as share:
        share(splat, range(0, columns, wide))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _splat(
    means: Array,
    quats: Array,
    log_scales: Array,
    logits: Array,
    turn: Array,
    low: Array,
    h: Array,
    begin: Array,
    end: Array,
    depth: Array,
    weight: Array,
    height: Array,
) -> None:
    """Add every Gaussian to the cells from ``begin (3,)`` up to ``end (3,)`` that it reaches."""
    first, last = np.empty(3, np.int64), np.empty(3, np.int64)
    for i in range(len(means)):
        alpha = min(1 / (1 + math.exp(-float(logits[i]))), MOST_OPAQUE)
        if alpha <= FAINTEST:
            continue
        reach = 2 * math.log(alpha / FAINTEST)  # in squared standard deviations
        if _beyond(means[i], log_scales[i], reach, low, h, begin, end):
            continue
        c = _covariance(quats[i], log_scales[i], turn)
        for a in range(3):
            c[a, a] += 0.25 * h[a] * h[a]
        inside = True
        for a in range(3):
            r = math.sqrt(reach * c[a, a])
            first[a] = max(math.ceil((means[i, a] - r - low[a]) / h[a] - 0.5), begin[a])
            last[a] = min(math.floor((means[i, a] + r - low[a]) / h[a] - 0.5), end[a] - 1)
            inside = inside and first[a] <= last[a]
        if inside:
            p = _inverse(c)
            _add(depth, means[i], p, alpha, reach, low, h, first, last)
            if len(weight):
                _add_sheet(weight, height, means[i], p, alpha, reach, low, h, first, last)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _beyond(
    mean: Array, log_scale: Array, reach: float, low: Array, h: Array, begin: Array, end: Array
) -> bool:
    """Whether a Gaussian is out of reach of all cells, however it is turned: most are, quickly."""
    widest = math.exp(2 * float(max(log_scale[0], log_scale[1], log_scale[2])))
    for a in range(3):
        r = math.sqrt(reach * (widest + 0.25 * h[a] * h[a]))
        if mean[a] + r < low[a] + begin[a] * h[a] or mean[a] - r > low[a] + end[a] * h[a]:
            return True
    return False


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _covariance(q: Array, log_scale: Array, turn: Array) -> Array:
    """``(3, 3)`` of one Gaussian, turned into the physics frame."""
    r = np.empty((3, 3))
    write_matrix(q, r)
    m = np.zeros((3, 3))
    for a in range(3):
        for b in range(3):
            for k in range(3):
                m[a, b] += turn[a, k] * r[k, b]
    c = np.zeros((3, 3))
    for k in range(3):
        s = math.exp(2 * float(log_scale[k]))
        for a in range(3):
            for b in range(3):
                c[a, b] += s * m[a, k] * m[b, k]
    return c


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _inverse(c: Array) -> Array:
    """Of a symmetric positive matrix, as ``xx, xy, xz, yy, yz, zz``."""
    p = np.empty(6)
    p[0] = c[1, 1] * c[2, 2] - c[1, 2] * c[1, 2]
    p[1] = c[0, 2] * c[1, 2] - c[0, 1] * c[2, 2]
    p[2] = c[0, 1] * c[1, 2] - c[0, 2] * c[1, 1]
    p[3] = c[0, 0] * c[2, 2] - c[0, 2] * c[0, 2]
    p[4] = c[0, 1] * c[0, 2] - c[0, 0] * c[1, 2]
    p[5] = c[0, 0] * c[1, 1] - c[0, 1] * c[0, 1]
    det = c[0, 0] * p[0] + c[0, 1] * p[1] + c[0, 2] * p[2]
    return p / det


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add(
    depth: Array,
    mean: Array,
    p: Array,
    alpha: float,
    reach: float,
    low: Array,
    h: Array,
    first: Array,
    last: Array,
) -> None:
    """One Gaussian's ``-ln(1 - alpha exp(-d^2 / 2))`` at the middles of a box of cells."""
    for i in range(first[0], last[0] + 1):
        x = low[0] + (i + 0.5) * h[0] - mean[0]
        for j in range(first[1], last[1] + 1):
            y = low[1] + (j + 0.5) * h[1] - mean[1]
            base = p[0] * x * x + 2 * p[1] * x * y + p[3] * y * y
            slope = 2 * (p[2] * x + p[4] * y)
            for k in range(first[2], last[2] + 1):
                z = low[2] + (k + 0.5) * h[2] - mean[2]
                d = base + slope * z + p[5] * z * z
                if d < reach:
                    depth[i, j, k] -= math.log1p(-alpha * math.exp(-0.5 * d))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_sheet(
    weight: Array,
    height: Array,
    mean: Array,
    p: Array,
    alpha: float,
    reach: float,
    low: Array,
    h: Array,
    first: Array,
    last: Array,
) -> None:
    """One Gaussian as a sheet: in every column it lies where it is densest there."""
    for i in range(first[0], last[0] + 1):
        x = low[0] + (i + 0.5) * h[0] - mean[0]
        for k in range(first[2], last[2] + 1):
            z = low[2] + (k + 0.5) * h[2] - mean[2]
            y = -(p[1] * x + p[4] * z) / p[3]
            d = p[0] * x * x + p[5] * z * z + 2 * p[2] * x * z - p[3] * y * y
            at = (mean[1] + y - low[1]) / h[1]
            j = math.floor(at)
            if d < reach and 0 <= j < weight.shape[1]:
                w = alpha * math.exp(-0.5 * d)
                weight[i, j, k] += w
                height[i, j, k] += w * (at - j)

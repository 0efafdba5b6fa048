"""Voxels of a scene: the optical depth of its Gaussians in every cell of a grid, and solid bodies.

A ray through the centre of a Gaussian of opacity ``alpha`` keeps ``1 - alpha`` of its light, at
``d`` standard deviations ``1 - alpha exp(-d^2 / 2)``. The sum of ``-ln`` of this over all
Gaussians, evaluated at the centre of a cell, measures how solid the scene is there. A Gaussian is
widened by half a cell, ``Sigma + h^2 / 4``, so that none falls between the cell centres.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ..base.jit import njit
from ..base.numba_rotations import write_matrix
from ..base.process import sharing
from ..base.rotations import to_matrix
from ..base.types import Array
from ..scene.gaussians import GaussianScene
from ..scene.world_frame import WorldFrame

FAINTEST = 0.02  # contribution below which a cell is out of reach of a Gaussian
MOST_OPAQUE = 0.999
FILLED_DEPTH = 0.5  # optical depth above which an object fills a voxel
SHEET = 0.3  # opacity above which there is a surface


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a box in the physics frame; the centre of cell ``i`` is ``low + (i + 1/2) h``."""

    low: Array
    """Lowest corner ``(3,)``."""
    h: Array
    """Edges of a cell ``(3,)``."""
    shape: tuple[int, int, int]
    """Cells along x, y and z."""

    @classmethod
    def around(cls, low: Array, high: Array, h: Array, *, margin: int = 0) -> "Grid":
        """The cells that cover a box, and ``margin`` more cells on every side."""
        count = np.maximum(np.ceil((high - low) / h - 1e-9).astype(int), 1) + 2 * margin
        x, y, z = (int(n) for n in count)
        return cls(low - margin * h, h, (x, y, z))

    def cells(self, points: Array) -> Array:
        """The cell ``(N, 3)`` of each point, not clamped to the grid."""
        return np.floor((points - self.low) / self.h).astype(int)

    def corners(self, cells: Array) -> Array:
        """Lowest corners of cells ``(..., 3)``."""
        return self.low + cells * self.h

    def middles(self, cells: Array) -> Array:
        """Centres ``(N, 3)`` of cells."""
        return self.low + (cells + 0.5) * self.h


class Density(NamedTuple):
    """What the Gaussians of a scene contribute to a grid; arrays of ``grid.shape``, float32."""

    depth: Array
    """Optical depth at the centre of the cell."""
    weight: Array
    """Summed opacity of the Gaussians that, taken as sheets, pass through the cell."""
    height: Array
    """The same sum weighted by where in the cell they pass: 0 at the bottom, 1 at the top."""


def optical_depth(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Array:
    """Optical depth ``grid.shape``, float32, of the Gaussians in the physics frame."""
    nothing = np.zeros((0, 0, 0), np.float32)
    depth = np.zeros(grid.shape, np.float32)
    _run(scene, world, grid, depth, nothing, nothing)
    return depth


def density(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Density:
    """Optical depth, and the heights of surfaces."""
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
    """Threads divide the grid, not the Gaussians: every cell is summed in the same order."""
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


# --- solid bodies --------------------------------------------------------------------------------


def solid_body(
    filled: Array,
    gap: int,
    *,
    plug: Callable[[Array], Array] | None = None,
    axes: Sequence[int] = (0, 1, 2),
    padded: bool = True,
    corners: bool = True,
) -> Array:
    """Filled voxels as a solid: gaps of up to ``2 gap`` voxels closed, what they enclose filled.

    Args:
        filled: occupied voxels ``(X, Y, Z)``.
        gap: voxels by which the filled ones are grown, and then shrunk again.
        plug: given the closed voxels, returns further ones that bound the body but are not part of
            it: the floor under a shell that is open below.
        axes: ``(0, 2)`` treats each horizontal layer separately.
        padded: whether space beyond the grid is empty; otherwise it repeats the nearest voxel.
        corners: grow across faces, edges and corners; otherwise across faces only, and voxels
            within ``gap`` of the border of the grid are removed.
    """
    from scipy import ndimage

    if gap and corners:
        margin = gap if padded else 0
        filled = np.pad(filled, [(margin, margin) if a in axes else (0, 0) for a in range(3)])
        filled = ~grown(~grown(filled, gap, axes), gap, axes)
        inner = slice(margin, -margin or None)
        filled = filled[tuple(inner if a in axes else slice(None) for a in range(3))]
    elif gap:
        filled = ndimage.binary_closing(filled, iterations=gap)
    walls = filled if plug is None else filled | plug(filled)
    faces = ndimage.generate_binary_structure(3, 1)
    if 1 not in axes:
        faces[1, [0, 2], 1] = False
    return np.asarray(filled | (ndimage.binary_fill_holes(walls, faces) & ~walls))


def grown(marked: Array, n: int, axes: Sequence[int] = (0, 1, 2)) -> Array:
    """Marked voxels and all within ``n`` voxels of one along each of the ``axes``."""
    from scipy import ndimage

    out = marked.view(np.uint8)
    for axis in axes:
        out = ndimage.maximum_filter1d(out, 2 * n + 1, axis=axis, mode="nearest")
    return np.asarray(out.view(bool))


def without_specks(filled: Array, *, share: float = 0.0, least: float = 0.0) -> Array:
    """Connected components of at least ``share`` of the largest, and of at least ``least`` voxels.

    Only filled voxels are visited: a grid may have 32 million cells.
    """
    from scipy import ndimage

    label, _ = ndimage.label(filled, np.ones((3, 3, 3)))
    at = np.flatnonzero(filled)
    component = label.ravel()[at]
    del label
    sizes = np.bincount(component)
    out = filled.copy()
    if len(at):
        out.ravel()[at[sizes[component] < max(share * sizes.max(), least)]] = False
    return out


# --- the Gaussians -------------------------------------------------------------------------------


@njit(nogil=True, error_model="numpy")
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
    """Add every Gaussian to the cells in its reach from ``begin (3,)`` up to ``end (3,)``."""
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


@njit(nogil=True, error_model="numpy")
def _beyond(
    mean: Array, log_scale: Array, reach: float, low: Array, h: Array, begin: Array, end: Array
) -> bool:
    """Whether a Gaussian reaches no cell whatever its rotation: a quick test that rejects most."""
    widest = math.exp(2 * float(max(log_scale[0], log_scale[1], log_scale[2])))
    for a in range(3):
        r = math.sqrt(reach * (widest + 0.25 * h[a] * h[a]))
        if mean[a] + r < low[a] + begin[a] * h[a] or mean[a] - r > low[a] + end[a] * h[a]:
            return True
    return False


@njit(nogil=True, error_model="numpy")
def _covariance(q: Array, log_scale: Array, turn: Array) -> Array:
    """``(3, 3)`` of one Gaussian, rotated into the physics frame."""
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


@njit(nogil=True, error_model="numpy")
def _inverse(c: Array) -> Array:
    """Inverse of a symmetric positive matrix, as ``xx, xy, xz, yy, yz, zz``."""
    p = np.empty(6)
    p[0] = c[1, 1] * c[2, 2] - c[1, 2] * c[1, 2]
    p[1] = c[0, 2] * c[1, 2] - c[0, 1] * c[2, 2]
    p[2] = c[0, 1] * c[1, 2] - c[0, 2] * c[1, 1]
    p[3] = c[0, 0] * c[2, 2] - c[0, 2] * c[0, 2]
    p[4] = c[0, 1] * c[0, 2] - c[0, 0] * c[1, 2]
    p[5] = c[0, 0] * c[1, 1] - c[0, 1] * c[0, 1]
    det = c[0, 0] * p[0] + c[0, 1] * p[1] + c[0, 2] * p[2]
    return p / det


@njit(nogil=True, error_model="numpy")
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
    """Add one Gaussian's ``-ln(1 - alpha exp(-d^2 / 2))`` at the centres of a box of cells."""
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


@njit(nogil=True, error_model="numpy")
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
    """Add one Gaussian as a sheet, located in every column where it is densest."""
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

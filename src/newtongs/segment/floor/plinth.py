"""The plinth that was captured with a lone object standing on it.

A statue is captured with its plinth and nothing else. The plinth is not a floor, but it is the
statue that a person would push. A chair must not be cut at its seat, nor a vase at its shoulder, so
the conditions are strict. In horizontal slices a plinth is as wide all the way down as at its top,
and not just a foot plate. Its top is flat, and free all around what stands on it.
"""

from typing import NamedTuple

import numpy as np

from ...base.types import Array
from ...scene.gaussians import GaussianScene
from ...scene.similarity import VISIBLE
from ...scene.world_frame import WorldFrame
from ..cutout.completion import BROAD, FINENESS, TAILS
from ..voxels import FILLED_DEPTH, Grid, optical_depth, solid_body
from .finding import FloorPlane

GAP = 2  # voxels by which a layer is grown and shrunk to close it
STEP = 3  # voxels above the top at which the object on it is measured
NARROWER = 0.6  # largest area of the object over that of the top
AS_WIDE = 0.8  # least area of each slice over that of the top
THICK = 0.3  # least height of a plinth over its width
TALL = 0.25  # least height of the object over the whole height
FLAT, EVEN = 1.5, 0.7  # voxels the top may deviate, over this share of it
STRAY, THINNEST = 3.0, 0.25  # thickness of the top: standard deviations, and voxels at least
RIM = 0.05  # of the top's rim that the object may cover at most


class Top(NamedTuple):
    """The top of a plinth, in voxels."""

    level: float
    bare: Array
    """Columns ``(X, Z)`` where nothing stands on it."""


def find_plinth(scene: GaussianScene, floor: FloorPlane) -> FloorPlane | None:
    """The top of the plinth in a capture without a floor, as a floor for the object."""
    world = WorldFrame.of_floor(floor.up, floor.height)
    filled, grid = _voxels(scene, world)
    if filled is None or grid is None:
        return None
    # Layer by layer: without gaps of a voxel or two, and without its inside, which no camera saw.
    solid = np.moveaxis(solid_body(filled, GAP, axes=(0, 2)), 1, 0)
    top = _top(solid, filled)
    if top is None:
        return None
    at, stray = _measured(scene, world, grid, top)
    height = floor.height + at
    return FloorPlane(floor.up, height, 0.0, "found", stray, f"a plinth's top at {height:.3g}")


def _measured(scene: GaussianScene, world: WorldFrame, grid: Grid, top: Top) -> tuple[float, float]:
    """Height above the floor of the Gaussians of the top, and their deviation."""
    x = world.to_physics(scene.means[scene.opacities >= VISIBLE]).double().numpy()
    cells, h = grid.cells(x), float(grid.h[1])
    inside = ((cells >= 0) & (cells < grid.shape)).all(-1)
    x, cells = x[inside], cells[inside]
    on = top.bare[cells[:, 0], cells[:, 2]] & (abs(cells[:, 1] - top.level) <= STEP)
    y = x[on, 1]
    if not len(y):
        return float(grid.low[1]) + (top.level + 0.5) * h, FLAT * h
    middle = float(np.median(y))
    return middle, max(STRAY * 1.4826 * float(np.median(abs(y - middle))), THINNEST * h)


def _voxels(scene: GaussianScene, world: WorldFrame) -> tuple[Array | None, Grid | None]:
    """The filled voxels of the scene, and their grid."""
    opaque = scene[scene.opacities >= VISIBLE]
    if len(opaque) < 2:
        return None, None
    x = world.to_physics(opaque.means).double().numpy()
    low, high = np.quantile(x, [TAILS, 1 - TAILS], axis=0)
    size = float((high - low).max())
    if not size > 0:
        return None, None
    grid = Grid.around(low, high, np.full(3, size / FINENESS), margin=1)
    narrow = opaque[opaque.scales.amax(-1) < BROAD * size]
    return optical_depth(narrow, world, grid) >= FILLED_DEPTH, grid


def _top(solid: Array, filled: Array) -> Top | None:
    """The highest layer of ``solid (Y, X, Z)`` that is the top of a plinth."""
    area = solid.sum((1, 2)).astype(float)
    layers = np.flatnonzero(area)
    if not len(layers):
        return None
    bottom, end = int(layers[0]), int(layers[-1])
    for y in range(end - STEP, bottom, -1):
        wide = area[y] > 0 and area[bottom + 1 : y + 1].min() >= AS_WIDE * area[y]
        thick = y - bottom >= THICK * np.sqrt(area[y])
        tall = end - y >= TALL * (end - bottom)
        steps = area[y + STEP] <= NARROWER * area[y] and area[y + STEP] > 0
        if wide and thick and tall and steps:
            top = _free_top(solid, filled, y)
            if top is not None:
                return top
    return None


def _free_top(solid: Array, filled: Array, y: int) -> Top | None:
    """The top of layer ``y`` if it is flat and what stands on it keeps away from its rim."""
    from scipy import ndimage

    top, above = solid[y], ndimage.binary_dilation(solid[y + STEP], np.ones((3, 3)), iterations=2)
    rim = top & ~ndimage.binary_erosion(top, np.ones((3, 3)))
    bare = top & ~above
    heights = filled.shape[1] - 1 - np.argmax(filled[:, ::-1], axis=1)
    if not bare.any() or (rim & above).sum() > RIM * rim.sum():
        return None
    level = float(np.median(heights[bare]))
    even = np.abs(heights[bare] - level) <= FLAT
    flat = abs(level - y) <= STEP and float(even.mean()) >= EVEN
    return Top(level, bare) if flat else None

"""What a lone thing stands on that was captured with it: a plinth.

A statue comes with its plinth and nothing else. The plinth is no floor, but the statue is what a
person would push. A chair must not be torn apart at its seat, nor a vase at its shoulder, so much
is asked of a plinth. Seen in slices from the bottom up, it is as wide all the way down as at its
top, and not just a foot plate. Its top is flat, and free all around what stands on it.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..gaussians import GaussianScene
from ..placing import VISIBLE
from ..world_frame import WorldFrame
from .density import Grid, optical_depth
from .floor import Floor

Array: TypeAlias = npt.NDArray[Any]

FINENESS = 64  # voxels along the thing
DENSE = 0.5  # optical depth from which a voxel is filled
BROAD = 0.15  # of the thing's extent: wider Gaussians are haze
TAILS = 0.002  # share of the means at either end that does not count for the extent
STEP = 3  # voxels above the top at which the thing on it is measured
NARROWER = 0.6  # area of what stands on a plinth over that of its top, at most
AS_WIDE = 0.8  # area of each slice of the plinth over that of its top, at least
THICK = 0.3  # height of a plinth over its width, at least
TALL = 0.25  # of the whole height that stands on it, at least
FLAT, EVEN = 1.5, 0.7  # voxels that its top may stray, over so much of it
STRAY, THINNEST = 3.0, 0.25  # standard deviations that belong to the top; voxels, at least
RIM = 0.05  # of the top's rim that what stands on it may cover, at most


class Top(NamedTuple):
    """The top of a plinth, in voxels."""

    level: float
    bare: Array
    """Columns ``(X, Z)`` with nothing on it."""


def find_plinth(scene: GaussianScene, floor: Floor) -> Floor | None:
    """The top of the plinth in a capture without a floor, as something to stand on."""
    world = WorldFrame.of_floor(floor.up, floor.height)
    filled, grid = _voxels(scene, world)
    if filled is None or grid is None:
        return None
    solid = np.stack([_closed(layer) for layer in np.moveaxis(filled, 1, 0)])
    top = _top(solid, filled)
    if top is None:
        return None
    at, stray = _measured(scene, world, grid, top)
    height = floor.height + at
    return Floor(floor.up, height, 0.0, "found", stray, f"a plinth's top at {height:.3g}")


def _measured(scene: GaussianScene, world: WorldFrame, grid: Grid, top: Top) -> tuple[float, float]:
    """Height of the top's own Gaussians above the floor, and how far they stray."""
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
    """What of the scene is filled, and where."""
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
    return optical_depth(narrow, world, grid) >= DENSE, grid


def _closed(layer: Array) -> Array:
    """A slice without gaps of a voxel or two, and without its inside, which no camera saw."""
    from scipy import ndimage

    wide = np.pad(layer, 3)
    closed = ndimage.binary_closing(wide, np.ones((3, 3)), iterations=2)
    return np.asarray(ndimage.binary_fill_holes(closed)[3:-3, 3:-3])


def _top(solid: Array, filled: Array) -> Top | None:
    """The top of a plinth among the layers of ``solid (Y, X, Z)``, the highest of them."""
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
    """Where the layer's top lies, if it is flat and what stands on it keeps away from its rim."""
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

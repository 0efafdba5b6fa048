"""The static part of a scene as solid boxes, so that objects land on tables and fall off edges.

Cells of a grid are filled by the optical depth of the Gaussians. The excess is carved away: a cell
at the top of a surface is removed if the Gaussians pass through its lower half, or not at all.
Surfaces are thickened downward, low narrow bumps are removed, and the cells are merged greedily
into boxes. Far from the objects the cells are coarser.

Holes under the objects are closed, since no camera saw the ground there. Cells that overlap with an
object at the start are removed, since they must be remains of that object.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from ..base.errors import InputError
from ..base.jit import njit
from ..base.types import Array
from ..scene.gaussians import GaussianScene
from ..scene.world_frame import WorldFrame
from ..segment.voxels import SHEET, Grid, density, without_specks
from .shapes import Shape

Region: TypeAlias = tuple[Array, Array]  # lowest and highest corner (3,)
Objects: TypeAlias = Sequence[tuple[Shape, Array]]  # shape and position of each

FINENESS = 32  # cells along the moving objects
SOLID_DEPTH = 1.0  # optical depth above which a cell is filled
FAINT = 0.1  # opacity below which a Gaussian is haze
WIDE = 0.3  # of the objects' size: wider Gaussians are sky and blur
THIN, WIDEST = 0.12, 3.0  # of their size: largest thickness and width of a piece of wall
SHEETS = 0.6  # factor on the opacity of such a piece
SPECK = 30  # cells: smaller connected parts are floaters
LOWER = 0.4  # of a cell: a surface lower in the cell frees it
CARVED = 3  # most cells removed from the top of a surface
SUNK = 0.5  # of a cell: overlap of an object with its support; it is lifted later
NARROW = 7  # cells: parts narrower than a square of this size
BUMP = 3  # and at most this much higher than their surroundings are removed
THICKNESS = 2  # cells by which a surface is thickened downward
OUTLIERS = 1e-3  # share of the Gaussians beyond the grid at each end
REACH = 12.0  # object sizes around the objects covered by fine cells at most, sideways
ABOVE = 4.0  # and upward
FAR = 4  # width and extent of the coarse cells over those of the fine ones
MOST_CELLS = 32_000_000
MOST_NEAR = 14_000  # most boxes of fine cells; if there are more, the region shrinks
CLOSER = 0.8  # factor by which it shrinks
MOST_BOXES = 20_000  # of both kinds, the nearest to the objects


@dataclass(frozen=True, eq=False)
class Collider:
    """Solid boxes in the physics frame."""

    boxes: Array
    """Lowest and highest corner ``(N, 2, 3)``."""
    cell: float
    """Edge of the cells merged into them."""

    @property
    def bottom(self) -> float:
        """Lowest point of all boxes; infinite if there is none."""
        return float(self.boxes[:, 0, 1].min()) if len(self.boxes) else math.inf

    @property
    def top(self) -> float:
        """Highest point of all boxes; minus infinity if there is none."""
        return float(self.boxes[:, 1, 1].max()) if len(self.boxes) else -math.inf


def collider(
    scene: GaussianScene,
    world: WorldFrame,
    *,
    size: float = 0.5,
    cell: float | None = None,
    objects: Objects = (),
    pushed: int | None = None,
) -> Collider:
    """The solid parts of a scene.

    Args:
        scene: its static Gaussians.
        world: takes them to the physics frame.
        size: of the moving objects, in physics units; determines the cells.
        cell: edge of a cell, instead of ``size``.
        objects: shape and position ``p (3,)`` of each object at the start.
        pushed: how many of them, the first ones, have fine cells around them if there are too many
            for all; by default all.
    """
    if cell is not None and not cell > 0:
        raise InputError(f"cell: expected a length above zero, got {cell}")
    if not size > 0:
        raise InputError(f"size: expected a length above zero, got {size}")
    part = _matter(scene, world, size)
    if not len(part):
        return Collider(np.empty((0, 2, 3)), cell or size / FINENESS)
    whole = _extent(part, world, size)
    near = _around(objects, REACH * size, ABOVE * size, whole)
    grid = _aligned(*near, cell or size / FINENESS)
    filled = _filled(part, world, grid)
    for shape, p in objects:
        _make_room(filled, grid, shape, p)
    if not objects:
        return Collider(grid.corners(merged(filled)), float(grid.h[0]))
    near, boxes = _few_enough(filled, grid, objects[:pushed], near)
    further = _around(objects, FAR * REACH * size, ABOVE * size, whole)
    if (further[0] < near[0]).any() or (further[1] > near[1]).any():
        boxes = np.concatenate([boxes, _coarse(part, world, objects, near, further, grid.h[0])])
    return Collider(_nearest(boxes, (near[0] + near[1]) / 2), float(grid.h[0]))


def _few_enough(
    filled: Array, grid: Grid, objects: Objects, region: Region
) -> tuple[Region, Array]:
    """The boxes of a region, reduced to a smaller one around the objects if there are too many."""
    boxes = grid.corners(merged(filled))
    reach = float(max(region[1][::2] - region[0][::2])) / 2
    while len(boxes) > MOST_NEAR and reach > 4 * grid.h[0]:
        reach *= CLOSER
        region = _around(objects, reach, math.inf, region)
        inside, kept = _cells_within(grid, region), np.zeros_like(filled)
        kept[inside] = filled[inside]
        boxes = grid.corners(merged(kept))
    return region, boxes


def _coarse(
    part: GaussianScene, world: WorldFrame, objects: Objects, near: Region, region: Region, h: float
) -> Array:
    """Boxes of wider cells, as high as the fine ones, beyond the fine region."""
    grid = _aligned(*region, h, wide=FAR)
    filled = _filled(part, world, grid)
    for shape, p in objects:  # loose ones may be far from the pushed one
        _make_room(filled, grid, shape, p)
    filled[_cells_within(grid, near)] = False
    return grid.corners(merged(filled))


def _cells_within(grid: Grid, region: Region) -> tuple[slice, slice, slice]:
    """The cells entirely inside a region."""
    first = np.ceil((region[0] - grid.low) / grid.h - 1e-6).clip(0).astype(int)
    last = np.floor((region[1] - grid.low) / grid.h + 1e-6).clip(0).astype(int)
    x, y, z = (slice(int(a), int(b)) for a, b in zip(first, last, strict=True))
    return x, y, z


def _nearest(boxes: Array, at: Array) -> Array:
    """At most ``MOST_BOXES`` of the boxes, in their order."""
    if len(boxes) <= MOST_BOXES:
        return boxes
    warnings.warn(
        f"the scene has {len(boxes):,} solid boxes; the {MOST_BOXES:,} nearest are kept",
        stacklevel=2,
    )
    away = np.linalg.norm(np.clip(at, boxes[:, 0], boxes[:, 1]) - at, axis=-1)
    return boxes[np.sort(np.argpartition(away, MOST_BOXES)[:MOST_BOXES])]


def _matter(scene: GaussianScene, world: WorldFrame, size: float) -> GaussianScene:
    """Gaussians that are solid.

    Faint ones are haze. Wide ones are sky and blur or, if thin, the plain parts of walls and
    floors: these count less, so that only two on top of each other are solid.
    """
    scales = (scene.log_scales + math.log(world.scale)).sort(-1).values
    thin, widest = scales[:, 0], scales[:, 2]
    opaque = scene.logits > math.log(FAINT / (1 - FAINT))
    narrow = widest < math.log(WIDE * size)
    sheet = ~narrow & (thin < math.log(THIN * size)) & (widest < math.log(WIDEST * size))
    kept = opaque & (narrow | sheet) & torch.isfinite(scene.means).all(-1)
    alpha = torch.where(sheet, SHEETS * scene.opacities, scene.opacities)[kept]
    return scene[kept].replace(logits=torch.logit(alpha.clamp(1e-6, 1 - 1e-6)))


def _extent(scene: GaussianScene, world: WorldFrame, size: float) -> Region:
    """Corners of a box around nearly all Gaussians, without outliers."""
    x = world.to_physics(scene.means).numpy(force=True).T.copy()
    rank = int(OUTLIERS * x.shape[1])
    x.partition((rank, x.shape[1] - 1 - rank))
    low, high = (
        x[:, i].astype(float) - sign * size / 8 for i, sign in ((rank, 1), (-1 - rank, -1))
    )
    return low, np.maximum(high, low + size / FINENESS)


def _around(objects: Objects, sideways: float, above: float, whole: Region) -> Region:
    """The part of a region near the objects, and everything below them."""
    low, high = whole
    if not objects:
        return whole
    at = np.array([p for _, p in objects])
    low = np.maximum(low, at.min(0) - np.array([sideways, np.inf, sideways]))
    high = np.minimum(high, at.max(0) + np.array([sideways, above, sideways]))
    return low, np.maximum(high, low + 1e-9)


def _aligned(low: Array, high: Array, h: float, *, wide: int = 1) -> Grid:
    """A grid of cells of height ``h``, or coarser, with a face in the plane y = 0.

    The cells are ``wide`` times as wide as high.
    """
    edges = h * np.array([wide, 1, wide])
    count = float(np.prod((high - low) / edges + 4))
    edges *= max(1.0, (count / MOST_CELLS) ** (1 / 3))
    low = np.array([low[0], math.floor(low[1] / edges[1]) * edges[1], low[2]])
    return Grid.around(low, high, edges, margin=THICKNESS + 1)


def _filled(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Array:
    """Solid cells: filled, without floaters, carved, thickened."""
    found = density(scene, world, grid)
    deep = found.depth >= SOLID_DEPTH
    empty = found.weight < SHEET
    low = ~empty & (found.height < LOWER * found.weight)
    del found  # a grid may have 32 million cells, and labels of components take as much again
    filled = without_specks(deep, least=SPECK)
    _carve(filled, empty, low)
    for _ in range(THICKNESS):
        filled[:, :-1] |= filled[:, 1:]
    _level(filled)
    return filled


def within_any(points: Array, rectangles: Array) -> Array:
    """Which points ``(n, 2)`` lie in one of the rectangles ``(m, 2, 2)``, lowest corners first.

    The rectangles' edges divide the plane into cells, filled by a cumulative sum over corners.
    """
    x, z = (np.unique(rectangles[:, :, a]) for a in (0, 1))
    count = np.zeros((len(x) + 1, len(z) + 1), np.int32)
    for i, j, sign in ((0, 0, 1), (1, 1, 1), (0, 1, -1), (1, 0, -1)):
        at = np.searchsorted(x, rectangles[:, i, 0]), np.searchsorted(z, rectangles[:, j, 1])
        np.add.at(count, at, sign)
    filled = count.cumsum(0).cumsum(1) > 0
    cells = (np.searchsorted(e, points[:, a], "right") - 1 for a, e in ((0, x), (1, z)))
    column, row = cells
    return filled[column, row]  # before the first edge is -1, the last column or row: empty


def _carve(filled: Array, empty: Array, low: Array) -> None:
    """Remove cells, in place, that are above the surface that filled them.

    These are top cells whose surface lies in their lower part (``low``), or that contain no surface
    (``empty``) and were filled by neighbouring Gaussians.
    """
    for _ in range(CARVED):
        top = filled & empty
        top[:, :-1] &= ~filled[:, 1:]
        top[:, 1:] &= filled[:, :-1]  # the last cell of a surface stays
        top[:, 0] = False
        filled &= ~top
    top = filled & low
    top[:, :-1] &= ~filled[:, 1:]
    top[:, 0] = False
    filled &= ~top
    filled[:, :-1] |= top[:, 1:]  # the surface is closer to the cell below, which is filled now


def _level(filled: Array) -> None:
    """Remove, in place, low narrow bumps on a surface: tufts, rims, noise.

    In reality they hardly affect a large object; as solid boxes they would kick or hold it.
    """
    from scipy import ndimage

    layers = np.flatnonzero(filled.any((0, 2)))
    if not len(layers):
        return
    filled = filled[:, layers[0] : layers[-1] + 2]
    broad = filled.view(np.uint8)
    for keep in (ndimage.minimum_filter1d, ndimage.maximum_filter1d):
        for axis in (0, 2):
            broad = keep(broad, NARROW, axis=axis, mode="constant")
    _take_bumps(filled, broad)


@njit(nogil=True)
def _take_bumps(filled: Array, broad: Array) -> None:
    """Clear the cells above the top broad one of each column if there are at most ``BUMP``."""
    nx, ny, nz = filled.shape
    for x in range(nx):
        for y in range(ny - 1):
            for z in range(nz):
                if not broad[x, y, z] or broad[x, y + 1, z] or not filled[x, y + 1, z]:
                    continue
                top = y + 1
                while top < ny and filled[x, top, z] and top <= y + BUMP + 1:
                    top += 1
                if top <= y + BUMP + 1:
                    filled[x, y + 1 : top, z] = False


def _make_room(filled: Array, grid: Grid, shape: Shape, p: Array) -> None:
    """Close the ground under an object, then remove what overlaps with it, in place."""
    low, high = (p + corner for corner in shape.bounds)
    first = np.maximum(grid.cells(low[None])[0] - 1, 0)
    last = np.minimum(grid.cells(high[None])[0] + 2, grid.shape)
    if (first >= last).any():
        return
    _close_ground(filled, grid, first, last, low[1])
    there = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
    box = np.argwhere(filled[there]) + first
    top = grid.low[1] + (box[:, 1] + 1) * grid.h[1]
    above = top > low[1] + SUNK * grid.h[1]
    box, top = box[above], top[above]
    x, margin = grid.middles(box) - p, float(grid.h[0])
    overlapping = _inside(shape, x, margin=margin)
    # A bump between its feet would hook it.
    feet = (top <= low[1] + (BUMP + 1) * grid.h[1]) & ~overlapping
    overlapping[feet] = _between(shape, x[feet], margin=margin)
    filled[tuple(box[overlapping].T)] = False


def _close_ground(filled: Array, grid: Grid, first: Array, last: Array, low: float) -> None:
    """Fill holes, within an object's outline, in the layer that it stands on."""
    from scipy import ndimage

    top = math.floor((low - grid.low[1]) / grid.h[1] + 1e-3)  # the first layer above
    if not THICKNESS <= top < filled.shape[1]:
        return
    ground = filled[:, top - THICKNESS : top].any(1)
    patch = np.zeros_like(ground)
    patch[first[0] : last[0], first[2] : last[2]] = True
    if not (ground & ndimage.binary_dilation(patch, iterations=2)).any():
        return  # it hangs in the air
    whole = ndimage.binary_fill_holes(ground)
    filled[:, top - THICKNESS : top] |= (whole & patch)[:, None]


def _inside(shape: Shape, x: Array, *, margin: float) -> Array:
    """Which points ``(N, 3)``, relative to the object, lie in it or within ``margin`` of it."""
    if shape.radius is not None:
        return np.linalg.norm(x - shape.center, axis=-1) <= shape.radius + margin
    found = np.zeros(len(x), bool)
    for piece in shape.pieces:
        found |= _in_hull(piece, x, margin)
    return found


def _between(shape: Shape, x: Array, *, margin: float) -> Array:
    """Which points ``(N, 3)`` lie in the hull of all pieces of an object."""
    if shape.radius is not None or not len(x):
        return np.zeros(len(x), bool)
    return _in_hull(np.concatenate(shape.pieces), x, margin)


def _in_hull(corners: Array, x: Array, margin: float) -> Array:
    from scipy.spatial import ConvexHull

    planes = ConvexHull(corners).equations
    inside: Array = (x @ planes[:, :3].T + planes[:, 3]).max(-1, initial=-np.inf) <= margin
    return inside


def merged(filled: Array) -> Array:
    """Disjoint boxes ``(N, 2, 3)`` of whole cells that together are the filled cells."""
    out = np.empty((max(int(filled.sum()), 1), 6), np.int64)
    n = _merge(np.ascontiguousarray(filled), np.zeros(filled.shape, np.bool_), out)
    return out[:n].reshape(-1, 2, 3)


@njit(nogil=True)
def _merge(filled: Array, done: Array, out: Array) -> int:
    """Each free cell grows along x, then z, then y, as long as all cells are filled and free."""
    nx, ny, nz = filled.shape
    count = 0
    for y in range(ny - 1, -1, -1):
        for x in range(nx):
            for z in range(nz):
                if not filled[x, y, z] or done[x, y, z]:
                    continue
                x1 = x + 1
                while x1 < nx and filled[x1, y, z] and not done[x1, y, z]:
                    x1 += 1
                z1 = z + 1
                while z1 < nz and _free(filled, done, x, x1, y, y + 1, z1, z1 + 1):
                    z1 += 1
                y0 = y
                while y0 > 0 and _free(filled, done, x, x1, y0 - 1, y0, z, z1):
                    y0 -= 1
                for a in range(x, x1):
                    for b in range(y0, y + 1):
                        for c in range(z, z1):
                            done[a, b, c] = True
                out[count, 0], out[count, 1], out[count, 2] = x, y0, z
                out[count, 3], out[count, 4], out[count, 5] = x1, y + 1, z1
                count += 1
    return count


@njit(nogil=True)
def _free(filled: Array, done: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int) -> bool:
    """Whether all cells of a box are filled and in no other box."""
    for x in range(x0, x1):
        for y in range(y0, y1):
            for z in range(z0, z1):
                if not filled[x, y, z] or done[x, y, z]:
                    return False
    return True

"""What an object stands on: the floor, a plinth, a table, a shelf.

Surfaces with open space above are searched in a ring around the object's foot. The support is the
level at the object's lowest part. If there is none, because the selection cut into the support, it
is the highest level that contains most of the ring. A plane, which may slope, is fitted to it.
"""

from typing import NamedTuple

import numpy as np
import torch

from ...base.types import Array
from ..cutout.completion import Around
from ..voxels import SHEET, density

RING = 12  # voxels: width of the ring around the foot
FOOT = 0.25  # of the body's height that makes its foot
SUNK = 0.35  # of the body's height that may be support selected by mistake
LOOSELY = 4  # voxels of gap between body and support that are tolerated
LEVEL_SHARE, TOUCHING_SHARE = 0.4, 0.15  # of the ring's columns: a level, and a support
LEAST_COLUMNS = 12  # columns that a level must have
WIDEST = 32  # voxels: wider Gaussians are haze
PLANE_NEAR = 2.0  # voxels from the plane within which a surface belongs to it
STEEP = 0.4  # slope from which it is not a support
ROUNDS = 6


class Support(NamedTuple):
    """The plane ``y = height + slope . (x, z)`` in the frame of the floor, and how rough it is."""

    height: float
    slope: Array
    """``(2,)``."""
    spread: float
    """Standard deviation of its surface from the plane."""

    def above(self, x: Array) -> Array:
        """Heights ``(N,)`` of points ``(N, 3)`` above it."""
        return np.asarray(x[:, 1] - self.height - x[:, ::2] @ self.slope)

    @property
    def normal(self) -> Array:
        """Unit vector ``(3,)``."""
        n = np.array([-self.slope[0], 1.0, -self.slope[1]])
        return np.asarray(n / np.linalg.norm(n))


def find_support(found: Around) -> Support | None:
    """What the object stands on; None if nothing."""
    bottom, height = _layers(found.body)
    foot = _foot(found.body)
    points = _surfaces(found, foot)
    rise, (i, k) = points[:, 1] - bottom, points[:, ::2].astype(int).T
    beside = ~foot[i, k] & (rise > -LOOSELY) & (rise < max(SUNK * height, LOOSELY))
    level, seen = _level(points[beside], bottom), True
    if level is None:  # it hides its support; what is higher up is in its hollow
        level, seen = _level(points[foot[i, k] & (abs(rise) < LOOSELY)], bottom), False
    plane = None if level is None else _fitted(points, level)
    if plane is None or (seen and _share_of_ring(points, plane, foot) < TOUCHING_SHARE):
        return None  # nothing, or bars of a stand with nothing between them
    return _in_units(plane, found)


def _layers(body: Array) -> tuple[int, int]:
    """The lowest layer of the body, and its number of layers."""
    layers = np.flatnonzero(body.any((0, 2)))
    return int(layers[0]), int(layers[-1] - layers[0] + 1)


def _ring(foot: Array) -> Array:
    """Columns under the foot and in the ring around it."""
    from scipy import ndimage

    return np.asarray(ndimage.distance_transform_edt(~foot) <= RING)


def _share_of_ring(points: Array, plane: tuple[float, Array, float], foot: Array) -> float:
    """Share of the ring around the foot where a plane, in voxels, has a surface."""
    at, slope, _ = plane
    on = abs(points[:, 1] - at - points[:, ::2] @ slope) <= PLANE_NEAR
    there, ring = np.zeros_like(foot), _ring(foot) & ~foot
    there[tuple(points[on][:, ::2].astype(int).T)] = True
    return float((there & ring).sum() / max(int(ring.sum()), 1))


def _surfaces(found: Around, foot: Array) -> Array:
    """Points ``(n, 3)``, in voxels, of surfaces around the foot with open space above."""
    narrow = found.scene.scales.amax(-1).numpy() < WIDEST * found.grid.h[0]
    kept = torch.from_numpy(~found.own & narrow)
    rest = density(found.scene[kept], found.world, found.grid)
    surface = (rest.weight >= SHEET) & _open_above(rest.weight) & _ring(foot)[:, None]
    i, j, k = np.nonzero(surface)
    within = rest.height[i, j, k] / rest.weight[i, j, k]
    return np.stack([i + 0.5, j + within, k + 0.5], -1)


def _open_above(weight: Array) -> Array:
    """Voxels with no surface from two to four voxels above."""
    full = np.pad(weight >= SHEET, ((0, 0), (0, 4), (0, 0)))
    n = weight.shape[1]
    return np.asarray(~(full[:, 2 : n + 2] | full[:, 3 : n + 3] | full[:, 4 : n + 4]))


def _foot(body: Array) -> Array:
    """Columns under the lowest part of the body, and those they enclose."""
    from scipy import ndimage

    bottom, height = _layers(body)
    foot = body[:, bottom : bottom + max(int(FOOT * height), LOOSELY)].any(1)
    return np.asarray(ndimage.binary_fill_holes(foot))


def _level(points: Array, bottom: int) -> float | None:
    """Height in voxels of the ring, or of its part nearest to the object."""
    if not len(points):
        return None
    column = points[:, 0] * 1e4 + points[:, 2]
    edges = np.arange(np.floor(points[:, 1].min()), points[:, 1].max() + 1)
    share = np.array([len(np.unique(column[abs(points[:, 1] - y) <= PLANE_NEAR])) for y in edges])
    if share.max() < LEAST_COLUMNS:
        return None
    share = share / len(np.unique(column))
    some = edges[share >= TOUCHING_SHARE]
    touching = some[abs(some - bottom) <= LOOSELY]
    if len(touching):
        best = touching[abs(touching - bottom).argmin()]
    elif (share >= LEVEL_SHARE).any():
        best = edges[share >= LEVEL_SHARE].max()
    elif len(some):
        best = some[abs(some - bottom).argmin()]
    else:
        return None
    near = abs(edges - best) <= PLANE_NEAR
    return float(edges[near][share[near].argmax()])


def _fitted(points: Array, level: float) -> tuple[float, Array, float] | None:
    """Height, slope and spread of the plane through the surfaces at a level, in voxels."""
    at, slope = level, np.zeros(2)
    middle = points[abs(points[:, 1] - level) <= PLANE_NEAR].mean(0)
    spread = PLANE_NEAR
    for _ in range(ROUNDS):
        off = points[:, 1] - at - (points - middle)[:, ::2] @ slope
        near = abs(off) <= PLANE_NEAR
        if near.sum() < LEAST_COLUMNS:
            return None
        A = np.column_stack([np.ones(near.sum()), (points - middle)[near][:, ::2]])
        at, *slope = np.linalg.lstsq(A, points[near, 1], rcond=None)[0]
        slope = np.array(slope)
        spread = 1.4826 * float(np.median(abs(off[near])))
    if np.linalg.norm(slope) > STEEP:
        at, slope = float(np.median(points[near, 1])), np.zeros(2)
    return float(at - middle[::2] @ slope), slope, spread


def _in_units(plane: tuple[float, Array, float], found: Around) -> Support:
    """A plane in voxels of the grid as one in the frame of the floor."""
    at, slope, spread = plane
    low, h = found.grid.low, float(found.grid.h[0])
    return Support(float(low[1] + h * at - low[::2] @ slope), slope, h * spread)

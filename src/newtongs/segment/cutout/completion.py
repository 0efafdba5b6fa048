"""Completing a selection: Gaussians of the object that it missed, and floaters around it.

Clusters consist of connected opaque Gaussians. They miss the inside of a body, which no camera saw
and which is often dark, and its faint rim: left behind, these remain as a ghost of the object.

The optical depth of the object on a grid of 64 voxels along it gives a closed, filled body.
Gaussians inside it, or just outside and closer to it than to anything else, join the object.
Floaters around it that belong to nothing are reported, and better left out.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...base.process import threads
from ...base.types import Array, Vec3
from ...scene.gaussians import GaussianScene
from ...scene.world_frame import WorldFrame
from ..floor.finding import FloorPlane
from ..scene_sample import rows_in_box
from ..voxels import FILLED_DEPTH, Grid, optical_depth, solid_body, without_specks

FINENESS = 64  # voxels along the object
BROAD = 0.15  # of the object's extent: wider Gaussians are haze and fill no voxels
TAILS = 0.002  # share of the means at either end ignored in the extent
SMALL = 0.01  # of the largest component: smaller ones are floaters
GAP = 3  # voxels: gaps up to twice this wide are closed
HALO = 4  # voxels: a Gaussian this close to the body may belong to it
BEYOND = 24  # voxels beyond the grid sideways, where the support continues
ALONE, AROUND = 3, 16  # voxels: floaters are farther from the rest, and this near the body


class Around(NamedTuple):
    """An object and the Gaussians near it that completion and cutting consider."""

    rows: Tensor
    """Indices of these Gaussians in the scene ``(n,)``."""
    scene: GaussianScene
    """They themselves, without view-dependent colour."""
    x: Array
    """Their centres in the physics frame ``(n, 3)``."""
    own: Array
    """Which are selected ``(n,)``."""
    free: Array
    """Which may join the object ``(n,)``: above the floor, and not part of another object."""
    world: WorldFrame
    grid: Grid
    body: Array
    """The object's voxels, gaps closed and hollows filled; ``grid.shape``."""
    rest: Array
    """Voxels filled by everything else; ``grid.shape``."""


def look_around(
    scene: GaussianScene,
    mask: Tensor,
    floor: FloorPlane,
    *,
    taken: Tensor | None = None,
    points: Tensor | None = None,
) -> Around | None:
    """The neighbourhood of an object; None if there is no body or nothing besides the object.

    ``points (N, 3)`` are all centres in the frame of the floor, if already known.
    """
    world = WorldFrame.of_floor(floor.up, floor.height)
    x = world.to_physics(scene.means) if points is None else points
    grid = _grid(x[mask].numpy())
    if grid is None or mask.all():
        return None
    rows = nearby(x, grid)
    part = scene.replace(sh=scene.sh[:, :1])[rows]
    x, own = x[rows], mask[rows].numpy()
    inside = _within(x, grid).numpy()
    h = floor.thickness if floor.kind == "found" else -math.inf
    free = inside & ~own & (x[:, 1].numpy() > h)
    if taken is not None:
        free &= ~taken[rows].numpy()
    body = _body(part[torch.from_numpy(own & inside)], world, grid, h)
    if not body.any():
        return None
    rest = filled(part[torch.from_numpy(~own & inside)], world, grid) & ~body
    rest = without_specks(rest, least=SMALL * body.sum())
    return Around(rows, part, x.numpy(), own, free, world, grid, body, rest)


def _grid(x: Array) -> Grid | None:
    """Voxels around the points ``(N, 3)``, with room for floaters."""
    x = x[np.isfinite(x).all(-1)]
    if len(x) < 2:
        return None
    low, high = np.quantile(x.astype(float), [TAILS, 1 - TAILS], axis=0)
    h = float((high - low).max()) / FINENESS
    return Grid.around(low, high, np.full(3, h), margin=AROUND + GAP) if h > 0 else None


def nearby(x: Vec3, grid: Grid) -> Tensor:
    """Indices of the points ``(N, 3)`` in the grid, or up to ``BEYOND`` cells outside it sideways.

    One axis at a time: of a large scene, the first leaves few points.
    """
    room = np.array([BEYOND, 0, BEYOND]) * grid.h
    return rows_in_box(x, *_corners(grid.low - room, grid.low + grid.h * grid.shape + room))


def _within(x: Vec3, grid: Grid) -> Tensor:
    """Mask ``(N,)`` of points in the grid."""
    low, high = _corners(grid.low, grid.low + grid.h * grid.shape)
    return ((x >= low) & (x < high)).all(-1)


def _corners(low: Array, high: Array) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(low), torch.from_numpy(high)


def filled(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Array:
    """Voxels filled by the Gaussians, except wide ones."""
    return optical_depth(scene[narrow(scene, grid)], world, grid) >= FILLED_DEPTH


def narrow(scene: GaussianScene, grid: Grid) -> Tensor:
    """Mask ``(N,)`` of Gaussians that are not wide compared with the object."""
    return scene.scales.amax(-1) < BROAD * FINENESS * float(grid.h[0])


def _body(scene: GaussianScene, world: WorldFrame, grid: Grid, floor: float) -> Array:
    """The object's voxels, gaps closed and hollows filled.

    A shell that stands on the floor is open below, where no camera saw it: the floor closes it.
    """

    def plug(solid: Array) -> Array:
        out = np.zeros_like(solid)
        bottom = int(np.flatnonzero(solid.any((0, 2)))[0])
        if grid.low[1] + (bottom - GAP) * grid.h[1] < floor:
            out[:, bottom] = True
        return out

    part = filled(scene, world, grid)
    if not part.any():
        return part
    return solid_body(without_specks(part, share=SMALL), GAP, plug=plug, padded=False)


def shared(found: Around) -> tuple[Array, Array]:
    """Masks ``(n,)`` of the free Gaussians that join the body, and of the floaters around it."""
    at = np.flatnonzero(found.free)
    cells = found.grid.cells(found.x[at])
    a, b = _distances(found.body, cells, AROUND), _distances(found.rest, cells, HALO + 1)
    near, alone = (a <= HALO) & (a < b), (b > ALONE) & (a < AROUND)
    alone &= narrow(found.scene, found.grid).numpy()[at]  # wide ones fill no voxels: undecided
    own, floaters = np.zeros((2, len(found.x)), bool)
    own[at[near]], floaters[at[alone & ~near]] = True, True
    return own, floaters


def _distances(part: Array, cells: Array, most: float) -> Array:
    """Distances ``(n,)`` of cells ``(n, 3)`` from the marked voxels; infinite from ``most`` on.

    Few cells are asked for, so this is faster than a distance for every voxel of the grid.
    """
    from scipy import ndimage
    from scipy.spatial import cKDTree

    shell = np.argwhere(part & ~ndimage.binary_erosion(part))
    if not len(shell) or not len(cells):
        return np.full(len(cells), np.inf)
    d, _ = cKDTree(shell).query(cells, distance_upper_bound=most, workers=threads())
    return np.where(part[tuple(cells.T)], 0.0, d)

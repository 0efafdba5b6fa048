"""A selection made whole: what belongs to the object and was missed, and what would hang there.

Clusters are made of opaque Gaussians that hang together. The inside of a body, which no camera saw
and which is often dark, and the faint seam around it are not among them: left behind, they stay as
a ghost where the object was.

The object's optical depth on a grid of 64 voxels along it gives a body, closed and filled. What
lies inside it, or just outside and nearer to it than to anything else, belongs to it. Floaters
around it that belong to nothing are better left out.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...threads import one_thread
from ..gaussians import GaussianScene
from ..world_frame import WorldFrame
from .density import Grid, optical_depth
from .floor import Floor

Array: TypeAlias = npt.NDArray[Any]

FINENESS = 64  # voxels along the object
DENSE = 0.5  # optical depth from which a voxel is filled
BROAD = 0.15  # of the object's extent: wider Gaussians do not fill voxels
TAILS = 0.002  # share of the means at either end that does not count for the extent
SMALL = 0.01  # of the largest component: smaller ones are floaters
GAP = 3  # voxels of a gap that is closed
HALO = 4  # voxels from the body, within which a Gaussian may belong to it
ALONE, AROUND = 3, 16  # voxels from everything else, and from the body: a floater


class Completion(NamedTuple):
    """What a selection lacked."""

    mask: Tensor
    """The object ``(N,)``: what was selected, its inside and its seam."""
    floaters: Tensor
    """Around the object ``(N,)``, and part of nothing."""


@one_thread()
def complete(
    scene: GaussianScene, mask: Tensor, floor: Floor, *, taken: Tensor | None = None
) -> Completion:
    """The object that ``mask (N,)`` selects most of.

    What lies on the floor stays there, and what is ``taken (N,)`` by other objects stays theirs.
    """
    nothing = torch.zeros_like(mask)
    world = WorldFrame.of_floor(floor.up, floor.height)
    grid = _grid(world.to_physics(scene.means[mask]).numpy())
    if grid is None or mask.all():
        return Completion(mask, nothing)
    near = _within(scene, world, grid)
    h = floor.thickness if floor.kind == "found" else -math.inf
    unclaimed = near & ~mask & (floor.heights(scene.means) > h)
    if taken is not None:
        unclaimed &= ~taken
    body = _body(scene[mask & near], world, grid, h)
    if not body.any():
        return Completion(mask, nothing)
    rest = _filled(scene[near & ~mask], world, grid) & ~body
    rest = _large(rest, SMALL * body.sum())
    return _shared(scene, mask, unclaimed, world, grid, body, rest)


def _grid(x: Array) -> Grid | None:
    """Voxels around the points ``(N, 3)``, with room for the floaters."""
    x = x[np.isfinite(x).all(-1)]
    if len(x) < 2:
        return None
    low, high = np.quantile(x.astype(float), [TAILS, 1 - TAILS], axis=0)
    h = float((high - low).max()) / FINENESS
    return Grid.around(low, high, np.full(3, h), margin=AROUND + GAP) if h > 0 else None


def _within(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Tensor:
    """Gaussians ``(N,)`` whose middles lie in the grid."""
    x = world.to_physics(scene.means)
    low, h = torch.tensor(grid.low), torch.tensor(grid.h)
    high = low + h * torch.tensor(grid.shape)
    return ((x >= low) & (x < high)).all(-1)


def _filled(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Array:
    """Voxels that the Gaussians fill, without the wide ones."""
    widest = BROAD * FINENESS * float(grid.h[0])
    return optical_depth(scene[scene.scales.amax(-1) < widest], world, grid) >= DENSE


def _large(filled: Array, least: float) -> Array:
    """Components of at least so many voxels."""
    from scipy import ndimage

    label, count = ndimage.label(filled, np.ones((3, 3, 3)))
    if not count:
        return filled
    sizes = np.bincount(label.ravel())
    sizes[0] = 0
    return (sizes >= least)[label]


def _body(scene: GaussianScene, world: WorldFrame, grid: Grid, floor: float) -> Array:
    """The object's voxels, gaps closed and hollows filled.

    A shell that stands on the floor is open below, where no camera saw it: the floor plugs it.
    """
    from scipy import ndimage

    filled = _filled(scene, world, grid)
    label, count = ndimage.label(filled, np.ones((3, 3, 3)))
    if not count:
        return filled
    sizes = np.bincount(label.ravel())[1:]
    filled = np.concatenate([[False], sizes >= SMALL * sizes.max()])[label]
    filled = ndimage.binary_closing(filled, np.ones((3, 3, 3)), iterations=GAP)
    bottom = int(np.flatnonzero(filled.any((0, 2)))[0])
    plugged = filled.copy()
    if grid.low[1] + (bottom - GAP) * grid.h[1] < floor:
        plugged[:, bottom] = True
    whole = ndimage.binary_fill_holes(plugged)
    return filled | (whole & ~plugged)


def _shared(
    scene: GaussianScene,
    mask: Tensor,
    unclaimed: Tensor,
    world: WorldFrame,
    grid: Grid,
    body: Array,
    rest: Array,
) -> Completion:
    """Who gets the ``unclaimed`` Gaussians, by distance from the body and from the rest."""
    from scipy import ndimage

    to_body, to_rest = (
        ndimage.distance_transform_edt(~part) if part.any() else np.full(part.shape, np.inf)
        for part in (body, rest)
    )
    rows = unclaimed.nonzero().squeeze(-1)
    cells = tuple(grid.cells(world.to_physics(scene.means[rows]).numpy()).T)
    a, b = to_body[cells], to_rest[cells]
    own, alone = (a <= HALO) & (a < b), (b > ALONE) & (a < AROUND)
    whole, floaters = mask.clone(), torch.zeros_like(mask)
    whole[rows[torch.from_numpy(own)]] = True
    floaters[rows[torch.from_numpy(alone & ~own)]] = True
    return Completion(whole, floaters)

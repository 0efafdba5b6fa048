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
from ...types import Vec3
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
BEYOND = 24  # voxels beyond the grid sideways, where the support goes on
ALONE, AROUND = 3, 16  # voxels from everything else, and from the body: a floater


class Completion(NamedTuple):
    """What a selection lacked."""

    mask: Tensor
    """The object ``(N,)``: what was selected, its inside and its seam."""
    floaters: Tensor
    """Around the object ``(N,)``, and part of nothing."""


class Around(NamedTuple):
    """An object and what is near it, as far as a completion and a cut look."""

    rows: Tensor
    """Which Gaussians of the scene ``(n,)``."""
    scene: GaussianScene
    """These, without view-dependent colour."""
    x: Array
    """Their middles in the physics frame ``(n, 3)``."""
    own: Array
    """Which were selected ``(n,)``."""
    free: Array
    """Which may be claimed ``(n,)``: above the floor, and nobody's."""
    world: WorldFrame
    grid: Grid
    body: Array
    """The object's voxels, gaps closed and hollows filled; ``grid.shape``."""
    rest: Array
    """Voxels that all else fills; ``grid.shape``."""


@one_thread()
def complete(
    scene: GaussianScene, mask: Tensor, floor: Floor, *, taken: Tensor | None = None
) -> Completion:
    """The object that ``mask (N,)`` selects most of.

    What lies on the floor stays there, and what is ``taken (N,)`` by other objects stays theirs.
    """
    found = look_around(scene, mask, floor, taken=taken)
    if found is None:
        return Completion(mask, torch.zeros_like(mask))
    own, floaters = shared(found)
    whole, alone = mask.clone(), torch.zeros_like(mask)
    whole[found.rows[own]], alone[found.rows[floaters]] = True, True
    return Completion(whole, alone)


def look_around(
    scene: GaussianScene,
    mask: Tensor,
    floor: Floor,
    *,
    taken: Tensor | None = None,
    points: Tensor | None = None,
) -> Around | None:
    """The surroundings of an object; None where there is nothing to fill or to compare with.

    ``points (N, 3)`` are all middles in the floor's frame, where they are known already.
    """
    world = WorldFrame.of_floor(floor.up, floor.height)
    x = world.to_physics(scene.means) if points is None else points
    grid = _grid(x[mask].numpy())
    if grid is None or mask.all():
        return None
    rows = _within(x, grid, beyond=BEYOND).nonzero().squeeze(-1)
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
    rest = _large(rest, SMALL * body.sum())
    return Around(rows, part, x.numpy(), own, free, world, grid, body, rest)


def _grid(x: Array) -> Grid | None:
    """Voxels around the points ``(N, 3)``, with room for the floaters."""
    x = x[np.isfinite(x).all(-1)]
    if len(x) < 2:
        return None
    low, high = np.quantile(x.astype(float), [TAILS, 1 - TAILS], axis=0)
    h = float((high - low).max()) / FINENESS
    return Grid.around(low, high, np.full(3, h), margin=AROUND + GAP) if h > 0 else None


def _within(x: Vec3, grid: Grid, *, beyond: int = 0) -> Tensor:
    """Points ``(N,)`` in the grid, or so many cells beyond it sideways."""
    low, h = torch.tensor(grid.low), torch.tensor(grid.h)
    room = beyond * h * torch.tensor([1.0, 0.0, 1.0])
    high = low + h * torch.tensor(grid.shape)
    return ((x >= low - room) & (x < high + room)).all(-1)


def filled(scene: GaussianScene, world: WorldFrame, grid: Grid) -> Array:
    """Voxels that the Gaussians fill, without the wide ones."""
    return optical_depth(scene[narrow(scene, grid)], world, grid) >= DENSE


def narrow(scene: GaussianScene, grid: Grid) -> Tensor:
    """Gaussians ``(N,)`` that are not wide beside the object."""
    return scene.scales.amax(-1) < BROAD * FINENESS * float(grid.h[0])


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

    solid = filled(scene, world, grid)
    label, count = ndimage.label(solid, np.ones((3, 3, 3)))
    if not count:
        return solid
    sizes = np.bincount(label.ravel())[1:]
    solid = np.concatenate([[False], sizes >= SMALL * sizes.max()])[label]
    solid = ~grown(~grown(solid, GAP), GAP)
    bottom = int(np.flatnonzero(solid.any((0, 2)))[0])
    plugged = solid.copy()
    if grid.low[1] + (bottom - GAP) * grid.h[1] < floor:
        plugged[:, bottom] = True
    whole = ndimage.binary_fill_holes(plugged)
    return solid | (whole & ~plugged)


def grown(marked: Array, n: int) -> Array:
    """Marked voxels, and all that are at most ``n`` from one along every axis."""
    from scipy import ndimage

    out = marked.view(np.uint8)
    for axis in range(marked.ndim):
        out = ndimage.maximum_filter1d(out, 2 * n + 1, axis=axis, mode="nearest")
    return np.asarray(out.view(bool))


def shared(found: Around) -> tuple[Array, Array]:
    """Who of the free Gaussians joins the body ``(n,)``, and who floats around it ``(n,)``."""
    from scipy import ndimage

    to_body, to_rest = (
        ndimage.distance_transform_edt(~part) if part.any() else np.full(part.shape, np.inf)
        for part in (found.body, found.rest)
    )
    at = np.flatnonzero(found.free)
    cells = tuple(found.grid.cells(found.x[at]).T)
    a, b = to_body[cells], to_rest[cells]
    near, alone = (a <= HALO) & (a < b), (b > ALONE) & (a < AROUND)
    alone &= narrow(found.scene, found.grid).numpy()[at]  # wide ones fill no voxels: no telling
    own, floaters = np.zeros((2, len(found.x)), bool)
    own[at[near]], floaters[at[alone & ~near]] = True, True
    return own, floaters

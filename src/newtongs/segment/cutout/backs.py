"""The backs of an object, which no camera saw: closed with flat Gaussians of its own.

A microwave against a wall is captured as three sides of a box and would be a dark cage when it
turns. From the empty voxels around an object rays go out in all directions that support and walls
leave open. A voxel from which rays get away was seen to be empty: a handle's opening, the room
between the legs of a chair. The other voxels within the convex hull of the object are its inside.
Where that has no Gaussians at its surface, it faces a wall, the support or a neighbour.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ...base import rotations
from ...base.jit import compiled
from ...base.types import Array
from ...scene.gaussians import GaussianScene
from ..floor.support import Support
from ..voxels import Grid, solid_body
from .completion import Around, filled
from .cutting import OPAQUE, THIN, WIDE, TopGrid, colors_near
from .walls import Wall

COARSE = 2  # voxels of the body along one of those used here
LOOKS = 96  # directions in which a voxel is looked at
SEEN = 3  # of them, from which a voxel that is seen to be empty is visible
ALONG = -0.1  # sine of the angle at which cameras still look along a support or a wall
CLOSE = 1  # voxels by which gaps in a captured surface are closed
BARE = 1.5  # voxels from the surface that was captured: farther off, a surface was not
FACING = 0.5  # cosine between a back and the wall that it faces
LEAST = 12  # voxels of an unseen surface: smaller ones are flaws of a seen one


class _Side(NamedTuple):
    """A plane that the object stands on or before."""

    normal: Array
    """Towards the object ``(3,)``."""
    off: float
    """Added to ``normal . x``: the distance from it."""


def close_backs(
    found: Around, own: Array, more: GaussianScene, support: Support | None, walls: Sequence[Wall],
    unseen: tuple[TopGrid, Array] | None = None,
) -> GaussianScene:  # fmt: skip
    """New Gaussians that close the unseen sides of an object.

    Args:
        found: the neighbourhood of the object.
        own: its Gaussians ``(n,)`` that were captured.
        more: those that were made for it.
        support: what it stands on.
        walls: what it stands before.
        unseen: cells of its support on which nothing was captured: nothing above them was seen.
    """
    sides = [_Side(wall.normal, float(wall.shift[1])) for wall in walls]
    if support is not None:
        n = support.normal
        sides.append(_Side(n, -float(n[1]) * support.height))
    part = filled(found.scene[torch.from_numpy(own)], found.world, found.grid)
    part |= filled(more, found.world, found.grid)
    captured, grid = _coarse(part, found.grid)
    if not sides or not captured.any():
        return found.scene[:0]
    dark = np.zeros_like(captured)
    if unseen is not None:
        plan, bare = unseen
        dark = plan.at(bare, _every(grid)).reshape(grid.shape)
    body = _inside(captured, _coarse(found.rest, found.grid)[0], dark, grid, sides)
    x, normals = _bare(body, captured, grid)
    return _discs(found, x, normals, _colors(found, own, x, normals, body, grid, sides), grid)


def _coarse(marked: Array, grid: Grid) -> tuple[Array, Grid]:
    """The voxels ``COARSE`` times as large, marked where one of theirs is."""
    odd = [(0, -n % COARSE) for n in marked.shape]
    x, y, z = (n // COARSE for n in np.pad(marked, odd).shape)
    cells = np.pad(marked, odd).reshape(x, COARSE, y, COARSE, z, COARSE)
    return np.asarray(cells.any((1, 3, 5))), Grid(grid.low, COARSE * grid.h, (x, y, z))


def _every(grid: Grid) -> Array:
    """Centres ``(n, 3)`` of all voxels."""
    return grid.middles(np.indices(grid.shape).reshape(3, -1).T)


def _inside(captured: Array, rest: Array, dark: Array, grid: Grid, sides: Sequence[_Side]) -> Array:
    """Voxels of the object and in it: in its hull, and ``dark`` or seen from nowhere."""
    shell = solid_body(captured, CLOSE, padded=False)
    blocked = shell | rest
    every = _every(grid)
    for side in sides:
        blocked |= (every @ side.normal + side.off < 0).reshape(grid.shape)
    looks = _directions(LOOKS)
    for side in sides:
        looks = looks[looks @ side.normal >= ALONG]
    low, high = (f(np.argwhere(shell), axis=0) for f in (np.min, np.max))
    box = np.zeros_like(shell)
    box[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] = True
    cells = np.argwhere(box & ~blocked)
    cells = cells[dark[tuple(cells.T)] | ~_seen(blocked | dark, cells, looks, SEEN)]
    out = np.zeros_like(shell)
    out[tuple(cells[_in_hull(cells, np.argwhere(captured))].T)] = True
    return np.asarray(shell | out)


def _directions(count: int) -> Array:
    """Unit vectors ``(count, 3)`` spread evenly over a sphere."""
    k = np.arange(count) + 0.5
    y, turn = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    r = np.sqrt(1 - y**2)
    return np.stack([r * np.cos(turn), y, r * np.sin(turn)], -1)


@compiled()
def _seen(blocked: Array, cells: Array, looks: Array, enough: int) -> Array:
    """Which cells ``(n, 3)`` have enough rays that leave the grid without meeting a blocked one."""
    out = np.zeros(len(cells), np.bool_)
    shape = blocked.shape
    for c in range(len(cells)):
        free = 0
        for d in range(len(looks)):
            step = 1 / max(abs(looks[d, 0]), abs(looks[d, 1]), abs(looks[d, 2]))
            n, away = 0, False
            while not away:
                n += 1
                i = int(np.floor(cells[c, 0] + 0.5 + n * step * looks[d, 0]))
                j = int(np.floor(cells[c, 1] + 0.5 + n * step * looks[d, 1]))
                k = int(np.floor(cells[c, 2] + 0.5 + n * step * looks[d, 2]))
                away = i < 0 or j < 0 or k < 0 or i >= shape[0] or j >= shape[1] or k >= shape[2]
                if not away and blocked[i, j, k]:
                    break
            free += away
            if free >= enough:
                out[c] = True
                break
    return out


def _in_hull(cells: Array, corners: Array) -> Array:
    """Which cells ``(n, 3)`` are in the convex hull of others ``(m, 3)``."""
    from scipy.spatial import ConvexHull, QhullError

    out = np.zeros(len(cells), bool)
    try:
        planes = ConvexHull(corners).equations
    except QhullError:  # flat: it has no inside
        return out
    for begin in range(0, len(cells), 4096):
        some = cells[begin : begin + 4096]
        out[begin : begin + 4096] = (some @ planes[:, :3].T + planes[:, 3]).max(-1) <= 1e-9
    return out


def _bare(body: Array, captured: Array, grid: Grid) -> tuple[Array, Array]:
    """Centres and outward normals ``(m, 3)`` of the body's surface where nothing was captured."""
    from scipy import ndimage

    away = ndimage.distance_transform_edt(~captured)
    surface = body & ~ndimage.binary_erosion(body, border_value=1) & (away > BARE)
    surface = surface & ~_lonely(surface)
    cells = np.argwhere(surface)
    soft = ndimage.gaussian_filter(body.astype(np.float32), COARSE)
    normals = -np.stack([slope[surface] for slope in np.gradient(soft)], -1).astype(float)
    long = np.linalg.norm(normals, axis=1, keepdims=True)
    up = np.array([0.0, 1.0, 0.0])
    return grid.middles(cells), np.where(long > 0, normals / np.maximum(long, 1e-30), up)


def _lonely(surface: Array) -> Array:
    """Cells of a surface too small to be a side of anything."""
    from scipy import ndimage

    label, _ = ndimage.label(surface, np.ones((3, 3, 3)))
    return np.asarray((np.bincount(label.ravel()) < LEAST)[label] & surface)


def _colors(
    found: Around, own: Array, x: Array, normals: Array, body: Array, grid: Grid,
    sides: Sequence[_Side],
) -> Array:  # fmt: skip
    """Colours ``(m, 3)``: those of the opposite side, mirrored at the middle; else the nearest."""
    from scipy.spatial import cKDTree

    out = colors_near(found, x, own)
    rows, inside = np.flatnonzero(own), grid.middles(np.argwhere(body))
    for side in sides:
        faces = np.flatnonzero(normals @ side.normal < -FACING)
        if not len(faces) or abs(side.normal[1]) > FACING:
            continue  # a bottom is no mirrored top
        off = inside @ side.normal
        middle = 0.5 * (off.min() + off.max())
        there = x[faces] - 2 * (x[faces] @ side.normal - middle)[:, None] * side.normal
        d, _ = cKDTree(found.x[rows]).query(there)
        good = d <= COARSE * grid.h[0]
        out[faces[good]] = colors_near(found, there[good], own)
    return out


def _discs(found: Around, x: Array, normals: Array, colors: Array, grid: Grid) -> GaussianScene:
    """Flat Gaussians across ``normals (m, 3)`` at ``x (m, 3)``."""
    if not len(x):
        return found.scene[:0]
    sigma = WIDE * float(grid.h[0])
    across = np.eye(3)[abs(normals).argmin(-1)]
    first = np.cross(normals, across)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    frame = np.stack([first, normals, np.cross(first, normals)], -1)
    turn = rotations.from_matrix(torch.from_numpy(frame))
    back = rotations.conjugate(found.world.rotation).expand(len(x), 4)
    return GaussianScene.make(
        means=found.world.to_scene(torch.from_numpy(x)).float(),
        scales=torch.tensor([sigma, THIN / WIDE * sigma, sigma]).expand(len(x), 3),
        quats=rotations.multiply(back, turn).float(), opacities=torch.full((len(x),), OPAQUE),
        colors=torch.from_numpy(colors).float(),
    )  # fmt: skip

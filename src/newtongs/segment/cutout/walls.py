"""The planes of the room that an object hides: walls, fronts, the undersides of boards.

A wall behind a pot has a hole where no camera saw it, as the shelf below has. Seen along its
normal it is a support like any other: :mod:`.mending` fills the hole in it. The planes are those of
the whole room (:mod:`newtongs.segment.structure`), fitted again to what is near the object.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...base.rotations import conjugate, rotate, to_matrix
from ...base.types import Array, Vec3
from ...scene.gaussians import GaussianScene
from ...scene.world_frame import WorldFrame
from ..floor.finding import FloorPlane
from ..floor.support import LEAST_COLUMNS, Support
from ..room import cached_surface
from ..structure import ALIGNED, LEVEL, room_structure
from .cache import last_of
from .completion import BEYOND, Around, nearby
from .cutting import (
    DEEP,
    ROUGH,
    SURFACE,
    Cut,
    TopGrid,
    no_copies,
    outline_of,
    surface_seen,
)
from .cutting import LEVEL as LEAST_LEVEL

BEHIND = 0.05  # share of an object that may lie behind a plane beside it
BESIDE, WHOLE = 24, 0.5  # cells around an object of which this share is wall: no edge of a board
BEYOND_IT = 0.1  # share of a room that may lie behind a wall that bounds it
HIDES = 1.0  # widths of an object up to a plane on which it hides something from all cameras
CROSSING = 0.5  # cosine of the normals of walls that bound each other
TURNED = 0.1  # sine of the angle to the room's plane up to which the part near the object is fitted


class RoomPlanes(NamedTuple):
    """Points on the planes of a room."""

    rows: Array
    """The Gaussian of each point ``(n,)``."""
    x: Vec3
    """Its position in the frame of the floor ``(n, 3)``."""
    of: Array
    """Its plane ``(n,)``."""
    normals: Array
    """Of the planes, in the frame of the floor ``(P, 3)``."""


class Wall(NamedTuple):
    """A plane that bounds an object, seen along its normal."""

    found: Around
    """The neighbourhood in its frame: y is the distance from it, on the object's side. The grid
    and its voxels remain those of the floor's frame."""
    support: Support
    """The plane y = 0 there."""
    level: float
    """Distance from it up to which Gaussians belong to it."""
    turn: Array
    """Rotation from the frame of the floor to its own ``(3, 3)``."""
    shift: Array
    """Added after that ``(3,)``."""
    points: int
    """Number of points near the object by which it was found."""
    hides: bool
    """Whether the object is so near that it hides part of it from all cameras."""

    def of(self, found: Around) -> "Wall":
        """The same for a neighbourhood in the frame of the floor whose selection has changed."""
        return self._replace(found=self.found._replace(own=found.own, body=found.body))

    @property
    def normal(self) -> Array:
        """Towards the object, in the frame of the floor ``(3,)``."""
        return np.asarray(self.turn[1])

    def before(self, x: Array) -> Array:
        """Distances ``(N,)`` from it of points ``(N, 3)`` in the frame of the floor."""
        return np.asarray(x @ self.turn[1] + self.shift[1])


@last_of
def room_planes(scene: GaussianScene, floor: FloorPlane) -> RoomPlanes | None:
    """All points on planes; None if there are too few to tell."""
    surface = cached_surface(scene.plain)  # as everyone asks for it: the last one is kept
    if surface is None:
        return None
    structure = room_structure(surface, floor.up.numpy())
    on = structure.of >= 0
    world = WorldFrame.of_floor(floor.up, floor.height)
    normals = torch.from_numpy(np.array([p.normal for p in structure.planes]).reshape(-1, 3))
    return RoomPlanes(
        surface.rows[on], world.to_physics(torch.from_numpy(surface.x[on])), structure.of[on],
        rotate(world.rotation, normals).numpy(),
    )  # fmt: skip


def walls_around(
    found: Around, mask: Tensor, planes: RoomPlanes | None, support: Support | None, others: Array
) -> list[tuple[Wall, Cut]]:
    """The planes beside and above an object, and what is behind it; its support is not one.

    A plane is near the object, or it bounds the room: cameras are on its other side.
    A bowed wall consists of several planes of the room, and the edges of boards before it make a
    plane of their own: the fullest one near the object counts that is not just the edge of a board.
    The cuts change nothing of the object.

    Args:
        found: the neighbourhood of the object.
        mask: its Gaussians ``(N,)``.
        planes: those of the room.
        support: what the object stands on.
        others: Gaussians ``(n,)`` that belong neither to the object nor to any plane.
    """
    if planes is None:
        return []
    near = nearby(planes.x, found.grid).numpy()
    near = near[~mask.numpy()[planes.rows[near]]]
    x, of = planes.x.numpy()[near], planes.of[near]
    count = np.bincount(of, minlength=len(planes.normals))
    several = np.flatnonzero(count >= LEAST_COLUMNS)
    fitted = [_wall(found, x[of == k], planes.normals[k]) for k in several]
    walls = [wall for wall in fitted if wall is not None and (wall.hides or _outer(wall, planes))]
    out: list[tuple[Wall, Cut]] = []
    for one in sorted(walls, key=lambda wall: (not wall.hides, -wall.points)):
        if all(abs(one.normal @ other.normal) < ALIGNED for other, _ in out):
            shade = _shaded(one, support, others)
            out += [] if shade is None else [(one, shade)]
    return [(wall, _bounded(wall, shade, [other for other, _ in out])) for wall, shade in out]


def behind(found: Around, plan: TopGrid, walls: Sequence[Wall]) -> Array:
    """Cells of a support that an object hid: those between it and the walls behind it."""
    body = np.zeros(plan.shape, bool)
    body[BEYOND:-BEYOND, BEYOND:-BEYOND] = found.body.any(1)
    x = np.zeros((body.size, 3))
    x[:, ::2] = plan.low + (np.indices(plan.shape).reshape(2, -1).T + 0.5) * plan.h
    out = np.zeros_like(body)
    for wall in walls:
        u, _, v = wall.normal
        if np.hypot(u, v) < CROSSING:  # above it or below
            continue
        cells = np.flatnonzero(wall.before(x) > 0)
        for aside in (-1.0, 0.0, 1.0):  # cameras look past both ends of it too
            ahead = plan.h * np.array([u - aside * v, 0.0, v + aside * u]) / np.hypot(u, v)
            for step in range(max(plan.shape)):
                at = x[cells] + step * ahead
                out.flat[cells[plan.at(body, at) & plan.inside(at)]] = True
    return out


def _wall(found: Around, x: Array, normal: Array) -> Wall | None:
    """The plane through points ``(n, 3)``; None if the object is on both sides, or above it."""
    own = found.x[found.own].astype(float)
    normal = _fitted(x, normal)
    offset = float(np.median(x @ normal))
    if np.median(own @ normal) < offset:
        normal, offset = -normal, -offset
    h, spread = float(found.grid.h[0]), 1.4826 * float(np.median(abs(x @ normal - offset)))
    level = float(np.clip(ROUGH * spread, LEAST_LEVEL * h, DEEP * h))
    gap = float(np.quantile(own @ normal - offset, BEHIND))
    if normal[1] > LEVEL or gap < -level:
        return None
    here = found.world
    up = rotate(conjugate(here.rotation), torch.from_numpy(normal))
    there = WorldFrame.of_floor(up, offset - float(normal @ here.offset.numpy()))
    turn = to_matrix(there.rotation).numpy() @ to_matrix(here.rotation).numpy().T
    shift = there.offset.numpy() - turn @ here.offset.numpy()
    seen = found._replace(x=found.x @ turn.T + shift, world=there)
    low, high = np.quantile(seen.x[found.own][:, ::2], [BEHIND, 1 - BEHIND], axis=0)
    hides = gap <= HIDES * float((high - low).min())
    return Wall(seen, Support(0.0, np.zeros(2), spread), level, turn, shift, len(x), hides)


def _outer(wall: Wall, planes: RoomPlanes) -> bool:
    """Whether hardly anything of the room is behind a wall."""
    return float((wall.before(planes.x.numpy()) < -wall.level).mean()) < BEYOND_IT


def _fitted(x: Array, normal: Array) -> Array:
    """The normal of the plane through points ``(n, 3)``, unless it is far from the room's."""
    middle = np.median(x, axis=0)
    off = abs((x - middle) @ normal)
    near = x[off <= 3 * np.median(off)] - middle
    best = np.linalg.eigh(near.T @ near)[1][:, 0]
    best = best if best @ normal > 0 else -best
    return np.asarray(best if np.linalg.norm(np.cross(best, normal)) < TURNED else normal)


def _bounded(wall: Wall, shade: Cut, walls: Sequence[Wall]) -> Cut:
    """What an object hides of a wall up to where the walls across it begin."""
    outline, x = shade.outline, _middles(wall, shade.plan)
    for other in walls:
        if abs(other.normal @ wall.normal) < CROSSING:
            outline = outline & (other.before(x) > 0).reshape(outline.shape)
    return shade._replace(outline=outline)


def _shaded(wall: Wall, support: Support | None, others: Array) -> Cut | None:
    """What an object hides of a wall; None for an edge."""
    from scipy import ndimage

    found, h = wall.found, float(wall.found.grid.h[0])
    body = found.grid.middles(np.argwhere(found.body)) @ wall.turn.T + wall.shift
    low, high = body.min(0)[::2] - BEYOND * h, body.max(0)[::2] + BEYOND * h
    across, along = (int(n) for n in np.ceil((high - low) / h))
    plan = TopGrid(low, h, (across, along))
    footprint = np.zeros(plan.shape, bool)
    footprint[tuple(plan.cells(body).T)] = True
    footprint = ndimage.binary_closing(footprint)  # voxels seen at an angle leave gaps
    seen = surface_seen(found, plan, ~found.own & ~others & (abs(found.x[:, 1]) <= wall.level))
    inner = np.ones(plan.shape, bool)
    if support is not None:
        inner = (support.above(_middles(wall, plan)) > 0).reshape(plan.shape)
    standing = _covered(found, plan, wall.level) | footprint
    ring = (ndimage.distance_transform_edt(~footprint) <= BESIDE) & inner & ~standing
    outline, nothing = outline_of(footprint, seen) & inner, np.zeros(len(found.x), bool)
    if not ring.any() or seen[ring].mean() < WHOLE or not (footprint & outline).any():
        return None
    return Cut(
        plan, footprint, outline, standing, wall.level, nothing, nothing, nothing, no_copies(found)
    )


def _middles(wall: Wall, plan: TopGrid) -> Array:
    """The centre ``(n, 3)`` of every cell of a wall, in the frame of the floor."""
    cells = np.indices(plan.shape).reshape(2, -1).T
    flat = np.zeros((len(cells), 3))
    flat[:, ::2] = plan.low + (cells + 0.5) * plan.h
    return np.asarray((flat - wall.shift) @ wall.turn)


def _covered(found: Around, plan: TopGrid, level: float) -> Array:
    """Cells in front of which there is something."""
    from scipy import ndimage

    front = (found.x[:, 1] > level) & (found.scene.opacities.numpy() >= SURFACE)
    out = np.zeros(plan.shape, bool)
    out[tuple(plan.cells(found.x[front]).T)] = True
    return np.asarray(ndimage.binary_dilation(out, iterations=2))

"""Collision shapes: a few convex pieces, or a ball, with their mass properties.

The object's Gaussians fill a grid of cells; holes are closed and the inside is filled. The solid is
then cut repeatedly: the piece whose hull contains the most air is halved by the axis-parallel cut
that minimises the two hulls. A convex object stays in one piece, whose corners are the outermost
points of its Gaussians; a round one becomes a ball.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..base import rotations
from ..base.errors import InputError
from ..base.types import Array
from ..scene.gaussians import GaussianScene
from ..scene.similarity import SIGMAS, TAIL, VISIBLE
from ..scene.world_frame import WorldFrame
from ..segment.voxels import FILLED_DEPTH, Grid, optical_depth, solid_body, without_specks

CELLS = 48  # along the object's longest side
MOST_CELLS = 12_000  # of the solid; more are merged to coarser ones
CLOSED = 2  # cells: holes in the skin up to twice this wide are closed
SPECK = 0.01  # of the largest component: smaller ones are dropped
PIECES = 16
ENOUGH = 0.01  # air in the worst hull over the volume of the solid, below which cutting stops
CUTS = 5  # cuts tried along each axis
CORNERS = 48  # most corners of a piece
ROUND = 0.03  # of its radius: largest deviation of the outermost points of a ball
CONVEX = 0.06  # air in the hull over the volume, up to which an object counts as convex
THINNEST = 0.02  # of the longest side: least thickness, as of a sheet of paper


@dataclass(frozen=True, eq=False)
class Shape:
    """A rigid body of mass one in its own axes, with the origin at the object's position ``p``."""

    pieces: tuple[Array, ...]
    """Corners ``(K, 3)`` of each convex piece; none for a ball."""
    center: Array
    """Centre of mass ``(3,)``."""
    inertia: Array
    """Inertia ``(3, 3)`` about it, for mass one."""
    radius: float | None = None
    """Radius of a ball around ``center``; None for pieces."""

    @property
    def size(self) -> float:
        """The longest side of its bounding box."""
        low, high = self.bounds
        return float((high - low).max())

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest corner ``(3,)`` of its bounding box."""
        if self.radius is not None:
            return self.center - self.radius, self.center + self.radius
        corners = np.concatenate(self.pieces)
        return corners.min(0), corners.max(0)

    def reach(self, direction: Array) -> float:
        """Extent along a unit ``direction (3,)``, from its origin."""
        if self.radius is not None:
            return float(self.center @ direction) + self.radius
        return float((np.concatenate(self.pieces) @ direction).max())

    @property
    def volume(self) -> float:
        """Total volume of the pieces; overlaps count twice."""
        if self.radius is not None:
            return 4 / 3 * math.pi * self.radius**3
        return sum(_hull_volume(piece) for piece in self.pieces)

    def turned(self, q: Array) -> "Shape":
        """The body rotated by ``q`` (4,), scalar first, about its origin."""
        R = rotations.to_matrix(torch.as_tensor(q, dtype=torch.float64)).numpy()
        return replace(
            self,
            pieces=tuple(piece @ R.T for piece in self.pieces),
            center=R @ self.center,
            inertia=R @ self.inertia @ R.T,
        )

    @classmethod
    def ball(cls, radius: float) -> "Shape":
        """A ball of uniform density around the origin."""
        if not radius > 0:
            raise InputError(f"a ball's radius must be positive, got {radius}")
        return cls((), np.zeros(3), 0.4 * radius**2 * np.eye(3), float(radius))

    @classmethod
    def box(cls, half: Sequence[float]) -> "Shape":
        """A box of uniform density around the origin, with half edges ``(3,)``."""
        a = np.asarray(half, float)
        if a.shape != (3,) or not (a > 0).all():
            raise InputError(f"a box needs three positive half edges, got {half}")
        signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
        square = a**2
        return cls((signs * a,), np.zeros(3), np.diag((square.sum() - square) / 3))

    @classmethod
    def hull(cls, points: Array) -> "Shape":
        """The convex hull of points ``(N, 3)``, of uniform density."""
        x = np.asarray(points, float)
        if x.ndim != 2 or x.shape[-1] != 3 or not len(x) or not np.isfinite(x).all():
            raise InputError(f"points: expected finite numbers of shape (N, 3), got {x.shape}")
        x = _thickened(x)
        center, inertia = _hull_moments(x)
        return cls((_few(x),), center, inertia)

    @classmethod
    def of_gaussians(cls, scene: GaussianScene, world: WorldFrame, origin: Array) -> "Shape":
        """The shape of an object.

        Args:
            scene: the object's Gaussians alone.
            world: maps them to the physics frame, in whose axes the shape is.
            origin: the object's position ``p (3,)`` in the physics frame.
        """
        if not len(scene):
            raise InputError("an object without Gaussians has no shape; select some")
        skin = outermost(scene, world)
        low, high = skin.min(0), skin.max(0)
        cells, grid = _solid(scene, world, low, high)
        if len(cells) < 8:
            return cls.hull(skin - origin)
        solid = _Solid(cells)
        fitted = _Fit.onto(grid, cells, low, high)
        center, inertia = _moments(fitted(grid.middles(cells)), grid.h * fitted.scale)
        if solid.air <= CONVEX * solid.volume:
            radius = _ball_radius(skin)
            middle = (low + high) / 2
            if radius is not None:
                return replace(cls.ball(radius), center=middle - origin)
            return cls((_few(_thickened(skin)) - origin,), center - origin, inertia)
        found = [
            fitted(grid.low + _outer_corners(part.cells) * grid.h) for part in solid.cut(PIECES)
        ]
        return cls(tuple(_few(x) - origin for x in found), center - origin, inertia)


# --- the skin: outermost points of the Gaussians -------------------------------------------------

DIRECTIONS = 512  # in which outermost points are searched: one every 9 degrees
CHUNK, PAIRS = 32, 2**21  # directions, and pairs with a Gaussian, at a time: 64 MB
SKIN_OF = 2**18  # Gaussians; of more, every k-th says where the skin is


def directions(n: int) -> torch.Tensor:
    """``n`` evenly spread unit vectors (a Fibonacci spiral) and the six axes ``(n + 6, 3)``."""
    i = torch.arange(n, dtype=torch.float64) + 0.5
    y, turn = 1 - 2 * i / n, math.pi * (1 + math.sqrt(5)) * i
    r = (1 - y * y).sqrt()
    axes = torch.eye(3, dtype=torch.float64)
    return torch.cat([axes, -axes, torch.stack([r * turn.cos(), y, r * turn.sin()], -1)])


def outermost(scene: GaussianScene, world: WorldFrame) -> Array:
    """The farthest surface point in each of about 500 directions ``(D, 3)``, physics frame.

    Gaussians extend to ``SIGMAS`` standard deviations; faint ones are ignored, and so is a share
    ``TAIL`` of outermost ones, because captured objects have floaters around them.
    """
    kept = scene.opacities >= VISIBLE
    part = scene[kept] if kept.any() else scene
    part = part[:: -(-len(part) // SKIN_OF)]
    x = world.to_physics(part.means).double()
    quats = part.quats.double()
    turn = rotations.multiply(world.rotation.to(quats).expand_as(quats), quats)
    axes = rotations.to_matrix(turn) * (world.scale * part.scales.double()).unsqueeze(-2)
    d = directions(DIRECTIONS).to(x)
    rank, most = math.floor(TAIL * len(x)) + 1, max(1, min(CHUNK, PAIRS // len(x)))
    found = torch.cat([_supports(x, axes, some, rank) for some in d.split(most)])
    return (_clipped(found, x.median(0).values, d) if rank > 1 else found).numpy()


def _supports(x: torch.Tensor, axes: torch.Tensor, d: torch.Tensor, rank: int) -> torch.Tensor:
    """The ``rank``-th farthest surface point in each direction ``d (D, 3)``: ``(D, 3)``."""
    along = torch.einsum("nji,dj->dni", axes, d)  # sqrt(Sigma) d, in the Gaussian's own axes
    reach = torch.linalg.vector_norm(along, dim=-1)
    best = (d @ x.mT + SIGMAS * reach).topk(rank, dim=-1).indices[:, -1]
    row = torch.arange(len(d))
    push = torch.einsum("dij,dj->di", axes[best], along[row, best])
    return x[best] + SIGMAS * push / reach[row, best].clamp_min(1e-30).unsqueeze(-1)


def _clipped(x: torch.Tensor, inside: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Points ``(D, 3)`` moved inside the half-spaces bounded by all of them.

    A floater ignored in the directions in which it sticks out is found again in others.
    """
    x = x - inside
    end = (x * d).sum(-1).clamp_min(1e-9)
    return inside + x / (x @ d.mT / end).amax(-1, keepdim=True).clamp_min(1)


def _ball_radius(skin: Array) -> float | None:
    """Radius of the ball on whose surface the points ``(N, 3)`` lie, or None."""
    low, high = skin.min(0), skin.max(0)
    r = np.linalg.norm(skin - (low + high) / 2, axis=-1)
    half = (high - low) / 2
    radius = float(half.mean())
    round_ = np.abs(r - radius).max() < ROUND * radius and np.ptp(half) < ROUND * radius
    return radius if round_ else None


# --- the solid -----------------------------------------------------------------------------------


def _solid(scene: GaussianScene, world: WorldFrame, low: Array, high: Array) -> tuple[Array, Grid]:
    """The filled cells ``(N, 3)`` of an object, and their grid."""
    h = float((high - low).max()) / CELLS
    grid = Grid.around(low, high, np.full(3, h), margin=CLOSED + 1)
    filled = optical_depth(scene, world, grid) >= FILLED_DEPTH
    solid = without_specks(solid_body(filled, CLOSED, corners=False), share=SPECK)
    cells = np.argwhere(solid)
    factor = max(1, math.ceil((len(cells) / MOST_CELLS) ** (1 / 3)))
    if factor > 1:
        grid = Grid(grid.low, grid.h * factor, grid.shape)
        coarse, count = np.unique(cells // factor, axis=0, return_counts=True)
        cells = coarse[count >= 0.5 * factor**3]
    return cells, grid


@dataclass(frozen=True, eq=False)
class _Fit:
    """Maps the bounding box of the cells to that of the skin, axis by axis."""

    scale: Array
    shift: Array

    @classmethod
    def onto(cls, grid: Grid, cells: Array, low: Array, high: Array) -> "_Fit":
        first = grid.low + cells.min(0) * grid.h
        last = grid.low + (cells.max(0) + 1) * grid.h
        scale = (high - low) / (last - first)
        return cls(scale, low - first * scale)

    def __call__(self, x: Array) -> Array:
        return x * self.scale + self.shift


def _moments(middles: Array, h: Array) -> tuple[Array, Array]:
    """Centre ``(3,)`` and inertia ``(3, 3)`` of equal cells of edges ``h``, with total mass one."""
    center = middles.mean(0)
    x = middles - center
    second = x.T @ x / len(x) + np.diag(h**2) / 12
    return center, np.trace(second) * np.eye(3) - second


class _Solid:
    """Cells ``(N, 3)`` that can be cut into pieces. Lengths are in cells."""

    def __init__(self, cells: Array) -> None:
        self.cells = cells
        self.volume = len(cells)
        # A smooth surface passes through its cells: their corners are outside of it, their
        # centres inside.
        self.air = _hull_volume(_outer_corners(cells, inset=0.25)) - self.volume

    def cut(self, most: int) -> list["_Solid"]:
        """Up to ``most`` pieces, cut until their hulls contain hardly any air."""
        parts, enough = [self], ENOUGH * self.volume
        while len(parts) < most:
            worst = max(parts, key=lambda part: part.air)
            halves = worst.halves() if worst.air > enough else None
            if halves is None:
                break
            parts.remove(worst)
            parts += halves
        return parts

    def halves(self) -> list["_Solid"] | None:
        """The two parts by the cut that leaves the least air in their hulls."""
        low, high = self.cells.min(0), self.cells.max(0) + 1
        best: list[_Solid] | None = None
        for axis in range(3):
            places = np.linspace(low[axis], high[axis], CUTS + 2)[1:-1].round().astype(int)
            for place in np.unique(places):
                below = self.cells[:, axis] < place
                if below.all() or not below.any():
                    continue
                pair = [_Solid(self.cells[below]), _Solid(self.cells[~below])]
                if best is None or sum(p.air for p in pair) < sum(p.air for p in best):
                    best = pair
        return best


def _outer_corners(cells: Array, *, inset: float = 0.0) -> Array:
    """Corners ``(K, 3)`` of cells, each shrunk by ``inset``, that can be corners of their hull.

    Only the first and last cell of every row along each of the three axes qualify.
    """
    kept = cells
    for axis in range(3):
        others = [a for a in range(3) if a != axis]
        order = np.lexsort((kept[:, axis], kept[:, others[0]], kept[:, others[1]]))
        kept = kept[order]
        row = kept[:, others]
        new = np.ones(len(kept) + 1, bool)
        new[1:-1] = (row[1:] != row[:-1]).any(-1)
        kept = kept[new[:-1] | new[1:]]
    steps = np.array(np.meshgrid(*[(inset, 1 - inset)] * 3)).reshape(3, -1).T
    return (kept[:, None] + steps).reshape(-1, 3)


# --- hulls ---------------------------------------------------------------------------------------


def _hull_volume(points: Array) -> float:
    """Volume of the convex hull of points ``(N, 3)``."""
    from scipy.spatial import ConvexHull

    return float(ConvexHull(points).volume)


def _hull_moments(points: Array) -> tuple[Array, Array]:
    """Centre and inertia of the filled hull with mass one, as a sum over its tetrahedra."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    inside = points[hull.vertices].mean(0)
    faces = points[hull.simplices] - inside
    volume = np.abs(np.linalg.det(faces))
    share = volume / volume.sum()
    center = share @ faces.sum(1) / 4
    outer = np.einsum("fai,faj->fij", faces, faces) + np.einsum(
        "fi,fj->fij", faces.sum(1), faces.sum(1)
    )
    second = np.einsum("f,fij->ij", share, outer) / 20 - np.outer(center, center)
    return inside + center, np.trace(second) * np.eye(3) - second


def _few(points: Array) -> Array:
    """At most ``CORNERS`` corners of the hull of points.

    Greedy: the next one is the outermost in the direction of the largest deficit so far.
    """
    from scipy.spatial import ConvexHull

    x = points[ConvexHull(points).vertices]
    if len(x) <= CORNERS:
        return x
    reach = x @ directions(DIRECTIONS).numpy().T
    ends, chosen = reach.max(0), [int(reach[:, 0].argmax())]
    covered = reach[chosen[0]]
    while len(chosen) < CORNERS:
        chosen.append(int(reach[:, (ends - covered).argmax()].argmax()))
        covered = np.maximum(covered, reach[chosen[-1]])
    return x[np.unique(chosen)]


def clipped(corners: Array, normal: Array, offset: float) -> Array:
    """The part of a convex piece ``(K, 3)`` below a plane; no corners if it is as thin as a sheet.

    The edges that cross the plane are among the segments between corners on both sides of it, and
    all others cross it inside of the piece.
    """
    height = corners @ normal - offset
    below, above = corners[height <= 0], corners[height > 0]
    if not len(above):
        return corners
    if not len(below) or -float(height.min()) < THINNEST * float(np.ptp(corners, axis=0).max()):
        return corners[:0]
    share = height[height <= 0][:, None] / (height[height <= 0][:, None] - height[height > 0])
    crossing = below[:, None] + share[..., None] * (above[None] - below[:, None])
    return _few(np.concatenate([below, crossing.reshape(-1, 3)]))


def _thickened(points: Array) -> Array:
    """Points ``(N, 3)``, with a thickness added where they are flat."""
    middle = points.mean(0)
    size = max(float(np.ptp(points, axis=0).max()), 1e-9)
    _, spread, axes = np.linalg.svd(points - middle, full_matrices=len(points) < 3)
    spread = np.pad(spread, (0, 3 - len(spread))) / math.sqrt(len(points))
    out = [points]
    for axis, width in zip(axes[:3], spread, strict=True):
        if width < THINNEST / 4 * size:
            out = [x + sign * THINNEST / 2 * size * axis for x in out for sign in (-1, 1)]
    return np.concatenate(out)

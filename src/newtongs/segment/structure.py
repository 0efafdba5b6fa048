"""The planes of a room: floor, walls, ceiling, table tops, shelves, cupboard fronts.

Most surfaces of a room share a few normals. Along each of these directions the points are sorted
by height; where many lie at one height and are connected over a long way, there is a plane. Walls
bow and boards sag, so each plane then grows over its smooth surroundings until a crease, an edge or
another colour stops it.

A plane shorter than a fraction of the scene is a face of something and no part of the room.
"""

from typing import NamedTuple

import numpy as np
import torch

from ..base.jit import compiled
from ..base.types import Array
from .sparse_voxels import Voxels
from .surface import SurfacePoints

LEAST_AREA = 8e-4  # of the surface: planes with less are not searched
LONG = 0.16  # of the scene's size: shorter planes are faces of things
LONG_PART = 0.35  # of a piece of furniture: its shorter planes carry nothing
JOINING = 0.06  # the same for parts of a longer plane at the same height
ALIGNED = 0.9  # cosine between the normals of a plane and its points
LEVEL, UPRIGHT = 0.97, 0.2  # cosines to up of planes that are level, and upright
DIRECTIONS, MOST_DIRECTIONS, SAMPLED = 2000, 10, 8000  # searched, found at most; points for it
NARROW, WIDE = 0.99, 0.92  # cosines: of normals that agree, and of directions that are one
SPARSE = 0.15  # of the density on a plane: where there is less, it ends
THINNEST, THICK = 0.2, 1.2  # spacings: least and largest thickness of a plane to either side
BOWED = 4.0  # spacings up to which a plane grows away from itself
SMOOTH, ALIKE = 0.95, 0.2  # cosine of normals and distance of colours of points that grow together
MOST_PLANES = 60  # of one direction


class RoomPlane(NamedTuple):
    """A plane ``normal . x = height`` of a room."""

    normal: Array
    """Unit vector ``(3,)``."""
    height: float
    extent: tuple[float, float]
    """Length and width, scene units."""
    area: float
    """Share of the surface, before growth."""
    thickness: float
    """Distance from the plane that its points keep, scene units."""


class Structure(NamedTuple):
    """The planes of a room, and the plane of every surface point."""

    planes: list[RoomPlane]
    of: Array
    """Index ``(n,)`` of the plane of each point; -1 for none."""

    def along(self, up: Array) -> Array:
        """Which planes ``(P,)`` are level if ``up`` is up."""
        return np.array([abs(p.normal @ up) > LEVEL for p in self.planes], bool)


def room_structure(points: SurfacePoints, up: Array | None = None, long: float = LONG) -> Structure:
    """All long planes of a scene along its main directions; if up is given, level and upright."""
    free = np.ones(len(points.x), bool)
    directions = main_directions(points)
    if up is not None:
        upright = directions[abs(directions @ up) < UPRIGHT]
        upright -= (upright @ up)[:, None] * up
        directions = np.concatenate([up[None], upright / np.linalg.norm(upright, axis=1)[:, None]])
    found = [each for normal in directions for each in _sweep(points, normal, free, long)]
    of = np.full(len(points.x), -1)
    for k, (_, rows) in enumerate(found):
        of[rows] = k
    planes = [plane for plane, _ in found]
    return Structure(planes, _grown(points, planes, of))


def main_directions(points: SurfacePoints) -> Array:
    """Unit vectors ``(k, 3)`` that are normals of much of the surface, of unknown sign."""
    some = slice(None, None, max(1, len(points.x) // SAMPLED))
    normals, area = points.normals[some], points.area[some] / points.area[some].sum()
    grid = _hemisphere(DIRECTIONS)
    share = (abs(normals @ grid.T) > NARROW).T @ area
    left = np.ones(len(normals), bool)
    out: list[Array] = []
    while len(out) < MOST_DIRECTIONS:
        share = (abs(normals[left] @ grid.T) > NARROW).T @ area[left]
        if share.max() < 20 * LEAST_AREA:
            break
        best = grid[share.argmax()]
        for _ in range(3):  # the main axis of the normals around it
            near = abs(normals @ best) > NARROW
            best = np.linalg.eigh((area[near, None] * normals[near]).T @ normals[near])[1][:, 2]
        out.append(best)
        left &= abs(normals @ best) < WIDE
    return np.array(out).reshape(-1, 3)


def _hemisphere(count: int) -> Array:
    """Directions spread evenly over half a sphere ``(count, 3)``."""
    k = np.arange(count) + 0.5
    z, turn = k / count, np.pi * (1 + 5**0.5) * k
    r = np.sqrt(1 - z**2)
    return np.stack([r * np.cos(turn), r * np.sin(turn), z], -1)


def _sweep(
    points: SurfacePoints, normal: Array, free: Array, long: float
) -> list[tuple[RoomPlane, Array]]:
    """Planes with this normal and the rows on them, the fullest first; they are no longer free."""
    h = points.spacing
    height = points.x @ normal
    open_ = free & (abs(points.normals @ normal) > ALIGNED)
    out: list[tuple[RoomPlane, Array]] = []
    low, bins = float(height.min()), 0.25 * h
    for _ in range(MOST_PLANES):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        cells = ((height[rows] - low) / bins).astype(int)
        filled = np.convolve(np.bincount(cells, points.area[rows]), np.ones(2), "same")
        if filled.max() < LEAST_AREA:
            break
        at = low + int(filled.argmax()) * bins
        near = rows[abs(height[rows] - at) < 0.4 * h]
        at = float(np.average(height[near], weights=points.area[near]))
        near = rows[abs(height[rows] - at) < THICK * h]
        off = abs(height[near] - at)
        thickness = h * _thickness((height[near] - at) / h, points.area[near])
        open_[near[off < 0.3 * h]] = False
        for plane, part in _parts(points, normal, at, near[off < thickness], long):
            out.append((plane._replace(thickness=thickness), part))
            open_[part] = free[part] = False
    return out


def _thickness(off: Array, weight: Array) -> float:
    """How far to either side of a plane its points are dense, in spacings.

    ``off (n,)`` are their heights above it. The two faces of a board are within reach of each
    other, and what stands on it as well; in between there is less.
    """
    step = 0.1
    middle = round(THICK / step)
    cells = np.floor(off / step).astype(int) + middle
    filled = np.bincount(cells.clip(0), weight, 2 * middle + 1)
    dense = np.convolve(filled, np.ones(3), "same")
    thin = dense < SPARSE * dense[middle - 1 : middle + 2].max()
    above, below = np.flatnonzero(thin[middle:]), np.flatnonzero(thin[middle::-1])
    cut = max(each[0] if len(each) else THICK / step for each in (above, below))
    return max(float(cut * step), THINNEST)


def _parts(
    points: SurfacePoints, normal: Array, height: float, rows: Array, long: float
) -> list[tuple[RoomPlane, Array]]:
    """Connected parts of a plane: long ones, and shorter ones of their colour at the height."""
    if not len(rows):
        return []
    voxels = Voxels.of(torch.from_numpy(points.x[rows]), 2 * points.spacing)
    part = voxels.components()[voxels.of_point].numpy()
    order = np.argsort(part, kind="stable")
    parts = np.split(rows[order], np.flatnonzero(np.diff(part[order])) + 1)
    out = []
    for each in parts:
        if len(each) >= 12:
            extent = _extent(points.x[each])
            if extent[1] > 2 * points.spacing:
                area = float(points.area[each].sum())
                out.append((RoomPlane(normal, height, extent, area, 0.0), each))
    main = [k for k, (plane, _) in enumerate(out) if plane.extent[0] > long * points.size]
    shades = np.array([points.colors[part].mean(0) for _, part in out]).reshape(-1, 3)
    return [
        one
        for k, one in enumerate(out)
        if k in main
        or (
            one[0].extent[0] > JOINING * points.size
            and any(np.linalg.norm(shades[k] - shades[m]) < ALIKE for m in main)
        )
    ]


def _extent(x: Array) -> tuple[float, float]:
    """Length and width of points ``(n, 3)`` on a plane, if they fill a rectangle evenly."""
    spread = np.linalg.eigvalsh(np.cov(x.T))[::-1].clip(0)
    length, width = np.sqrt(12 * spread[:2])
    return float(length), float(width)


def _grown(points: SurfacePoints, planes: list[RoomPlane], of: Array) -> Array:
    """The planes of points ``(n,)`` after growth over smooth surroundings of like colour."""
    if not planes:
        return of
    normals = np.stack([p.normal for p in planes])
    heights = np.array([p.height for p in planes])
    return np.asarray(_spread(
        of.copy(), points.x / points.spacing, points.normals, points.colors, points.near, normals,
        heights / points.spacing,
    ))  # fmt: skip


@compiled()
def _spread(
    of: Array, x: Array, n: Array, color: Array, near: Array, normals: Array, heights: Array
) -> Array:
    """Breadth first from all planes at once; lengths are in spacings."""
    queue = np.empty(len(x), np.int64)
    end = 0
    for i in range(len(x)):
        if of[i] >= 0:
            queue[end] = i
            end += 1
    start = 0
    while start < end:
        i = queue[start]
        start += 1
        p = of[i]
        for j in near[i]:
            if of[j] >= 0:
                continue
            turn = off = far = along = away = shade = 0.0
            for a in range(3):
                step = x[j, a] - x[i, a]
                turn += n[i, a] * n[j, a]
                off += step * n[i, a]
                far += step * n[j, a]
                along += n[j, a] * normals[p, a]
                away += x[j, a] * normals[p, a]
                shade += (color[i, a] - color[j, a]) ** 2
            even = max(abs(off), abs(far)) < 0.5 and abs(turn) > SMOOTH and shade < ALIKE**2
            if even and abs(along) > ALIGNED - 0.05 and abs(away - heights[p]) < BOWED:
                of[j] = p
                queue[end] = j
                end += 1
    return of

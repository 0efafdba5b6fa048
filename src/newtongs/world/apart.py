"""Whether a convex piece is surely farther from a box than a limit.

The walk of Gilbert, Johnson and Keerthi towards the nearest point of their difference. Along any
direction the gap between the two is a lower bound of their distance; so no answer is wrong for a
step too few, or for rounding.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

STEPS = 16  # directions tried; some four are enough for nearly all
CLOSER = 1e-6  # of the square of a distance: a step that gains less is the last
INSIDE = 4  # corners of a simplex that zero lies in
FACES = ((0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 3, 1), (1, 2, 3, 0))  # of a simplex, and the last one


class Room(NamedTuple):
    """Arrays to write to: making them takes as long as a step."""

    v: Array
    """Towards the nearest point that is known ``(3,)``."""
    simplex: Array
    """Corners ``(4, 3)``."""
    weights: Array
    """Theirs ``(4,)``."""


@numba.njit(cache=True, nogil=True)
def make_room() -> Room:
    """For any number of calls, one after the other."""
    return Room(np.empty(3), np.empty((INSIDE, 3)), np.empty(INSIDE))


@numba.njit(cache=True, nogil=True)
def is_apart(
    points: Array, low: Array, high: Array, middle: Array, limit: float, room: Room
) -> bool:
    """Whether the hull of ``points (n, 3)`` is surely farther than ``limit`` from a box.

    The better the hull's ``middle`` is known, the fewer steps.
    """
    v, size = room.v, 0
    for i in range(3):
        v[i] = middle[i] - min(max(middle[i], low[i]), high[i])
    square = _dot(v, v)
    if square == 0:
        v[1] = square = 1.0
    for _ in range(STEPS):
        w = room.simplex[size]
        _write_support(points, low, high, v, w)
        gap = _dot(v, w)  # times the length of v
        if gap > limit * math.sqrt(square):
            return True
        if size and square - gap <= CLOSER * square:
            return False
        size = _write_nearest(room, size + 1)
        square = _dot(v, v)
        if size == INSIDE or square <= limit * limit:
            return False
    return False


@numba.njit(cache=True, nogil=True, inline="always")
def _dot(a: Array, b: Array) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@numba.njit(cache=True, nogil=True, inline="always")
def _write_support(points: Array, low: Array, high: Array, v: Array, out: Array) -> None:
    """The point of the difference of hull and box that is farthest against ``v``."""
    nearest, least = 0, np.inf
    for p in range(len(points)):
        along = _dot(v, points[p])
        if along < least:
            nearest, least = p, along
    for i in range(3):
        out[i] = points[nearest, i] - (high[i] if v[i] > 0 else low[i])


@numba.njit(cache=True, nogil=True)
def _write_nearest(room: Room, size: int) -> int:
    """The point of a simplex nearest to zero; leaves it the corners that span it, and their number.

    A tetrahedron that zero lies in stays whole.
    """
    out, simplex, weights = room
    if size == 1:
        weights[0] = 1.0
    elif size == 2:
        weights[0], weights[1] = _of_edge(simplex[0], simplex[1])
    elif size == 3:
        weights[0], weights[1], weights[2] = _of_triangle(simplex[0], simplex[1], simplex[2])
    elif not _write_of_faces(simplex, weights):
        return INSIDE
    kept = 0
    out[:] = 0.0
    for k in range(size):
        if weights[k] > 0:
            for i in range(3):
                out[i] += weights[k] * simplex[k, i]
                simplex[kept, i] = simplex[k, i]
            kept += 1
    return kept


@numba.njit(cache=True, nogil=True)
def _of_edge(a: Array, b: Array) -> tuple[float, float]:
    """Weights of the ends, for the point nearest to zero."""
    aa, ab, bb = _dot(a, a), _dot(a, b), _dot(b, b)
    length = aa - 2 * ab + bb
    share = min(max((aa - ab) / length, 0.0), 1.0) if length > 0 else 0.0
    return 1 - share, share


@numba.njit(cache=True, nogil=True)
def _of_triangle(a: Array, b: Array, c: Array) -> tuple[float, float, float]:
    """Weights of the corners, for the point nearest to zero: by the region that zero is in."""
    aa, ab, ac, bb, bc, cc = (
        _dot(a, a), _dot(a, b), _dot(a, c), _dot(b, b), _dot(b, c), _dot(c, c),
    )  # fmt: skip
    ab_a, ac_a, ab_b = aa - ab, aa - ac, ab - bb  # how far zero is along an edge, seen from a point
    ac_b, ab_c, ac_c = ab - bc, ac - bc, ac - cc
    if ab_a <= 0 and ac_a <= 0:
        return 1.0, 0.0, 0.0
    if ab_b >= 0 and ac_b <= ab_b:
        return 0.0, 1.0, 0.0
    if ac_c >= 0 and ab_c <= ac_c:
        return 0.0, 0.0, 1.0
    area_c = ab_a * ac_b - ab_b * ac_a
    if area_c <= 0 and ab_a >= 0 and ab_b <= 0:
        first, second = _of_edge(a, b)
        return first, second, 0.0
    area_b = ab_c * ac_a - ab_a * ac_c
    if area_b <= 0 and ac_a >= 0 and ac_c <= 0:
        first, second = _of_edge(a, c)
        return first, 0.0, second
    area_a = ab_b * ac_c - ab_c * ac_b
    if area_a <= 0:
        first, second = _of_edge(b, c)
        return 0.0, first, second
    area = area_a + area_b + area_c
    return area_a / area, area_b / area, area_c / area


@numba.njit(cache=True, nogil=True)
def _write_of_faces(simplex: Array, weights: Array) -> bool:
    """Weights of a tetrahedron's corners, of the nearest face; False if zero lies inside."""
    least = np.inf
    for i, j, k, other in FACES:
        a, b, c = simplex[i], simplex[j], simplex[k]
        if not _beyond(a, b, c, simplex[other]):
            continue
        u, v, w = _of_triangle(a, b, c)
        square = 0.0
        for axis in range(3):
            square += (u * a[axis] + v * b[axis] + w * c[axis]) ** 2
        if square < least:
            least = square
            weights[:] = 0.0
            weights[i], weights[j], weights[k] = u, v, w
    return least < np.inf


@numba.njit(cache=True, nogil=True)
def _beyond(a: Array, b: Array, c: Array, other: Array) -> bool:
    """Whether the plane through three points divides zero from another point."""
    px, py, pz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    qx, qy, qz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    nx, ny, nz = py * qz - pz * qy, pz * qx - px * qz, px * qy - py * qx
    zero = -(nx * a[0] + ny * a[1] + nz * a[2])
    there = nx * (other[0] - a[0]) + ny * (other[1] - a[1]) + nz * (other[2] - a[2])
    return zero * there <= 0

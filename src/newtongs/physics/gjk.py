"""Whether a convex piece is certainly farther from a box than a limit.

The algorithm of Gilbert, Johnson and Keerthi walks towards the point of their Minkowski difference
nearest to the origin. The gap along any direction is a lower bound of the distance, so stopping
early or rounding never gives a wrong answer.
"""

import math
from typing import NamedTuple

import numpy as np

from ..base.jit import njit
from ..base.types import Array

STEPS = 16  # most directions tried; about four suffice for nearly all
CLOSER = 1e-6  # of the squared distance: a step that gains less is the last
INSIDE = 4  # corners of a simplex that contains the origin
FACES = ((0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 3, 1), (1, 2, 3, 0))  # and the opposite corner


class Scratch(NamedTuple):
    """Reusable arrays: allocating them takes as long as a step."""

    v: Array
    """The nearest point found so far ``(3,)``."""
    simplex: Array
    """Corners ``(4, 3)``."""
    weights: Array
    """Their weights ``(4,)``."""


@njit(nogil=True)
def make_scratch() -> Scratch:
    """Arrays for any number of successive calls."""
    return Scratch(np.empty(3), np.empty((INSIDE, 3)), np.empty(INSIDE))


@njit(nogil=True)
def is_apart(
    points: Array, low: Array, high: Array, middle: Array, limit: float, scratch: Scratch
) -> bool:
    """Whether the hull of ``points (n, 3)`` is certainly farther than ``limit`` from a box.

    ``middle`` is a guess of the hull's centre: the better, the fewer steps.
    """
    v, size = scratch.v, 0
    for i in range(3):
        v[i] = middle[i] - min(max(middle[i], low[i]), high[i])
    square = _dot(v, v)
    if square == 0:
        v[1] = square = 1.0
    for _ in range(STEPS):
        w = scratch.simplex[size]
        _write_support(points, low, high, v, w)
        gap = _dot(v, w)  # times the length of v
        if gap > limit * math.sqrt(square):
            return True
        if size and square - gap <= CLOSER * square:
            return False
        size = _write_nearest(scratch, size + 1)
        square = _dot(v, v)
        if size == INSIDE or square <= limit * limit:
            return False
    return False


@njit(nogil=True, inline="always")
def _dot(a: Array, b: Array) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(nogil=True, inline="always")
def _write_support(points: Array, low: Array, high: Array, v: Array, out: Array) -> None:
    """The support point of the difference of hull and box in direction ``-v``."""
    nearest, least = 0, np.inf
    for p in range(len(points)):
        along = _dot(v, points[p])
        if along < least:
            nearest, least = p, along
    for i in range(3):
        out[i] = points[nearest, i] - (high[i] if v[i] > 0 else low[i])


@njit(nogil=True)
def _write_nearest(scratch: Scratch, size: int) -> int:
    """The point of a simplex nearest to the origin; keeps and counts the corners that span it.

    A tetrahedron that contains the origin stays as it is.
    """
    out, simplex, weights = scratch
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


@njit(nogil=True)
def _of_edge(a: Array, b: Array) -> tuple[float, float]:
    """Weights of the ends for the point nearest to the origin."""
    aa, ab, bb = _dot(a, a), _dot(a, b), _dot(b, b)
    length = aa - 2 * ab + bb
    share = min(max((aa - ab) / length, 0.0), 1.0) if length > 0 else 0.0
    return 1 - share, share


@njit(nogil=True)
def _of_triangle(a: Array, b: Array, c: Array) -> tuple[float, float, float]:
    """Weights of the corners for the point nearest to the origin, by Voronoi regions."""
    aa, ab, ac, bb, bc, cc = (
        _dot(a, a), _dot(a, b), _dot(a, c), _dot(b, b), _dot(b, c), _dot(c, c),
    )  # fmt: skip
    ab_a, ac_a, ab_b = aa - ab, aa - ac, ab - bb  # of the origin along an edge, from a corner
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


@njit(nogil=True)
def _write_of_faces(simplex: Array, weights: Array) -> bool:
    """Weights of a tetrahedron's corners for its nearest face; False if the origin is inside."""
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


@njit(nogil=True)
def _beyond(a: Array, b: Array, c: Array, other: Array) -> bool:
    """Whether the plane through three points separates the origin from another point."""
    px, py, pz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    qx, qy, qz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    nx, ny, nz = py * qz - pz * qy, pz * qx - px * qz, px * qy - py * qx
    zero = -(nx * a[0] + ny * a[1] + nz * a[2])
    there = nx * (other[0] - a[0]) + ny * (other[1] - a[1]) + nz * (other[2] - a[2])
    return zero * there <= 0

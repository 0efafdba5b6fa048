"""Things as lines: an arc, the edges of convex pieces."""

import numpy as np

from ..world.shapes import Shape
from .nodes import Array

POINTS = 33  # of an arc


def arc(axis: Array, angle: float, radius: float) -> Array:
    """Points ``(33, 3)`` of an arc about ``axis (3,)`` at the origin, ``angle`` in radians."""
    n = axis / np.linalg.norm(axis)
    a = np.cross(n, np.eye(3)[np.abs(n).argmin()])
    a /= np.linalg.norm(a)
    t = np.linspace(0, angle, POINTS)[:, None]
    return radius * (np.cos(t) * a + np.sin(t) * np.cross(n, a))


def shape_lines(shape: Shape) -> Array:
    """Edges ``(N, 2, 3)`` of an object's convex pieces, or three circles of a ball."""
    if shape.radius is not None:
        rings = [arc(axis, 2 * np.pi, shape.radius) + shape.center for axis in np.eye(3)]
        return np.concatenate([np.stack([x[:-1], x[1:]], 1) for x in rings])
    return np.concatenate([_hull_edges(piece) for piece in shape.pieces])


def _hull_edges(points: Array) -> Array:
    from scipy.spatial import ConvexHull

    faces = ConvexHull(points).simplices
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return points[np.unique(np.sort(pairs, 1), axis=0)]

"""The compiled part of contact shadows.

Numba's cache knows this file's own text alone: after changing a constant that is imported here,
remove the ``__pycache__`` beside it.
"""

import math

import numba

from .shadows import BLUR, HIGHEST, OVERHEAD, SPREAD, WIDEST, Array


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_cover(at: Array, wide: Array, points: Array, size: float, cover: Array) -> None:
    """Add to ``cover (R,)`` the spots of one object's ``points (P, 3)`` at receivers ``(R, 3)``.

    A wide receiver, of variance ``wide (R,)``, takes the mean of a spot over itself.
    """
    side = 2 * WIDEST * (BLUR + SPREAD * HIGHEST) * size
    x0, x1 = points[:, 0].min() - side, points[:, 0].max() + side
    y0, y1 = points[:, 1].min() - side, points[:, 1].max() + side
    z0, z1 = points[:, 2].min() - HIGHEST * size, points[:, 2].max() + OVERHEAD * size
    for i in range(len(at)):
        x, y, z = at[i, 0], at[i, 1], at[i, 2]
        if x < x0 or x > x1 or y < y0 or y > y1 or z < z0 or z > z1:
            continue
        for j in range(len(points)):
            h = (points[j, 2] - z) / size
            if h >= HIGHEST or h <= -OVERHEAD:
                continue
            weight = 1 + h / OVERHEAD if h < 0 else (1 - h / HIGHEST) ** 2
            spot = ((BLUR + SPREAD * max(h, 0.0)) * size) ** 2
            d = ((points[j, 0] - x) ** 2 + (points[j, 1] - y) ** 2) / (spot + wide[i])
            if d < WIDEST**2:
                cover[i] += weight * spot / (spot + wide[i]) * math.exp(-0.5 * d)

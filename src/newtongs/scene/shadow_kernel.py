"""The compiled part of contact shadows."""

import numpy as np

from ..base.jit import njit
from ..base.process import sharing
from ..base.types import Array
from .shadows import BLUR, HIGHEST, OVERHEAD, SPREAD, WIDEST

CHUNK = 16384  # receivers at a time
# No branch and no exponential in the loop over an object's points, so that it is vectorised:
# (1 - d / 9)^4 is close to exp(-d / 2), and ends at three widths.
FAST = {"contract", "reassoc", "nsz", "arcp"}


def add_cover(at: Array, wide: Array, points: Array, size: float, cover: Array) -> None:
    """Add to ``cover (R,)`` the spots of one object's ``points (P, 3)`` at receivers ``(R, 3)``.

    A receiver of variance ``wide (R,)`` gets the mean of a spot over its extent.
    """
    x, y, z = np.ascontiguousarray((points / size).T, dtype=np.float32)

    def add(i: int) -> None:
        part = slice(i, i + CHUNK)
        _add_cover(at[part], wide[part], x, y, z, size, cover[part])

    with sharing() as share:
        share(add, range(0, len(at), CHUNK))


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _add_cover(
    at: Array, wide: Array, px: Array, py: Array, pz: Array, size: float, cover: Array
) -> None:
    """The same with the points in units of the object's size, one array per axis."""
    side = 2 * WIDEST * (BLUR + SPREAD * HIGHEST)
    x0, x1, y0, y1 = px.min() - side, px.max() + side, py.min() - side, py.max() + side
    z0, z1 = pz.min() - HIGHEST, pz.max() + OVERHEAD
    one, none, ninth = np.float32(1), np.float32(0), np.float32(1 / WIDEST**2)
    blur, spread = np.float32(BLUR), np.float32(SPREAD)
    fall, fade = np.float32(1 / HIGHEST), np.float32(1 / OVERHEAD)
    for i in range(len(at)):
        x, y, z = at[i, 0] / size, at[i, 1] / size, at[i, 2] / size
        if x < x0 or x > x1 or y < y0 or y > y1 or z < z0 or z > z1:
            continue
        x, y, z = np.float32(x), np.float32(y), np.float32(z)
        own, total = np.float32(wide[i] / size**2), none
        for j in range(len(px)):
            h = pz[j] - z
            above, below = max(h, none), min(h, none)
            weight = max(none, one - above * fall)
            weight = weight * weight * max(none, one + below * fade)
            spot = (blur + spread * above) ** 2
            over = one / (spot + own)
            d = ((px[j] - x) ** 2 + (py[j] - y) ** 2) * over
            bump = max(none, one - d * ninth)
            bump = bump * bump
            total += weight * spot * over * bump * bump
        cover[i] += total

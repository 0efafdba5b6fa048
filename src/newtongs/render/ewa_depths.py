"""Where along a pixel's ray a Gaussian is, compiled: for the labels, and for what blends by depth.

Numba's cache knows this file's own text alone: after changing a constant that is imported here,
remove the ``__pycache__`` beside it.
"""

import math
from typing import Any

from .ewa_project import View
from .ewa_records import Array, Indices, compiled
from .footprint import EPS2D


@compiled("contract", inside=True)
def _line(means: Array, covariances: Array, row: int, view: View) -> tuple[float, float, float]:
    """Slopes of depth over the picture, along x and y, and the variance that is left on a ray."""
    W, m, c = view.w2c, means[row], covariances[row]
    z = W[2, 0] * m[0] + W[2, 1] * m[1] + W[2, 2] * m[2] + W[2, 3]
    x = (W[0, 0] * m[0] + W[0, 1] * m[1] + W[0, 2] * m[2] + W[0, 3]) / z
    y = (W[1, 0] * m[0] + W[1, 1] * m[1] + W[1, 2] * m[2] + W[1, 3]) / z
    jx, jy = view.fx / z, view.fy / z
    u0, u1, u2 = (
        jx * (W[0, 0] - x * W[2, 0]),
        jx * (W[0, 1] - x * W[2, 1]),
        jx * (W[0, 2] - x * W[2, 2]),
    )
    v0, v1, v2 = (
        jy * (W[1, 0] - y * W[2, 0]),
        jy * (W[1, 1] - y * W[2, 1]),
        jy * (W[1, 2] - y * W[2, 2]),
    )
    a0, a1, a2 = (
        c[0] * u0 + c[1] * u1 + c[2] * u2,
        c[1] * u0 + c[3] * u1 + c[4] * u2,
        c[2] * u0 + c[4] * u1 + c[5] * u2,
    )
    b0, b1, b2 = (
        c[0] * v0 + c[1] * v1 + c[2] * v2,
        c[1] * v0 + c[3] * v1 + c[4] * v2,
        c[2] * v0 + c[4] * v1 + c[5] * v2,
    )
    d0, d1, d2 = (
        c[0] * W[2, 0] + c[1] * W[2, 1] + c[2] * W[2, 2],
        c[1] * W[2, 0] + c[3] * W[2, 1] + c[4] * W[2, 2],
        c[2] * W[2, 0] + c[4] * W[2, 1] + c[5] * W[2, 2],
    )
    uu, uv = u0 * a0 + u1 * a1 + u2 * a2 + EPS2D, u0 * b0 + u1 * b1 + u2 * b2
    vv = v0 * b0 + v1 * b1 + v2 * b2 + EPS2D
    zu = W[2, 0] * a0 + W[2, 1] * a1 + W[2, 2] * a2
    zv = W[2, 0] * b0 + W[2, 1] * b1 + W[2, 2] * b2
    zz = W[2, 0] * d0 + W[2, 1] * d1 + W[2, 2] * d2
    det = uu * vv - uv * uv
    along_x, along_y = (zu * vv - zv * uv) / det, (zv * uu - zu * uv) / det
    return along_x, along_y, zz - along_x * zu - along_y * zv


@compiled("contract")
def depth_slopes(means: Array, covariances: Array, rows: Indices, view: View, out: Array) -> None:
    """How depth changes over each Gaussian's picture ``(n, 2)``: scene units a pixel along x, y.

    ``Cov(z, uv) Cov(uv)^-1`` of the projected Gaussian, low-pass included: where along the ray of a
    pixel there is the most of it.
    """
    for i in range(len(rows)):
        out[i, 0], out[i, 1], _ = _line(means, covariances, rows[i], view)


@compiled("contract")
def depth_lines(means: Array, covariances: Array, rows: Indices, view: View, out: Any) -> None:
    """The same, and the standard deviation of depth on one ray ``(n, 3)``, in scene units.

    ``Var(z) - Cov(z, uv) Cov(uv)^-1 Cov(uv, z)``: it is the same on all rays of a Gaussian.
    """
    for i in range(len(rows)):
        out[i, 0], out[i, 1], variance = _line(means, covariances, rows[i], view)
        out[i, 2] = math.sqrt(max(variance, 0.0))

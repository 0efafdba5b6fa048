"""Projection of Gaussians, compiled: records to draw, and depths along a pixel's ray.

A projected Gaussian is one record of 16 float32, a cache line. Its footprint is
``alpha = opacity * 2^-(u^2 + v^2)`` with ``u = a (dx - g dy)`` and ``v = b dy``, the Cholesky form
of the projected covariance: unlike the usual ``A dx^2 + 2 B dx dy + C dy^2`` it does not cancel, so
float32 is enough for a needle that crosses the whole picture. The projection itself is in float64.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.jit import compiled
from ..base.types import Array
from .splat import ALPHA_MIN, EPS2D, NEAR, VIEW_MARGIN

Indices: TypeAlias = npt.NDArray[np.int32]

# Columns: the centre as a whole pixel and half a pixel minus the fraction, so that the distance
# from a pixel is exact to float32 in a picture of any size; a, g, b; the exponent at
# which alpha falls to 1/255; the line on which the footprint is widest; opacity, colour, depth;
# half the footprint's box.
IX, HX, IY, HY, A, G, B, P_MAX, DY_WIDEST, OPACITY, RED, GREEN, BLUE, DEPTH, EXT_X, EXT_Y = range(
    16
)
RECORD = 16


class Layer(NamedTuple):
    """Projected Gaussians, near to far."""

    records: Array  # (n, 16)
    rows: Indices  # (n,): index of each Gaussian; at equal depth the lower row is in front


# --- projection ----------------------------------------------------------------------------------

LOG2_ROOT = math.sqrt(0.5 / math.log(2))  # exp(-d^2 / 2) = 2^-(LOG2_ROOT d)^2
ZERO = np.float32(0)  # a bare Python number would turn float32 arithmetic into float64


# Factors of the real spherical harmonics, with the sign (-1)^m as in all Gaussian-splatting files.
TWO, THREE = np.float32(2), np.float32(3)
Y00, Y1 = np.float32(math.sqrt(1 / (4 * math.pi))), np.float32(math.sqrt(3 / (4 * math.pi)))
Y2A, Y2D = np.float32(math.sqrt(15 / (4 * math.pi))), np.float32(math.sqrt(15 / (16 * math.pi)))
Y2B, Y2C = np.float32(math.sqrt(45 / (16 * math.pi))), np.float32(math.sqrt(5 / (16 * math.pi)))
Y3A, Y3B = np.float32(math.sqrt(35 / (32 * math.pi))), np.float32(math.sqrt(105 / (16 * math.pi)))
Y3C, Y3D = (
    np.float32(5 * math.sqrt(21 / (32 * math.pi))),
    np.float32(math.sqrt(21 / (32 * math.pi))),
)
Y3E, Y3F = (
    np.float32(5 * math.sqrt(7 / (16 * math.pi))),
    np.float32(3 * math.sqrt(7 / (16 * math.pi))),
)


class Pinhole(NamedTuple):
    """A camera as plain numbers."""

    w2c: npt.NDArray[np.float64]  # (3, 4)
    position: npt.NDArray[np.float64]  # (3,), in the world
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int


class Splats(NamedTuple):
    """Gaussians as float32 arrays; unused ones have length zero."""

    means: Array  # (N, 3)
    quats: Array  # (N, 4)
    scales: Array  # (N, 3)
    covariances: Array  # (N, 6): xx xy xz yy yz zz; or (0, 6) to take quats and scales
    opacities: Array  # (N,)
    sh: Array  # (N, K, 3); or (0, K, 3) to take colors
    colors: Array  # (N, 3)
    shade: Array  # (N,): factors on the colours; or (0,)


@compiled("contract")
def _covariance(splats: Splats, i: int) -> tuple[float, float, float, float, float, float]:
    """Upper triangle of ``R diag(s^2) R^T``, or the given covariance."""
    if len(splats.covariances):
        c = splats.covariances[i]
        return (
            np.float64(c[0]), np.float64(c[1]), np.float64(c[2]),
            np.float64(c[3]), np.float64(c[4]), np.float64(c[5]),
        )  # fmt: skip
    q, s = splats.quats[i], splats.scales[i]
    w, x, y, z = np.float64(q[0]), np.float64(q[1]), np.float64(q[2]), np.float64(q[3])
    s0, s1, s2 = np.float64(s[0]) ** 2, np.float64(s[1]) ** 2, np.float64(s[2]) ** 2
    a0, a1, a2 = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    b0, b1, b2 = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    c0, c1, c2 = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    return (
        a0 * a0 * s0 + a1 * a1 * s1 + a2 * a2 * s2,
        a0 * b0 * s0 + a1 * b1 * s1 + a2 * b2 * s2,
        a0 * c0 * s0 + a1 * c1 * s1 + a2 * c2 * s2,
        b0 * b0 * s0 + b1 * b1 * s1 + b2 * b2 * s2,
        b0 * c0 * s0 + b1 * c1 * s1 + b2 * c2 * s2,
        c0 * c0 * s0 + c1 * c1 * s1 + c2 * c2 * s2,
    )


@compiled("contract")
def _projected_covariance(
    cov: tuple[float, float, float, float, float, float],
    view: Pinhole,
    x: float,
    y: float,
    nearness: float,
) -> tuple[float, float, float]:
    """``J W Sigma W^T J^T`` plus the low-pass: entries ``A`` (xx), ``B`` (xy), ``C`` (yy).

    ``x`` and ``y`` are camera coordinates over ``z``, ``nearness`` is ``1 / z``. Outside the view's
    margin, where ``J`` would explode, it is taken at the margin.
    """
    margin_x, margin_y = VIEW_MARGIN * 0.5 * view.width, VIEW_MARGIN * 0.5 * view.height
    tx = min(max(x, -(view.cx + margin_x) / view.fx), (view.width - view.cx + margin_x) / view.fx)
    ty = min(max(y, -(view.cy + margin_y) / view.fy), (view.height - view.cy + margin_y) / view.fy)
    W, jx, jy = view.w2c, view.fx * nearness, view.fy * nearness
    # Rows of J W.
    m0, m1, m2 = (
        jx * (W[0, 0] - tx * W[2, 0]),
        jx * (W[0, 1] - tx * W[2, 1]),
        jx * (W[0, 2] - tx * W[2, 2]),
    )
    n0, n1, n2 = (
        jy * (W[1, 0] - ty * W[2, 0]),
        jy * (W[1, 1] - ty * W[2, 1]),
        jy * (W[1, 2] - ty * W[2, 2]),
    )
    xx, xy, xz, yy, yz, zz = cov
    e0, e1, e2 = (
        xx * m0 + xy * m1 + xz * m2,
        xy * m0 + yy * m1 + yz * m2,
        xz * m0 + yz * m1 + zz * m2,
    )
    f0, f1, f2 = (
        xx * n0 + xy * n1 + xz * n2,
        xy * n0 + yy * n1 + yz * n2,
        xz * n0 + yz * n1 + zz * n2,
    )
    A = m0 * e0 + m1 * e1 + m2 * e2 + EPS2D
    B = m0 * f0 + m1 * f1 + m2 * f2
    C = n0 * f0 + n1 * f1 + n2 * f2 + EPS2D
    return A, B, C


@compiled("contract", inside=True)
def _color(splats: Splats, i: int, view: Pinhole, out: Array) -> None:
    """Colour as seen from the camera, ``max(0, 0.5 + sum_k sh_k Y_k(d))``."""
    if not len(splats.sh):
        for c in range(3):
            out[RED + c] = splats.colors[i, c]
        return
    sh, m = splats.sh[i], splats.means[i]
    x, y, z = m[0] - view.position[0], m[1] - view.position[1], m[2] - view.position[2]
    n = 1 / math.sqrt(max(x * x + y * y + z * z, 1e-60))
    x, y, z = np.float32(x * n), np.float32(y * n), np.float32(z * n)
    for c in range(3):
        s = np.float32(0.5) + Y00 * sh[0, c]
        if len(sh) > 1:
            s += Y1 * (-y * sh[1, c] + z * sh[2, c] - x * sh[3, c])
        if len(sh) > 4:
            xx, yy, zz = x * x, y * y, z * z
            s += Y2A * (x * y * sh[4, c] - y * z * sh[5, c] - x * z * sh[7, c])
            s += (Y2B * zz - Y2C) * sh[6, c] + Y2D * (xx - yy) * sh[8, c]
        if len(sh) > 9:
            s -= Y3A * (y * (THREE * xx - yy) * sh[9, c] + x * (xx - THREE * yy) * sh[15, c])
            s += Y3B * z * (TWO * x * y * sh[10, c] + (xx - yy) * sh[14, c])
            s += (Y3D - Y3C * zz) * (y * sh[11, c] + x * sh[13, c])
            s += z * (Y3E * zz - Y3F) * sh[12, c]
        out[RED + c] = max(s, ZERO)


@compiled("contract", inside=True)
def _record(splats: Splats, i: int, view: Pinhole, out: Array) -> bool:
    """Fill the record of Gaussian ``i``; False if no pixel can see it."""
    W, m, o = view.w2c, splats.means[i], np.float64(splats.opacities[i])
    z = W[2, 0] * m[0] + W[2, 1] * m[1] + W[2, 2] * m[2] + W[2, 3]
    if not (z >= NEAR and o >= ALPHA_MIN):  # NaN fails too
        return False
    nearness = 1 / z  # divisions and square roots dominate the cost
    x = nearness * (W[0, 0] * m[0] + W[0, 1] * m[1] + W[0, 2] * m[2] + W[0, 3])
    y = nearness * (W[1, 0] * m[0] + W[1, 1] * m[1] + W[1, 2] * m[2] + W[1, 3])
    px, py = view.fx * x + view.cx, view.fy * y + view.cy
    xx, xy, yy = _projected_covariance(_covariance(splats, i), view, x, y, nearness)
    det, sigma_x, sigma_y = xx * yy - xy * xy, math.sqrt(xx), math.sqrt(yy)
    squared = 2 * math.log(o * (1 / ALPHA_MIN))
    reach = math.sqrt(squared)  # distance, in standard deviations, of 1 / 255
    ext_x, ext_y = reach * sigma_x, reach * sigma_y
    inside_x = px + ext_x > 0 and px - ext_x < view.width
    inside_y = py + ext_y > 0 and py - ext_y < view.height
    if not (det > 0 and det < np.inf and inside_x and inside_y):
        return False
    out[IX], out[IY] = math.floor(px), math.floor(py)
    out[HX], out[HY] = 0.5 - (px - math.floor(px)), 0.5 - (py - math.floor(py))
    narrow = 1 / sigma_y
    out[A], out[G], out[B] = (
        LOG2_ROOT * sigma_y / math.sqrt(det),
        xy * narrow * narrow,
        LOG2_ROOT * narrow,
    )
    out[P_MAX], out[DY_WIDEST] = LOG2_ROOT**2 * squared, reach * xy / sigma_x
    out[OPACITY], out[DEPTH], out[EXT_X], out[EXT_Y] = o, z, ext_x, ext_y
    _color(splats, i, view, out)
    if len(splats.shade):
        for c in range(3):
            out[RED + c] *= splats.shade[i]
    return True


@compiled()
def project(
    splats: Splats, view: Pinhole, first: int, last: int, records: Array, seen: Any
) -> None:
    """Records ``(N, 16)`` of the Gaussians ``first`` to ``last``, and which are visible."""
    for i in range(first, last):
        seen[i] = _record(splats, i, view, records[i])


# --- along a ray ---------------------------------------------------------------------------------


@compiled("contract", inside=True)
def _line(means: Array, covariances: Array, row: int, view: Pinhole) -> tuple[float, float, float]:
    """Slopes of depth along x and y of the picture, and the remaining variance on a ray."""
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
def depth_slopes(
    means: Array, covariances: Array, rows: Indices, view: Pinhole, out: Array
) -> None:
    """How each Gaussian's depth changes over the picture ``(n, 2)``: scene units per pixel in x, y.

    ``Cov(z, uv) Cov(uv)^-1`` of the projected Gaussian, low-pass included: its density along a
    pixel's ray is largest at that depth.
    """
    for i in range(len(rows)):
        out[i, 0], out[i, 1], _ = _line(means, covariances, rows[i], view)


@compiled("contract")
def depth_lines(means: Array, covariances: Array, rows: Indices, view: Pinhole, out: Any) -> None:
    """The same, and the standard deviation of depth on one ray ``(n, 3)``, in scene units.

    ``Var(z) - Cov(z, uv) Cov(uv)^-1 Cov(uv, z)``, the same on all rays of a Gaussian.
    """
    for i in range(len(rows)):
        out[i, 0], out[i, 1], variance = _line(means, covariances, rows[i], view)
        out[i, 2] = math.sqrt(max(variance, 0.0))

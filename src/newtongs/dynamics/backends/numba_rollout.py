"""The rollout of Gaussian-NND as compiled machine code on the CPU.

``rollout_cpu(model, z0, times)`` returns what ``model.rollout(z0, times)`` returns, up to float32
rounding. It has no semantics of its own: every function below names the reference it repeats.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ...base.errors import InputError
from ...base.jit import compiled
from ...base.rotations import NORM_FLOOR
from ...base.state import DIM, LAYOUT, MASS_FLOOR, SCALE_FLOOR, StateLike, project
from ...base.types import GRAVITY, Array, StateTensor, Times
from ..floor import RADIUS_FLOOR
from ..gaussian_nnd import GaussianNND
from ..rollout import check_initial, finite, intervals, substeps

Layer: TypeAlias = tuple[Array, Array]  # weight (outputs, inputs) and bias (outputs,), padded

TILE = 4  # rows that share one pass over the weights; also the padding of every layer's width
WIDTH = DIM + -DIM % TILE
BLOCK = 64  # rows per task of a thread

# A bare Python number would turn float32 arithmetic into float64.
ZERO, HALF, ONE, TWO = map(np.float32, (0, 0.5, 1, 2))
G_X, _, G_Z = map(np.float32, GRAVITY)
S_MIN, M_MIN, R_MIN = map(np.float32, (SCALE_FLOOR, MASS_FLOOR, RADIUS_FLOOR))
QQ_MIN = np.float32(NORM_FLOOR**2)
P, Q, V, W, S, U, M, E, MU = (channels.start for channels in LAYOUT.values())


class Plain(NamedTuple):
    """A model as numbers and arrays for compiled code."""

    c_v: np.float32
    c_w: np.float32
    k_s: np.float32
    c_s: np.float32
    g: np.float32
    alpha: np.float32
    alpha_imp: np.float32
    f_theta: tuple[Layer, ...]
    h_phi: tuple[Layer, ...]
    rk4: bool
    contact: bool
    continuous_residual: bool
    contact_residual: bool
    prior: bool
    bounded: bool


@torch.no_grad()
def rollout_cpu(model: GaussianNND, z0: StateLike, times: Times | Sequence[float]) -> StateTensor:
    """States ``(..., T, 22)`` at ``times``: ``model.rollout(z0, times)`` without its gradient.

    Model and ``z0`` ``(..., 22)`` are float32 on the CPU. Rows are shared among
    ``torch.get_num_threads()`` threads.
    """
    z0, dt = check_initial(z0), intervals(times)
    require_supported(model, z0)
    model.require_stable(z0, dt)
    out = _advanced(model, project(z0).reshape(-1, DIM), dt)
    return finite(out.reshape(*z0.shape[:-1], len(dt) + 1, DIM))


@torch.no_grad()
def advance_cpu(model: GaussianNND, z: StateTensor, dt: Sequence[float]) -> StateTensor:
    """States ``(K, T, 22)`` after each of the intervals ``dt`` (T,), from projected ``z (K, 22)``.

    Several consecutive calls give what one call gives: ``z`` is not projected again.
    """
    require_supported(model, z)
    return _advanced(model, z, dt)[:, 1:]


def _advanced(model: GaussianNND, z: StateTensor, dt: Sequence[float]) -> StateTensor:
    """States ``(K, 1 + T, 22)``, the first as given."""
    n = np.array([substeps(t, model.config.max_dt) for t in dt], np.int64)
    z = z.contiguous()
    out = torch.empty(len(z), len(dt) + 1, DIM)
    out[:, 0] = z
    _share(z.numpy(), n, np.array(dt) / n, _plain(model), out.numpy())
    return out


def require_supported(model: GaussianNND, z0: StateTensor) -> None:
    """Refuse what compiled code does not cover, see :func:`newtongs.dynamics.backends.backend`."""
    if type(model) is not GaussianNND:
        raise InputError(
            f"the fast CPU rollout repeats GaussianNND's equations and cannot know those of its "
            f"subclass {type(model).__name__}; use model.rollout"
        )
    for x in (z0, model.c_v):
        if x.dtype != torch.float32 or x.device.type != "cpu":
            raise InputError(
                f"the fast CPU rollout takes a float32 model and z0 on the CPU, got {x.dtype} on "
                f"{x.device}; use model.rollout"
            )


def _plain(model: GaussianNND) -> Plain:
    """The model's numbers, with effective coefficients; read once per call."""
    c, config = model.coefficients, model.config
    return Plain(
        c_v=np.float32(float(c.c_v)),
        c_w=np.float32(float(c.c_w)),
        k_s=np.float32(float(c.k_s)),
        c_s=np.float32(float(c.c_s)),
        g=np.float32(c.g),
        alpha=np.float32(model.alpha.item()),
        alpha_imp=np.float32(model.alpha_imp.item()),
        f_theta=_layers(model.f_theta),
        h_phi=_layers(model.h_phi),
        rk4=config.solver == "rk4",
        contact=config.contact,
        continuous_residual=config.continuous_residual,
        contact_residual=config.contact_residual,
        prior=config.prior,
        bounded=config.bounded,
    )


def _layers(network: nn.Sequential) -> tuple[Layer, ...]:
    """Linear layers with widths padded to whole tiles: SiLU(0) = 0 keeps the padding zero."""
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    return tuple((_padded(layer.weight), _padded(layer.bias)) for layer in linear)


def _padded(x: Tensor) -> Array:
    """A copy of ``x`` with zeros up to a multiple of ``TILE`` in every dimension.

    By numpy: for a copy of this size torch would wake its threads, and on a busy machine wait for
    them longer than the whole rollout takes.
    """
    padded = np.zeros([n + -n % TILE for n in x.shape], np.float32)
    padded[tuple(map(slice, x.shape))] = x.numpy(force=True)
    return padded


def _share(z: Array, n: Array, h: Array, model: Plain, out: Array) -> None:
    """Roll the rows out on several threads; compiled code releases the interpreter's lock.

    Numba's own threads are not used: without TBB and OpenMP they abort the process when two Python
    threads (of the studio) use them at once.
    """
    threads = min(torch.get_num_threads(), len(z))
    if threads <= 1:
        return _advance(z, n, h, model, out)
    size = min(BLOCK, -(-len(z) // threads))
    size += -size % TILE if size > TILE // 2 else 0  # a full tile costs about two single rows
    starts = range(0, len(z), size)
    with ThreadPoolExecutor(threads) as pool:
        # list() waits and raises what a thread raised.
        list(pool.map(lambda i: _advance(z[i : i + size], n, h, model, out[i : i + size]), starts))
    return None


# --- compiled from here on; arrays are (rows, channels), channels padded to whole tiles -----------


@compiled("contract", "reassoc")
def _one_row(x: Array, w: Array, b: Array, y: Array) -> None:
    """``y = w x + b`` for one row, four outputs at a time."""
    for o in range(0, w.shape[0], 4):
        w0, w1, w2, w3 = w[o], w[o + 1], w[o + 2], w[o + 3]
        a0, a1, a2, a3 = b[o], b[o + 1], b[o + 2], b[o + 3]
        for i in range(w.shape[1]):
            a0 += x[i] * w0[i]
            a1 += x[i] * w1[i]
            a2 += x[i] * w2[i]
            a3 += x[i] * w3[i]
        y[o], y[o + 1], y[o + 2], y[o + 3] = a0, a1, a2, a3


@compiled("contract", "reassoc")
def _four_rows(x: Array, w: Array, b: Array, y: Array) -> None:
    """The same for four rows: 16 sums stay in registers and each weight is loaded once.

    Written out because only named sums become vector registers.
    """
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    y0, y1, y2, y3 = y[0], y[1], y[2], y[3]
    for o in range(0, w.shape[0], 4):
        w0, w1, w2, w3 = w[o], w[o + 1], w[o + 2], w[o + 3]
        a00 = a10 = a20 = a30 = b[o]
        a01 = a11 = a21 = a31 = b[o + 1]
        a02 = a12 = a22 = a32 = b[o + 2]
        a03 = a13 = a23 = a33 = b[o + 3]
        for i in range(w.shape[1]):
            a00 += x0[i] * w0[i]
            a01 += x0[i] * w1[i]
            a02 += x0[i] * w2[i]
            a03 += x0[i] * w3[i]
            a10 += x1[i] * w0[i]
            a11 += x1[i] * w1[i]
            a12 += x1[i] * w2[i]
            a13 += x1[i] * w3[i]
            a20 += x2[i] * w0[i]
            a21 += x2[i] * w1[i]
            a22 += x2[i] * w2[i]
            a23 += x2[i] * w3[i]
            a30 += x3[i] * w0[i]
            a31 += x3[i] * w1[i]
            a32 += x3[i] * w2[i]
            a33 += x3[i] * w3[i]
        y0[o], y0[o + 1], y0[o + 2], y0[o + 3] = a00, a01, a02, a03
        y1[o], y1[o + 1], y1[o + 2], y1[o + 3] = a10, a11, a12, a13
        y2[o], y2[o + 1], y2[o + 2], y2[o + 3] = a20, a21, a22, a23
        y3[o], y3[o + 1], y3[o + 2], y3[o + 3] = a30, a31, a32, a33


# exp(a) = 2^k e^r with k = round(a / ln 2): ln 2 in two parts, the Cephes polynomial for e^r - 1.
A_MAX, LOG2_E = map(np.float32, (87, 1 / math.log(2)))
LN2_HIGH, LN2_LOW = map(np.float32, (0.693359375, math.log(2) - 0.693359375))
E2, E3, E4, E5, E6, E7 = map(
    np.float32,
    (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3,
     1.9875691500e-4),
)  # fmt: skip
# Adding 1.5 * 2^23 rounds to an integer, whose bits then are the lowest of the sum.
ROUND, MANTISSA, UNIT_BITS = np.float32(1.5 * 2**23), np.int32(23), np.int32(127 << 23)


@compiled("contract")
def _exp(a: np.float32) -> np.float32:
    """``exp`` to 2 ulp, written out because a call is not vectorised."""
    a = A_MAX if a > A_MAX else a
    a = -A_MAX if a < -A_MAX else a
    shifted = a * LOG2_E + ROUND
    k = shifted - ROUND
    r = a - k * LN2_HIGH - k * LN2_LOW
    e = ((((E7 * r + E6) * r + E5) * r + E4) * r + E3) * r + E2
    e = e * r * r + r + ONE
    power = np.int32((np.float32(shifted).view(np.int32) << MANTISSA) + UNIT_BITS)
    return np.float32(e * power.view(np.float32))


@compiled("contract")
def _silu(x: Array) -> None:
    """``nn.SiLU`` in place, to 3 ulp."""
    for j in range(x.size):
        x.flat[j] = x.flat[j] / (ONE + _exp(-x.flat[j]))


@compiled()
def _network(x: Array, layers: tuple[Layer, ...]) -> Array:
    """``model.f_theta`` or ``model.h_phi``, before the tanh."""
    for depth in range(len(layers)):
        w, b = layers[depth]
        y = np.empty((len(x), len(w)), np.float32)
        whole = len(x) - len(x) % TILE
        for r in range(0, whole, TILE):
            _four_rows(x[r : r + TILE], w, b, y[r : r + TILE])
        for r in range(whole, len(x)):
            _one_row(x[r], w, b, y[r])
        if depth + 1 < len(layers):
            _silu(y)
        x = y
    return x


@compiled("contract")
def _project(z: Array) -> None:
    """``state.project`` of one row in place. Comparisons propagate NaN, as in torch."""
    norm = z[Q] * z[Q] + z[Q + 1] * z[Q + 1] + z[Q + 2] * z[Q + 2] + z[Q + 3] * z[Q + 3]
    norm = math.sqrt(QQ_MIN if norm < QQ_MIN else norm)
    for i in range(Q, Q + 4):
        z[i] /= norm
    for i in range(S, S + 3):
        z[i] = S_MIN if z[i] < S_MIN else z[i]
    z[M] = M_MIN if z[M] < M_MIN else z[M]
    for i in (E, MU):
        z[i] = ZERO if z[i] < ZERO else z[i]
        z[i] = ONE if z[i] > ONE else z[i]


@compiled("contract")
def _rates(z: Array, model: Plain, dz: Array) -> None:
    """``analytic.rates`` of one row; the material's rates stay zero.

    Without the prior the coefficients are zero, and with gravity gone ``kinematics`` is left.
    """
    for i in range(3):
        dz[P + i] = z[V + i]
        dz[V + i] = -model.c_v * z[V + i] / z[M]
        dz[W + i] = -model.c_w * z[W + i]
        dz[S + i] = z[U + i]
        dz[U + i] = -model.k_s * (z[S + i] - ONE) - model.c_s * z[U + i]
    if model.prior:
        dz[V] += G_X
        dz[V + 1] -= model.g
        dz[V + 2] += G_Z
    qw, qx, qy, qz = z[Q], z[Q + 1], z[Q + 2], z[Q + 3]
    wx, wy, wz = z[W], z[W + 1], z[W + 2]
    dz[Q] = HALF * (-qx * wx - qy * wy - qz * wz)
    dz[Q + 1] = HALF * (qw * wx + qy * wz - qz * wy)
    dz[Q + 2] = HALF * (qw * wy - qx * wz + qz * wx)
    dz[Q + 3] = HALF * (qw * wz + qx * wy - qy * wx)


@compiled("contract")
def _bounded(output: np.float32, model: Plain) -> np.float32:
    """``GaussianNND.bounded``."""
    return np.float32(math.tanh(output)) if model.bounded else output


@compiled("contract")
def _field(z: Array, model: Plain) -> Array:
    """``GaussianNND.field``."""
    dz = np.zeros_like(z)
    for row in range(len(z)):
        _rates(z[row], model, dz[row])
    if model.continuous_residual:
        r = _network(z, model.f_theta)
        for row in range(len(z)):
            for i in range(3):
                dz[row, V + i] += model.alpha * _bounded(r[row, i], model)
                dz[row, W + i] += model.alpha * _bounded(r[row, 3 + i], model)
                dz[row, U + i] += model.alpha * _bounded(r[row, 6 + i], model)
    return dz


@compiled("contract")
def _moved(z: Array, h: np.float32, dz: Array) -> Array:
    """``project(z + h * dz)``."""
    moved = np.empty_like(z)
    for row in range(len(z)):
        for i in range(z.shape[1]):
            moved[row, i] = z[row, i] + h * dz[row, i]
        _project(moved[row])
    return moved


@compiled("contract")
def _sum_stages(k1: Array, k2: Array, k3: Array, k4: Array) -> None:
    """``k1 += 2 k2 + 2 k3 + k4``."""
    for row in range(len(k1)):
        for i in range(k1.shape[1]):
            k1[row, i] += TWO * k2[row, i] + TWO * k3[row, i] + k4[row, i]


@compiled("contract")
def _step(z: Array, h: float, model: Plain) -> Array:
    """``GaussianNND.step``: ``solvers.rk4`` or ``solvers.euler``."""
    whole, half, sixth = np.float32(h), np.float32(h / 2), np.float32(h / 6)
    k1 = _field(z, model)
    if not model.rk4:
        return _moved(z, whole, k1)
    k2 = _field(_moved(z, half, k1), model)
    k3 = _field(_moved(z, half, k2), model)
    k4 = _field(_moved(z, whole, k3), model)
    _sum_stages(k1, k2, k3, k4)
    return _moved(z, sixth, k1)


@compiled("contract")
def _floor(z: Array, model: Plain) -> None:
    """The event of ``rollout`` in place: ``floor.gap``, ``GaussianNND.jump`` and ``project``."""
    for row in range(len(z)):
        x = z[row]
        radius = abs(x[S + 1])
        radius = R_MIN if radius < R_MIN else radius
        if not (x[V + 1] < ZERO and x[P + 1] - radius <= ZERO):
            continue
        if model.prior:
            x[P + 1] = radius
            x[V] *= ONE - x[MU]
            x[V + 1] *= -x[E]
            x[V + 2] *= ONE - x[MU]
            for i in range(W, W + 3):
                x[i] *= ONE - HALF * x[MU]
        if model.contact_residual:
            d = _network(z[row : row + 1], model.h_phi)[0]
            for i in range(3):
                x[V + i] += model.alpha_imp * _bounded(d[i], model)
                x[W + i] += model.alpha_imp * _bounded(d[3 + i], model)
        _project(x)


@compiled()
def _advance(z0: Array, n: Array, h: Array, model: Plain, out: Array) -> None:
    """``rollout``: fill ``out`` (rows, T, 22) from frame 1 on, in ``n[t]`` substeps of ``h[t]``.

    A tile goes through all frames before the next one starts, so its state stays in the cache.
    """
    for start in range(0, len(z0), TILE):
        z = np.zeros((min(TILE, len(z0) - start), WIDTH), np.float32)
        for row in range(len(z)):
            for i in range(DIM):
                z[row, i] = z0[start + row, i]
        for t in range(len(n)):
            for _ in range(n[t]):
                z = _step(z, h[t], model)
                if model.contact:
                    _floor(z, model)
            for row in range(len(z)):  # assigning a slice would double the compile time
                for i in range(DIM):
                    out[start + row, t + 1, i] = z[row, i]

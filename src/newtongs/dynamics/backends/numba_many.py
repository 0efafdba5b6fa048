"""The compiled CPU rollout for many objects: matrix products by torch, the rest compiled.

A few rows are quickest in one piece of compiled code (``numba_few``); from some rows on products
are worth a call to torch's matrix library, which uses wider registers than numba does. States stand
here as columns, ``(22, rows)``: neighbouring rows are neighbouring numbers, so that loops over them
become vector instructions, and a layer is ``W x`` with ``W`` as it is stored.
"""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...state import DIM
from ...threads import one_thread
from ..solvers import SCHEMES
from .numba_few import (
    G_X,
    G_Y,
    G_Z,
    HALF,
    ONE,
    QQ_MIN,
    R_MIN,
    S_MIN,
    TWO,
    WIDTH,
    ZERO,
    Array,
    M,
    P,
    Plain,
    Q,
    S,
    U,
    V,
    W,
    _compiled,
    _exp,
    _floor,
)

BLOCK = 512  # rows at a time on a thread: enough for the products, few enough for the cache
SHARED = 384  # rows from which several threads gain more than they lose by waiting for Python
MOVING = M  # channels before the material
PRIOR = 6  # of the scalars

_one_at_a_time = threading.Lock()


class Room(NamedTuple):
    """What one block of rows is worked out in."""

    x: Tensor
    """A stage's states ``(22, rows)``."""
    hidden: list[Tensor]
    """Outputs ``(width, rows)`` of each layer of f_theta."""
    dz: Array
    """Rates of the moving channels."""
    total: Array
    """Their weighted sum."""


def advance_many(
    z: Array, n: npt.NDArray[Any], h: npt.NDArray[Any], model: Plain, out: Array
) -> None:
    """``numba_few._advance`` for many rows, very many on all of torch's threads."""
    weights = [torch.from_numpy(w) for w, _ in model.f_theta]
    weights[0] = weights[0][:, :DIM].contiguous()
    threads = torch.get_num_threads() if len(z) >= SHARED else 1
    size = min(BLOCK, -(-len(z) // threads))

    def block(i: int) -> None:
        _advance(z[i : i + size], n, h, model, weights, out[i : i + size])

    starts = range(0, len(z), size)
    # Each of our threads calls torch; none of them is to start others. The setting belongs to the
    # process, so that only one caller at a time may change it.
    with _one_at_a_time, one_thread():
        if threads == 1:
            for i in starts:
                block(i)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(block, starts))  # list() waits and raises what a thread raised


def _advance(
    z0: Array,
    n: npt.NDArray[Any],
    h: npt.NDArray[Any],
    model: Plain,
    weights: list[Tensor],
    out: Array,
) -> None:
    """``rollout`` of one block, the steps in Python."""
    z = np.ascontiguousarray(z0.T)
    rows = z.shape[1]
    room = Room(
        torch.from_numpy(z.copy()),
        [torch.empty(len(w), rows) for w in weights],
        np.zeros((MOVING, rows), np.float32),
        np.zeros((MOVING, rows), np.float32),
    )
    scalars = scalars_of(model)
    for t in range(len(n)):
        for _ in range(n[t]):
            _step(z, h[t], model, scalars, weights, room)
            if model.contact:
                _land(z, model)
        out[:, t + 1] = z.T


def scalars_of(model: Plain) -> Array:
    """What compiled code reads: |c_v|, |c_w|, |k_s|, |c_s|, alpha, alpha_imp, share of gravity."""
    c = (model.c_v, model.c_w, model.k_s, model.c_s, model.alpha, model.alpha_imp, model.prior)
    return np.array(c, np.float32)


def _step(
    z: Array, h: float, model: Plain, scalars: Array, weights: list[Tensor], room: Room
) -> None:
    """``numba_few._step`` in place."""
    x = room.x.numpy()
    x[:] = z
    room.total[:] = 0
    scheme = SCHEMES["rk4" if model.rk4 else "euler"]
    for ahead, weight in scheme.stages:
        _field(model, weights, scalars, room)
        _stage(z, np.float32(ahead * h), np.float32(weight), room.dz, room.total, x)
    _field(model, weights, scalars, room)
    _stage(z, ZERO, ONE, room.dz, room.total, x)
    _move(z, np.float32(h / scheme.divisor), room.total, z)


def _field(model: Plain, weights: list[Tensor], scalars: Array, room: Room) -> None:
    """``GaussianNND.field`` of ``room.x`` into ``room.dz``, its residual always on."""
    y, biases = room.x, [b for _, b in model.f_theta]
    for depth, (w, out) in enumerate(zip(weights, room.hidden, strict=True)):
        torch.mm(w, y, out=out)
        if depth + 1 < len(weights):
            _bias_silu(out.numpy(), biases[depth])
        y = out
    finish(y.numpy(), biases[-1], bounded=model.bounded)
    _rates(room.x.numpy(), y.numpy(), scalars, room.dz)


def finish(y: Array, b: Array, *, bounded: bool) -> None:
    """``GaussianNND.bounded(y + b)`` in place, a bias for each line."""
    if bounded:
        _bias_tanh(y, b)
    else:
        y += b[: len(y), None]


# --- compiled from here on ------------------------------------------------------------------------


@_compiled("contract")
def _bias_silu(y: Array, b: Array) -> None:
    """``silu(y + b)`` in place, a bias for each line."""
    for o in range(y.shape[0]):
        line, bias = y[o], b[o]
        for j in range(line.size):
            a = line[j] + bias
            line[j] = a / (ONE + _exp(-a))


@_compiled("contract")
def _bias_tanh(y: Array, b: Array) -> None:
    """``tanh(y + b)`` in place, likewise."""
    for o in range(y.shape[0]):
        line, bias = y[o], b[o]
        for j in range(line.size):
            line[j] = ONE - TWO / (_exp(TWO * (line[j] + bias)) + ONE)


@_compiled("contract")
def _add_residual(dz: Array, r: Array, alpha: np.float32) -> None:
    """``dz += alpha r`` along one line."""
    for j in range(dz.size):
        dz[j] += alpha * r[j]


@_compiled("contract")
def _rates(x: Array, r: Array, scalars: Array, dz: Array) -> None:
    """``analytic.rates`` with the residual ``alpha r``."""
    c_v, c_w, k_s, c_s, alpha = scalars[0], scalars[1], scalars[2], scalars[3], scalars[4]
    n = x.shape[1]
    for i in range(3):
        g = scalars[PRIOR] * (G_X if i == 0 else G_Y if i == 1 else G_Z)
        for j in range(n):
            dz[P + i, j] = x[V + i, j]
            dz[V + i, j] = g - c_v * x[V + i, j] / x[M, j]
        for j in range(n):
            dz[W + i, j] = -c_w * x[W + i, j]
            dz[S + i, j] = x[U + i, j]
        for j in range(n):
            dz[U + i, j] = -k_s * (x[S + i, j] - ONE) - c_s * x[U + i, j]
        _add_residual(dz[V + i], r[i], alpha)
        _add_residual(dz[W + i], r[3 + i], alpha)
        _add_residual(dz[U + i], r[6 + i], alpha)
    _spin(x[Q], x[Q + 1], x[Q + 2], x[Q + 3], x[W], x[W + 1], x[W + 2], dz[Q : Q + 4])


@_compiled("contract")
def _spin(
    qw: Array, qx: Array, qy: Array, qz: Array, wx: Array, wy: Array, wz: Array, dq: Array
) -> None:
    """``1/2 q (x) [0, w]``."""
    n = qw.size
    for j in range(n):
        dq[0, j] = HALF * (-qx[j] * wx[j] - qy[j] * wy[j] - qz[j] * wz[j])
    for j in range(n):
        dq[1, j] = HALF * (qw[j] * wx[j] + qy[j] * wz[j] - qz[j] * wy[j])
    for j in range(n):
        dq[2, j] = HALF * (qw[j] * wy[j] - qx[j] * wz[j] + qz[j] * wx[j])
    for j in range(n):
        dq[3, j] = HALF * (qw[j] * wz[j] + qx[j] * wy[j] - qy[j] * wx[j])


@_compiled("contract")
def _stage(
    z: Array, h: np.float32, weight: np.float32, dz: Array, total: Array, out: Array
) -> None:
    """``total += weight dz``, and the next stage's state ``project(z + h dz)``."""
    for i in range(len(dz)):
        for j in range(dz.shape[1]):
            total[i, j] += weight * dz[i, j]
    _move(z, h, dz, out)


@_compiled("contract")
def _move(z: Array, h: np.float32, dz: Array, out: Array) -> None:
    """``project(z + h dz)``; the material was projected at the start and does not change."""
    for i in range(len(dz)):
        for j in range(dz.shape[1]):
            out[i, j] = z[i, j] + h * dz[i, j]
    q0, q1, q2, q3 = out[Q], out[Q + 1], out[Q + 2], out[Q + 3]
    for j in range(q0.size):
        square = q0[j] * q0[j] + q1[j] * q1[j] + q2[j] * q2[j] + q3[j] * q3[j]
        norm = np.float32(math.sqrt(QQ_MIN if square < QQ_MIN else square))
        q0[j] /= norm
        q1[j] /= norm
        q2[j] /= norm
        q3[j] /= norm
    for i in range(S, S + 3):
        for j in range(dz.shape[1]):
            out[i, j] = S_MIN if out[i, j] < S_MIN else out[i, j]


@_compiled()
def _land(z: Array, model: Plain) -> None:
    """``numba_few._floor`` of the rows that meet it."""
    row = np.zeros((1, WIDTH), np.float32)
    for j in range(z.shape[1]):
        radius = abs(z[S + 1, j])
        radius = R_MIN if radius < R_MIN else radius
        if z[V + 1, j] < ZERO and z[P + 1, j] - radius <= ZERO:
            for i in range(DIM):
                row[0, i] = z[i, j]
            _floor(row, model)
            for i in range(DIM):
                z[i, j] = row[0, i]

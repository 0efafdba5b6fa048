"""``resting.rollout_body`` as compiled machine code; every function names what it repeats.

The free substep and the networks are those of ``numba_few``, in float32; contact is computed in
float64, as in the reference. It needs the extra ``newtongs[fast]``.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..state import DIM, StateLike
from ..types import StateTensor, Times
from .backends.numba_few import (
    HALF,
    MU,
    ONE,
    WIDTH,
    ZERO,
    Array,
    E,
    P,
    Plain,
    Q,
    S,
    V,
    W,
    _compiled,
    _network,
    _plain,
    _project,
    _step,
    require_plain,
)  # fmt: skip
from .body import Body, G
from .gaussian_nnd import GaussianNND
from .resting import (
    ITERATIONS,
    SETTLE,
    SLEEP_AFTER,
    SLEEP_SPEED,
    SLEEP_SPIN,
    SOLIDITY,
    SOLVED,
    TOUCH,
    USUAL_SUBSTEP,
    start,
)  # fmt: skip
from .rollout import intervals, substeps

Array64 = npt.NDArray[np.float64]


@torch.no_grad()
def rollout_body_cpu(
    model: GaussianNND,
    z0: StateLike,
    times: Times | Sequence[float],
    body: Body,
    *,
    rest: bool = True,
    topple: bool = True,
) -> StateTensor:
    """States ``(T, 22)``: ``rollout_body``, for a float32 model and state on the CPU."""
    return rollout_bodies_cpu(model, [z0], times, [body], rest=rest, topple=topple)[0]


@torch.no_grad()
def rollout_bodies_cpu(
    model: GaussianNND,
    z0: Sequence[StateLike],
    times: Times | Sequence[float],
    bodies: Sequence[Body],
    *,
    rest: bool = True,
    topple: bool = True,
) -> StateTensor:
    """States ``(K, T, 22)`` of several objects, each with its own shape, in one call."""
    starts = [start(z, body) for z, body in zip(z0, bodies, strict=True)]
    dt = intervals(times)
    n = np.array([substeps(t, model.config.max_dt) for t in dt], np.int64)
    out = torch.empty(len(starts), len(dt) + 1, DIM)
    for k, (z, _) in enumerate(starts):
        require_plain(model, z)
        out[k, 0] = z
    points = np.concatenate([local.numpy() for _, local in starts])
    ends = np.cumsum([0, *(len(local) for _, local in starts)])
    _advance_bodies(out.numpy(), n, np.array(dt) / n, _plain(model), points, ends, rest, topple)
    return out


@_compiled("contract")
def _up(z: Array, up: Array64) -> None:
    """``body.up_in_body``."""
    w, x, y, s = float(z[Q]), float(z[Q + 1]), float(z[Q + 2]), float(z[Q + 3])
    norm = w * w + x * x + y * y + s * s
    up[0] = 2 * (x * y + w * s) / norm
    up[1] = 1 - 2 * (x * x + s * s) / norm
    up[2] = 2 * (y * s - w * x) / norm


@_compiled("contract")
def _depth_below(local: Array64, z: Array) -> float:
    """``body.depth_below``."""
    up = np.empty(3)
    _up(z, up)
    for k in range(3):
        up[k] *= z[S + k]
    low = np.inf
    for i in range(len(local)):
        low = min(low, local[i, 0] * up[0] + local[i, 1] * up[1] + local[i, 2] * up[2])
    return -low


@_compiled("contract")
def _inertia(local: Array64, z: Array) -> Array64:
    """``resting.inertia`` of ``local * s``."""
    C = np.zeros((3, 3))
    for i in range(len(local)):
        for a in range(3):
            for b in range(3):
                C[a, b] += local[i, a] * z[S + a] * local[i, b] * z[S + b] / len(local)
    size = C[0, 0] + C[1, 1] + C[2, 2]
    for a in range(3):
        for b in range(3):
            C[a, b] *= -SOLIDITY
        C[a, a] += SOLIDITY * size + 1e-6 * size + 1e-12
    return C


@_compiled("contract")
def _inverse(m: Array64) -> Array64:
    """Inverse of a symmetric 3 x 3 matrix, by its cofactors."""
    out = np.empty((3, 3))
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        for d in range(3):
            e, f = (d + 1) % 3, (d + 2) % 3
            out[d, a] = m[b, e] * m[c, f] - m[b, f] * m[c, e]
    det = m[0, 0] * out[0, 0] + m[0, 1] * out[1, 0] + m[0, 2] * out[2, 0]
    return out / det


@_compiled("contract")
def _support(v_y: float, w: Array64, n: Array64, room: Array64, inverse: Array64) -> float:
    """``resting.support``; ``w`` is changed in place."""
    K = len(n)
    turn, impulse = np.zeros((K, 3)), np.zeros(K)
    stiffness = np.ones(K)
    for i in range(K):
        for a in range(3):
            for b in range(3):
                turn[i, a] += n[i, b] * inverse[b, a]
            stiffness[i] += n[i, a] * turn[i, a]
    for _ in range(ITERATIONS):
        best, most = 0, 0.0
        for i in range(K):
            rate = v_y + n[i, 0] * w[0] + n[i, 1] * w[1] + n[i, 2] * w[2] + room[i]
            change = max(-rate / stiffness[i], -impulse[i])
            if abs(change) > abs(most):
                best, most = i, change
        if abs(most) < SOLVED:
            break
        impulse[best] += most
        v_y += most
        for a in range(3):
            w[a] += most * turn[best, a]
    return v_y


@_compiled("contract")
def _touch(local: Array64, z: Array, free: Array, h: float, topple: bool) -> bool:
    """``resting.touch``: ``free`` becomes the state in contact, or False and stays."""
    K = len(local)
    up, w, n, room = np.empty(3), np.empty(3), np.empty((K, 3)), np.empty(K)
    _up(z, up)
    for a in range(3):
        w[a] = free[W + a]
    v_y, low, arriving, least = float(free[V + 1]), np.inf, 0.0, np.inf
    for i in range(K):
        x, y, s = local[i, 0] * free[S], local[i, 1] * free[S + 1], local[i, 2] * free[S + 2]
        n[i, 0] = y * up[2] - s * up[1]
        n[i, 1] = s * up[0] - x * up[2]
        n[i, 2] = x * up[1] - y * up[0]
        height = z[P + 1] + x * up[0] + y * up[1] + s * up[2]
        rate = v_y + n[i, 0] * w[0] + n[i, 1] * w[1] + n[i, 2] * w[2]
        room[i] = max(height, 0.0) / h
        least = min(least, rate + room[i])
        if height < low:
            low, arriving = height, -rate
    if low > TOUCH * G * h * h or (v_y < 0 and free[E] * arriving >= SETTLE * G * h) or least >= 0:
        return False
    part, mu = h / USUAL_SUBSTEP, float(free[MU])
    keep, keep_spin = (1 - mu) ** part, (1 - 0.5 * mu) ** part
    for a in range(3):
        w[a] *= keep_spin
    inverse = _inverse(_inertia(local, free)) if topple else np.zeros((3, 3))
    v_y = _support(v_y, w, n, room, inverse)
    v_x, v_z = keep * free[V], keep * free[V + 2]
    _turn(z, w, h, free)
    p_y = z[P + 1] + h * v_y
    free[P], free[P + 1], free[P + 2] = z[P] + h * v_x, p_y, z[P + 2] + h * v_z
    free[V], free[V + 1], free[V + 2] = v_x, v_y, v_z
    for a in range(3):
        free[W + a] = w[a]
    free[P + 1] = max(p_y, _depth_below(local, free))
    return True


@_compiled("contract")
def _turn(z: Array, w: Array64, h: float, out: Array) -> None:
    """``q (x) exp(h w)``, normalised."""
    half = 0.5 * h * math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    c = math.cos(half)
    k = 0.5 * h * (math.sin(half) / half if half > 1e-9 else 1.0)
    x, y, s = k * w[0], k * w[1], k * w[2]
    a, b, d, e = float(z[Q]), float(z[Q + 1]), float(z[Q + 2]), float(z[Q + 3])
    q0, q1 = a * c - b * x - d * y - e * s, a * x + b * c + d * s - e * y
    q2, q3 = a * y - b * s + d * c + e * x, a * s + b * y - d * x + e * c
    norm = math.sqrt(q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3)
    out[Q], out[Q + 1], out[Q + 2], out[Q + 3] = q0 / norm, q1 / norm, q2 / norm, q3 / norm


@_compiled("contract")
def _pay_for_lift(local: Array64, z: Array, radius: float) -> None:
    """``resting.pay_for_lift``, in place."""
    fall = min(float(z[V + 1]), 0.0)
    work = G * (radius - z[P + 1]) - 0.5 * fall * fall
    if work <= 0:
        return
    J, energy = _inertia(local, z), 0.0
    for a in range(3):
        for b in range(3):
            energy += 0.5 * z[W + a] * J[a, b] * z[W + b]
    left = math.sqrt(max(1 - work / max(energy, 1e-12), 0.0))
    for a in range(3):
        z[W + a] *= left


@_compiled("contract")
def _event(model: Plain, local: Array64, row: Array, h: float, rest: bool, topple: bool) -> None:
    """``resting.event`` and ``body.bounce``, in place; ``row`` is ``(1, WIDTH)``."""
    z = row[0]
    radius = np.float32(_depth_below(local, z))
    if z[P + 1] > radius:
        return
    if topple:
        _pay_for_lift(local, z, float(radius))
    depth = max(float(radius) - z[P + 1], 0.0)
    z[P + 1] = radius
    if z[V + 1] >= ZERO:
        return
    speed = math.sqrt(max(float(z[V + 1]) * z[V + 1] - 2 * G * depth, 0.0))
    settles = rest and z[E] * speed < SETTLE * G * h
    z[V] *= ONE - z[MU]
    z[V + 1] = 0.0 if settles else z[E] * speed
    z[V + 2] *= ONE - z[MU]
    for a in range(W, W + 3):
        z[a] *= ONE - HALF * z[MU]
    if settles:
        return
    if model.contact_residual:
        # The network was trained on states that stand on the proxy.
        z[P + 1] = max(abs(z[S + 1]), np.float32(1e-3))
        d = _network(row, model.h_phi)[0]
        for a in range(3):
            z[V + a] += model.alpha_imp * math.tanh(d[a])
            z[W + a] += model.alpha_imp * math.tanh(d[3 + a])
        z[P + 1] = radius
    _project(z)


@_compiled("contract")
def _asleep(local: Array64, z: Array, free: Array) -> None:
    """``resting.asleep``: ``free`` becomes the state that stays."""
    for i in range(P, V):
        free[i] = z[i]
    for i in range(V, S):
        free[i] = ZERO
    free[P + 1] = _depth_below(local, free)


@_compiled("contract")
def _is_slow(z: Array) -> bool:
    """``resting.slow``."""
    v = z[V] * z[V] + z[V + 1] * z[V + 1] + z[V + 2] * z[V + 2]
    w = z[W] * z[W] + z[W + 1] * z[W + 1] + z[W + 2] * z[W + 2]
    return v < SLEEP_SPEED * SLEEP_SPEED and w < SLEEP_SPIN * SLEEP_SPIN


@_compiled()
def _advance_body(
    out: Array,
    n: npt.NDArray[Any],
    h: npt.NDArray[Any],
    model: Plain,
    local: Array64,
    rest: bool,
    topple: bool,
) -> None:
    """``resting.rollout_body`` and ``resting.substep``: fill ``out (T, 22)`` from frame 1 on."""
    z, quiet = np.zeros((1, WIDTH), np.float32), 0.0
    for i in range(DIM):
        z[0, i] = out[0, i]
    for t in range(len(n)):
        for _ in range(n[t]):
            free = _step(z, h[t], model)
            if not model.contact:
                quiet = 0.0
            elif quiet >= SLEEP_AFTER:
                _asleep(local, z[0], free[0])
            elif rest and _touch(local, z[0], free[0], h[t], topple):
                quiet = quiet + h[t] if _is_slow(free[0]) else 0.0
            else:
                _event(model, local, free, h[t], rest, topple)
                quiet = 0.0
            z = free
        for i in range(DIM):
            out[t + 1, i] = z[0, i]


@_compiled()
def _advance_bodies(
    out: Array,
    n: npt.NDArray[Any],
    h: npt.NDArray[Any],
    model: Plain,
    points: Array64,
    ends: npt.NDArray[Any],
    rest: bool,
    topple: bool,
) -> None:
    """Object ``k`` has the points from ``ends[k]`` to ``ends[k + 1]``; fill ``out (K, T, 22)``."""
    for k in range(len(out)):
        _advance_body(out[k], n, h, model, points[ends[k] : ends[k + 1]], rest, topple)

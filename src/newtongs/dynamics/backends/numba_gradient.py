"""The rollout and its gradient on the CPU, without autograd's thousands of small operations.

It has no semantics of its own: what it computes is ``GaussianNND.rollout`` and its gradient, and
parity with them is a test. Matrix products are torch's, all else is compiled; states stand as
columns, ``(22, rows)``. An adjoint has the 19 channels before the material, which comes from the
initial state alone. The contact network sees only the rows that hit the floor.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...state import DIM, project
from ...types import StateTensor, Times
from ..gaussian_nnd import GaussianNND
from ..rollout import intervals, substeps
from ..solvers import SCHEMES
from .numba_few import (
    HALF,
    MU,
    ONE,
    QQ_MIN,
    R_MIN,
    S_MIN,
    ZERO,
    Array,
    E,
    M,
    P,
    Q,
    S,
    U,
    V,
    W,
    _compiled,
    _exp,
)
from .numba_many import MOVING, _move, _rates, _stage, finish


class Columns:
    """A matrix ``(lines, rows)`` as both torch and compiled code read it."""

    def __init__(self, x: Tensor) -> None:
        self.tensor, self.transposed, self.array = x, x.T, x.numpy()

    @classmethod
    def empty(cls, lines: int, rows: int) -> "Columns":
        """With room and no content."""
        return cls(torch.empty(lines, rows))


class Evaluation:
    """A network at one state, as its backward pass needs it."""

    def __init__(self, network: "ColumnNetwork", x: Tensor) -> None:
        rows = x.shape[1]
        self.x = Columns(x)
        self.hidden = [Columns.empty(len(w), rows) for w in network.weights[:-1]]  # before SiLU
        self.r = Columns(torch.zeros(len(network.weights[-1]), rows))  # after the tanh


class Scratch:
    """What a network needs while it is evaluated at so many rows, and nobody afterwards."""

    def __init__(self, network: "ColumnNetwork", rows: int) -> None:
        self.h = [Columns.empty(len(w), rows) for w in network.weights[:-1]]  # after SiLU
        self.d = [Columns.empty(len(w), rows) for w in network.weights]  # gradients before SiLU
        self.gx = Columns.empty(DIM, rows)
        self.moving = self.gx.array[:MOVING]


class ColumnNetwork:
    """A residual network over columns, and the sums of its weights' gradients.

    Its outputs pass through tanh if they are ``bounded``.
    """

    def __init__(self, network: nn.Sequential, *, bounded: bool) -> None:
        self.bounded = bounded
        self.layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        self.weights = [layer.weight.detach() for layer in self.layers]  # views: always current
        self.turned = [w.T for w in self.weights]
        self.biases = [layer.bias.detach().numpy() for layer in self.layers]
        self.w_sums = [torch.zeros_like(w) for w in self.weights]
        self.b_sums = [np.zeros_like(b) for b in self.biases]

    def forward(self, at: Evaluation, room: Scratch) -> None:
        """``at.r = GaussianNND.bounded(network(at.x))``."""
        x = at.x
        for w, b, a, h in zip(self.weights, self.biases, at.hidden, room.h, strict=False):
            torch.mm(w, x.tensor, out=a.tensor)
            _bias_silu_apart(a.array, b, h.array)
            x = h
        torch.mm(self.weights[-1], x.tensor, out=at.r.tensor)
        finish(at.r.array, self.biases[-1], bounded=self.bounded)

    def backward(self, at: Evaluation, room: Scratch) -> None:
        """``room.gx`` from the outputs' ``room.d[-1]``; the weights' gradients go to the sums."""
        for depth in reversed(range(1, len(self.weights))):
            d, below, h = room.d[depth].tensor, room.d[depth - 1], room.h[depth - 1]
            torch.mm(self.turned[depth], d, out=below.tensor)
            _silu_back(at.hidden[depth - 1].array, below.array, h.array, self.b_sums[depth - 1])
            self.w_sums[depth].addmm_(d, h.transposed)
        torch.mm(self.turned[0], room.d[0].tensor, out=room.gx.tensor)
        self.w_sums[0].addmm_(room.d[0].tensor, at.x.transposed)

    def collect(self) -> None:
        """Add the sums to the parameters' gradients and start anew."""
        for layer, w, b in zip(self.layers, self.w_sums, self.b_sums, strict=True):
            for parameter, total in ((layer.weight, w), (layer.bias, torch.from_numpy(b))):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.add_(total)
                total.zero_()


@dataclass
class Landing:
    """The rows that hit the floor in a substep."""

    rows: Any
    before: Array  # (22, hits)
    after: Evaluation


@dataclass
class Substep:
    """What the backward pass needs of a substep."""

    h: float
    stages: list[Evaluation]
    total: Array  # k1 + 2 k2 + 2 k3 + k4
    landing: Landing | None = None


class CompiledRollout:
    """``GaussianNND.rollout`` over a fixed time grid, forward and then backward.

    The record of a rollout stays, so that the next one of as many rows finds its memory: about
    1.1 MB a row.
    """

    def __init__(self, model: GaussianNND, times: Times) -> None:
        self.model, self.config, self.scheme = model, model.config, SCHEMES[model.config.solver]
        limit, bounded = model.config.max_dt, model.config.bounded
        self.f, self.h = (ColumnNetwork(x, bounded=bounded) for x in (model.f_theta, model.h_phi))
        self.steps = [[dt / n] * n for dt in intervals(times) for n in (substeps(dt, limit),)]
        self.scalars = np.zeros(6)  # sums of the coefficients' gradients
        self.tape: list[Substep] = []

    @staticmethod
    def supports(model: GaussianNND) -> bool:
        """Whether this covers the model; a subclass may have other equations."""
        like = model.c_v
        plain = like.dtype == torch.float32 and like.device.type == "cpu"
        return type(model) is GaussianNND and plain

    def _scalars(self) -> Array:
        """What compiled code reads, as ``numba_many.scalars_of`` has it."""
        c = [*self.model.scalars.tolist(), self.config.prior]
        return np.array(c, np.float32)

    def _record(self, rows: int) -> list[Substep]:
        """Room for all substeps of so many rows."""
        if not self.tape or self.tape[0].total.shape[1] != rows:
            self.tape = []  # the old one goes before the new one comes
            self.room = Scratch(self.f, rows)
            for h in (h for hs in self.steps for h in hs):
                count = len(self.scheme.stages) + 1
                stages = [Evaluation(self.f, torch.empty(DIM, rows)) for _ in range(count)]
                self.tape.append(Substep(h, stages, np.empty((MOVING, rows), np.float32)))
        return self.tape

    @torch.no_grad()
    def forward(self, z0: StateTensor) -> StateTensor:
        """States ``(rows, T, 22)`` from float32 ``z0`` (rows, 22)."""
        c = self._scalars()
        z, record = project(z0).T.contiguous().numpy(), iter(self._record(len(z0)))
        frames = [z]
        for substeps_of_frame in self.steps:
            for _ in substeps_of_frame:
                z = self._forward(next(record), z, c)
            frames.append(z)
        return torch.from_numpy(np.stack(frames)).permute(2, 0, 1)

    def _forward(self, s: Substep, z: Array, c: Array) -> Array:
        s.total[:] = 0
        for at in s.stages:
            at.x.array[:] = z  # the material; what moves is overwritten from the second stage on
        pairs = zip(s.stages[:-1], s.stages[1:], self.scheme.stages, strict=True)
        for at, after, (ahead, weight) in pairs:
            self._residual(at)
            step, share = np.float32(ahead * s.h), np.float32(weight)
            _next_stage(z, at.x.array, at.r.array, c, step, share, s.total, after.x.array)
        last, out = s.stages[-1], z.copy()
        self._residual(last)
        step = np.float32(s.h / self.scheme.divisor)
        _last_stage(z, last.x.array, last.r.array, c, step, s.total, out)
        s.landing = self._land(out, c) if self.config.contact else None
        return out

    def _residual(self, at: Evaluation) -> None:
        """The continuous residual at a stage; without one its room holds zeros."""
        if self.config.continuous_residual:
            self.f.forward(at, self.room)

    def _land(self, x: Array, c: Array) -> Landing | None:
        """The floor's answer, written into ``x``."""
        rows = np.flatnonzero(_meets_floor(x))
        if not len(rows):
            return None
        before = np.ascontiguousarray(x[:, rows])
        at = Evaluation(self.h, torch.from_numpy(before.copy()))
        if self.config.prior:
            _jump(at.x.array)
        if self.config.contact_residual:
            self.h.forward(at, Scratch(self.h, len(rows)))
        landed = at.x.array.copy()
        _correct(landed, at.r.array, c[5])
        _move(landed, ZERO, np.zeros((MOVING, len(rows)), np.float32), landed)
        x[:, rows] = landed
        return Landing(rows, before, at)

    @torch.no_grad()
    def backward(self, g_frames: Tensor) -> None:
        """Sum up the gradients, given that of the last rollout's ``(rows, T, 22)``."""
        c = self._scalars()
        given = g_frames.permute(1, 2, 0)[:, :MOVING].contiguous().numpy()
        g = np.zeros_like(given[0])
        ends = [frame for frame, hs in enumerate(self.steps, start=1) for _ in hs]
        last = None
        for s, frame in zip(reversed(self.tape), reversed(ends), strict=True):
            if frame != last:
                g += given[frame]
                last = frame
            g = self._backward(s, g, c)

    def collect(self) -> None:
        """Add the sums to the parameters' gradients and start anew."""
        self.f.collect()
        self.h.collect()
        self.model.scalars.backward(torch.from_numpy(self.scalars).float())
        self.scalars[:] = 0

    def _backward(self, s: Substep, g: Array, c: Array) -> Array:
        """Gradient of a substep's start, given that of its end."""
        if s.landing is not None:
            g = self._land_back(s.landing, g, c)
        room, z, whole = self.room, s.stages[0].x.array, np.float32(s.h / self.scheme.divisor)
        g_z = g.copy()
        _project_back(z, whole, s.total, g_z)
        a = g_sum = whole * g_z
        self._field_back(s.stages[-1], a, c)
        a = np.empty_like(g_sum)
        for at, (ahead, weight) in zip(s.stages[-2::-1], self.scheme.stages[::-1], strict=True):
            step, share, x, r = np.float32(ahead * s.h), np.float32(weight), at.x.array, at.r.array
            _stage_back(z, x, r, c, step, share, room.moving, g_z, g_sum, a)
            self._field_back(at, a, c)
        g_z += room.moving  # the first stage's state is the start itself
        return g_z

    def _field_back(self, at: Evaluation, a: Array, c: Array) -> None:
        """From the gradient ``a`` of a stage's rates to that of its state, in ``room.moving``."""
        room, x, r = self.room, at.x.array, at.r.array
        # Without a residual its outputs' gradient is of no use; the scalars' sums still are.
        b_sum = self.f.b_sums[-1] if self.config.continuous_residual else np.zeros_like(r[:, 0])
        # Where nothing is bounded the tanh's slope is one, which is that of an output of zero.
        slopes_of = r if self.config.bounded else np.zeros_like(r)
        _residual_back(x, slopes_of, a, c, room.d[-1].array, b_sum, self.scalars)
        if not self.config.bounded:
            reached = np.concatenate([a[V : V + 6], a[U : U + 3]])
            self.scalars[4] += float((r * reached).sum(dtype=np.float64))
        if self.config.continuous_residual:
            self.f.backward(at, room)
        else:
            room.moving[:] = 0
        _rates_back(x, a, c, room.moving)

    def _land_back(self, s: Landing, g: Array, c: Array) -> Array:
        """Gradient before the floor's answer."""
        b = np.ascontiguousarray(g[:, s.rows])
        corrected, d = s.after.x.array.copy(), s.after.r.array
        _correct(corrected, d, c[5])
        _project_back(corrected, ZERO, np.zeros_like(b), b)
        if self.config.contact_residual:
            b += self._impulse_back(s.after, b[V : V + 6], c[5])
        if self.config.prior:
            _jump_back(s.before, b)
        g = g.copy()
        g[:, s.rows] = b
        return g

    def _impulse_back(self, at: Evaluation, velocities: Array, alpha: np.float32) -> Array:
        """What the velocities' gradient after a hit gives the state, through the network."""
        d, room = at.r.array, Scratch(self.h, at.x.array.shape[1])
        self.scalars[5] += float((d * velocities).sum(dtype=np.float64))
        slope = ONE - d * d if self.config.bounded else ONE
        room.d[-1].array[:] = alpha * velocities * slope
        self.h.b_sums[-1] += room.d[-1].array.sum(1)
        self.h.backward(at, room)
        return room.moving


# --- compiled from here on ------------------------------------------------------------------------


@_compiled("contract")
def _bias_silu_apart(a: Array, b: Array, out: Array) -> None:
    """``a += b`` and ``out = silu(a)``."""
    for o in range(a.shape[0]):
        line, into, bias = a[o], out[o], b[o]
        for j in range(line.size):
            x = line[j] + bias
            line[j] = x
            into[j] = x / (ONE + _exp(-x))


@_compiled("contract", "reassoc")
def _silu_back(a: Array, g: Array, out: Array, sums: Array) -> None:
    """``out = silu(a)`` and ``g *= silu'(a)``, whose lines are added up in ``sums``."""
    for o in range(a.shape[0]):
        line, slope, into, total = a[o], g[o], out[o], ZERO
        for j in range(line.size):
            sigma = ONE / (ONE + _exp(-line[j]))
            x = line[j] * sigma
            into[j] = x
            y = slope[j] * (sigma + x * (ONE - sigma))
            slope[j] = y
            total += y
        sums[o] += total


@_compiled("contract")
def _next_stage(
    z: Array, x: Array, r: Array, c: Array, h: np.float32, weight: np.float32, total: Array,
    after: Array,
) -> None:  # fmt: skip
    """RK4's stages 1 to 3: add to the sum, and the state of the next stage."""
    dz = np.empty((MOVING, x.shape[1]), np.float32)
    _rates(x, r, c, dz)
    _stage(z, h, weight, dz, total, after)


@_compiled("contract")
def _last_stage(
    z: Array, x: Array, r: Array, c: Array, h: np.float32, total: Array, out: Array
) -> None:
    """RK4's stage 4: the substep's state."""
    dz = np.empty((MOVING, x.shape[1]), np.float32)
    _rates(x, r, c, dz)
    _stage(z, ZERO, ONE, dz, total, out)
    _move(z, h, total, out)


@_compiled("contract")
def _stage_back(
    z: Array, x: Array, r: Array, c: Array, h: np.float32, weight: np.float32, g: Array,
    g_z: Array, g_sum: Array, a: Array,
) -> None:  # fmt: skip
    """From the next stage's gradient ``g`` to the start's and, in ``a``, that of the rates."""
    dz = np.empty((MOVING, x.shape[1]), np.float32)
    _rates(x, r, c, dz)
    _project_back(z, h, dz, g)
    for i in range(MOVING):
        for j in range(x.shape[1]):
            g_z[i, j] += g[i, j]
            a[i, j] = h * g[i, j] + weight * g_sum[i, j]


@_compiled("contract")
def _project_back(z: Array, h: np.float32, dz: Array, g: Array) -> None:
    """Adjoint of ``project(y)`` at ``y = z + h dz``, in place.

    The component along q is lost, unless the norm is at its floor: then it is a constant.
    """
    g0, g1, g2, g3 = g[Q], g[Q + 1], g[Q + 2], g[Q + 3]
    for j in range(g0.size):
        a, b = z[Q, j] + h * dz[Q, j], z[Q + 1, j] + h * dz[Q + 1, j]
        c, d = z[Q + 2, j] + h * dz[Q + 2, j], z[Q + 3, j] + h * dz[Q + 3, j]
        square = a * a + b * b + c * c + d * d
        along = (a * g0[j] + b * g1[j] + c * g2[j] + d * g3[j]) / square
        if not square > QQ_MIN:
            along, square = ZERO, QQ_MIN
        scale = ONE / np.float32(np.sqrt(square))
        g0[j] = (g0[j] - a * along) * scale
        g1[j] = (g1[j] - b * along) * scale
        g2[j] = (g2[j] - c * along) * scale
        g3[j] = (g3[j] - d * along) * scale
    for i in range(S, S + 3):
        for j in range(g0.size):
            if z[i, j] + h * dz[i, j] < S_MIN:
                g[i, j] = ZERO


@_compiled("contract")
def _rates_back(x: Array, a: Array, c: Array, g: Array) -> None:
    """Add to ``g`` the gradient of ``x`` through ``analytic.rates``, given the rates' ``a``."""
    c_v, c_w, k_s, c_s = c[0], c[1], c[2], c[3]
    n = x.shape[1]
    for i in range(3):
        for j in range(n):
            g[V + i, j] += a[P + i, j] - c_v / x[M, j] * a[V + i, j]
        for j in range(n):
            g[W + i, j] -= c_w * a[W + i, j]
            g[S + i, j] -= k_s * a[U + i, j]
        for j in range(n):
            g[U + i, j] += a[S + i, j] - c_s * a[U + i, j]
    for j in range(n):
        a0, a1, a2, a3 = a[Q, j], a[Q + 1, j], a[Q + 2, j], a[Q + 3, j]
        wx, wy, wz = x[W, j], x[W + 1, j], x[W + 2, j]
        g[Q, j] += HALF * (a1 * wx + a2 * wy + a3 * wz)
        g[Q + 1, j] += HALF * (-a0 * wx - a2 * wz + a3 * wy)
        g[Q + 2, j] += HALF * (-a0 * wy + a1 * wz - a3 * wx)
        g[Q + 3, j] += HALF * (-a0 * wz - a1 * wy + a2 * wx)
    for j in range(n):
        a0, a1, a2, a3 = a[Q, j], a[Q + 1, j], a[Q + 2, j], a[Q + 3, j]
        qw, qx, qy, qz = x[Q, j], x[Q + 1, j], x[Q + 2, j], x[Q + 3, j]
        g[W, j] += HALF * (-a0 * qx + a1 * qw + a2 * qz - a3 * qy)
        g[W + 1, j] += HALF * (-a0 * qy - a1 * qz + a2 * qw + a3 * qx)
        g[W + 2, j] += HALF * (-a0 * qz + a1 * qy - a2 * qx + a3 * qw)


@_compiled("contract", "reassoc")
def _product(x: Array, y: Array) -> float:
    """Sum of the products of two lines, in float64."""
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@_compiled("contract", "reassoc")
def _residual_back(
    x: Array, r: Array, a: Array, c: Array, d: Array, b_sum: Array, sums: Any
) -> None:
    """Gradient ``d (9, rows)`` before the residual's tanh, its lines' sums, and the scalars'."""
    n = x.shape[1]
    for i in range(3):
        drag = scale = 0.0
        for j in range(n):
            drag += x[V + i, j] * a[V + i, j] / x[M, j]
            scale += (x[S + i, j] - ONE) * a[U + i, j]
        sums[0] -= drag
        sums[1] -= _product(x[W + i], a[W + i])
        sums[2] -= scale
        sums[3] -= _product(x[U + i], a[U + i])
        for k, start in ((i, V), (3 + i, W), (6 + i, U)):
            sums[4] += _product(r[k], a[start + i])
            line, slope, rates, total = r[k], d[k], a[start + i], ZERO
            for j in range(n):
                y = c[4] * rates[j] * (ONE - line[j] * line[j])
                slope[j] = y
                total += y
            b_sum[k] += total


@_compiled()
def _meets_floor(z: Array) -> Any:
    """``floor.gap(z) <= 0`` ``(rows,)``."""
    out = np.empty(z.shape[1], np.bool_)
    for j in range(z.shape[1]):
        radius = abs(z[S + 1, j])
        radius = R_MIN if radius < R_MIN else radius
        out[j] = z[V + 1, j] < ZERO and z[P + 1, j] - radius <= ZERO
    return out


@_compiled("contract")
def _rebound(z: Array, x: Array) -> None:
    """What the floor makes of velocities in ``x``, by the material in ``z``; its own adjoint."""
    for j in range(z.shape[1]):
        x[V, j] *= ONE - z[MU, j]
        x[V + 1, j] *= -z[E, j]
        x[V + 2, j] *= ONE - z[MU, j]
        for i in range(W, W + 3):
            x[i, j] *= ONE - HALF * z[MU, j]


@_compiled("contract")
def _jump(z: Array) -> None:
    """``floor.jump`` in place."""
    for j in range(z.shape[1]):
        radius = abs(z[S + 1, j])
        z[P + 1, j] = R_MIN if radius < R_MIN else radius
    _rebound(z, z)


@_compiled("contract")
def _jump_back(z: Array, g: Array) -> None:
    """Adjoint of ``floor.jump`` at ``z``, in place. A projected scale is never negative."""
    for j in range(z.shape[1]):
        if z[S + 1, j] >= R_MIN:
            g[S + 1, j] += g[P + 1, j]
        g[P + 1, j] = ZERO
    _rebound(z, g)


@_compiled("contract")
def _correct(z: Array, d: Array, alpha: np.float32) -> None:
    """Add the learned change of the velocities after a hit."""
    for i in range(6):
        for j in range(z.shape[1]):
            z[V + i, j] += alpha * d[i, j]

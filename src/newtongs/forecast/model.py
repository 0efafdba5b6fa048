"""ContextNND: states at any time from the first state and whatever else has been seen.

Not the paper's model, and not a dynamics: it predicts the state directly, without integration.
The track is affine in the initial velocity and spin,

    p(t) = p_0 + v_0 t + g(t) (A(c, t) v_0 + B(c, t)) + weights(c, t) . closed-form tracks,

so that changing them changes the motion as physics would, also beyond the training data. The reader
computes the context c from the observed states, one for each hypothesis.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..base import rotations
from ..base.errors import InputError
from ..base.state import DIM, State, as_tensor, pack, project
from ..base.types import StateTensor, Times, X, Z
from . import reading
from .config import SEEN, ContextConfig
from .dual import Dual, exp, linear, silu, stack
from .tracks import FEATURES, Tracks, clock, onset, tracks

OUTPUTS = {"A": 9, "B": 3, "fall": 2, "drag": 2, "turn": 6, "spin": 6, "scale": 3}
SETTLING = 4.0  # 1/s, decay of an initial scale rate
GROWTH = 30.0  # of a scale's logarithm: beyond it, the scale or its rate overflows float32


class Mixture(NamedTuple):
    """Futures with their probabilities."""

    probability: Tensor  # (B, K)
    states: StateTensor  # (B, K, T, 22)

    def mean(self) -> StateTensor:
        """Minimiser of the expected squared error ``(B, T, 22)``; a blend, not a likely motion."""
        weight = self.probability[..., None, None]
        leading = State(self.likeliest().unsqueeze(1)).q
        x = State(self.states)
        aligned = torch.where((x.q * leading).sum(-1, keepdim=True) < 0, -x.q, x.q)
        blend = State((weight * self.states).sum(1))
        q = rotations.normalize((weight * aligned).sum(1))
        return pack(blend.p, q, blend.v, blend.w, blend.s, blend.u, blend.m, blend.e, blend.mu)

    def likeliest(self) -> StateTensor:
        """The most probable future ``(B, T, 22)``."""
        best = self.probability.argmax(1)
        return self.states[torch.arange(len(best), device=best.device), best]


class ResidualBlock(nn.Module):
    """A residual block of the reader."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` plus the block's output."""
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Decoder(nn.Module):
    """The network evaluated once per time; the context sets its gains and offsets."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        widths = [FEATURES] + [hidden] * layers
        self.hidden = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.out = nn.Linear(hidden, sum(OUTPUTS.values()))
        nn.init.normal_(self.out.weight, std=1e-2)
        nn.init.zeros_(self.out.bias)

    def forward(self, features: Dual, gains: Tensor, offsets: Tensor) -> Dual:
        """Weights of the tracks; gains and offsets are ``(B, K, layers, hidden)``."""
        a = features
        for i, layer in enumerate(self.hidden):
            assert isinstance(layer, nn.Linear)
            a = linear(a, layer.weight).scaled(1 + gains[:, :, i, None])
            a = silu(a.shifted(offsets[:, :, i, None]))
        return linear(a, self.out.weight, self.out.bias)


class ContextNND(nn.Module):
    """Predicts all channels at any time from 1 to 16 observed states.

    ``model(observed, times)`` maps states ``(B, k, 22)`` at 24 Hz, or ``(B, 22)``, to a
    :class:`Mixture` of states at ``times`` in seconds after the first of them.
    """

    def __init__(self, config: ContextConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or ContextConfig()
        self.read = nn.Linear(reading.WIDTH, c.width)
        self.blocks = nn.ModuleList(ResidualBlock(c.width) for _ in range(c.blocks))
        self.norm = nn.LayerNorm(c.width)
        self.logits = nn.Linear(c.width, c.hypotheses)
        self.context = nn.Linear(c.width, c.hypotheses * c.layers * 2 * c.hidden)
        self.decoder = Decoder(c.hidden, c.layers)
        self.register_buffer("mean", torch.zeros(reading.CHANNELS))
        self.register_buffer("std", torch.ones(reading.CHANNELS))
        self.register_buffer("low", torch.full((reading.WIDTH,), -torch.inf))
        self.register_buffer("high", torch.full((reading.WIDTH,), torch.inf))
        self.mean: Tensor
        self.std: Tensor
        self.low: Tensor
        self.high: Tensor

    def standardise(self, states: StateTensor) -> None:
        """Set the input statistics and the range of the readings from sequences ``(N, T, 22)``."""
        if states.shape[1] < SEEN:
            raise InputError(f"states: expected at least {SEEN} frames, got {states.shape[1]}")
        mean, std = reading.statistics(states[:, 0])
        self.mean.copy_(mean)
        self.std.copy_(std)
        seen = torch.full((len(states),), SEEN, device=states.device)
        found = reading.reading(states[:, :SEEN], seen, self.mean, self.std)
        count = slice(reading.WIDTH - SEEN, None)  # marks, not measurements
        for bound, values in ((self.low, found.amin(0)), (self.high, found.amax(0))):
            bound.copy_(values)
        self.low[count], self.high[count] = 0.0, 1.0

    def readings(self, observed: StateTensor, seen: Tensor, rates: Tensor | None = None) -> Tensor:
        """Reader input ``(B, WIDTH)`` of observed states, clamped to the range of the training.

        Speeds beyond that range still enter through the tracks, which use velocity and spin
        unclamped.
        """
        x = reading.reading(observed, seen, self.mean, self.std, rates)
        return torch.maximum(torch.minimum(x, self.high), self.low)

    def contexts(self, readings: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits ``(B, K)``, gains and offsets ``(B, K, layers, hidden)``."""
        x = self.read(readings)
        for block in self.blocks:
            x = block(x)
        x = nn.functional.silu(self.norm(x))
        c = self.config
        shape = (c.hypotheses, c.layers, 2, c.hidden)
        gains, offsets = self.context(x).unflatten(-1, shape).unbind(-2)
        return self.logits(x), gains, offsets

    def futures(
        self, z0: StateTensor, times: Tensor, gains: Tensor, offsets: Tensor
    ) -> StateTensor:
        """States ``(B, K, T, 22)``; every future starts at ``z0 (B, 22)``."""
        track = tracks(z0.unsqueeze(1), times)
        weights = self.decoder(track.features, gains, offsets)
        return assemble(z0.unsqueeze(1), times, track, weights)

    def forward(
        self,
        observed: StateTensor,
        times: Times | Sequence[float],
        *,
        seen: Tensor | int | None = None,
    ) -> Mixture:
        """Predict the states at ``times``.

        Args:
            observed: states ``(B, k, 22)`` at 24 Hz, k up to 16, or first states ``(B, 22)``.
            times: ``(T,)`` seconds; the first observed state is at the first of them.
            seen: how many of the states count, one number or ``(B,)``; all by default.
        """
        observed, seen = prepared(as_tensor(observed, "observed"), seen)
        elapsed = torch.as_tensor(times).to(observed)
        logits, gains, offsets = self.contexts(self.readings(observed, seen))
        states = self.futures(observed[:, 0], elapsed - elapsed[0], gains, offsets)
        return Mixture(torch.softmax(logits, -1), states)

    def likeliest(
        self,
        observed: StateTensor,
        times: Times | Sequence[float],
        *,
        seen: Tensor | int | None = None,
    ) -> StateTensor:
        """The likeliest future ``(B, T, 22)``: ``self(...).likeliest()`` with less work."""
        observed, seen = prepared(as_tensor(observed, "observed"), seen)
        elapsed = torch.as_tensor(times).to(observed)
        logits, gains, offsets = self.contexts(self.readings(observed, seen))
        best = logits.argmax(-1)[:, None, None, None].expand(-1, 1, *gains.shape[2:])
        return self.futures(
            observed[:, 0], elapsed - elapsed[0], gains.gather(1, best), offsets.gather(1, best)
        )[:, 0]

    @property
    def like(self) -> Tensor:
        """A tensor with the dtype and device that states must have."""
        return self.mean

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return ", ".join(f"{k}={v!r}" for k, v in asdict(self.config).items())


def prepared(observed: Tensor, seen: Tensor | int | None) -> tuple[StateTensor, Tensor]:
    """Projected states ``(B, k, 22)``, k up to 16, and how many of them count ``(B,)``."""
    if observed.dim() == 2:
        observed = observed.unsqueeze(1)
    if observed.dim() != 3 or observed.shape[-1] != DIM or not observed.shape[1] >= 1:
        raise InputError(
            f"observed: expected states (B, k, {DIM}) or (B, {DIM}), got {tuple(observed.shape)}"
        )
    observed = observed[:, :SEEN]
    most = observed.shape[1]
    count = most if seen is None else seen
    if not torch.compiler.is_compiling():
        for n in (count.amin(), count.amax()) if isinstance(count, Tensor) else (count,):
            if not 1 <= int(n) <= most:
                raise InputError(f"seen: expected 1 to {most} states, got {int(n)}")
    return project(observed), torch.as_tensor(count, device=observed.device).expand(len(observed))


def assemble(z0: StateTensor, times: Tensor, track: Tracks, weights: Dual) -> StateTensor:
    """States ``(B, K, T, 22)`` from the decoder's output, channel by channel."""
    x, t = State(z0.unsqueeze(-2)), clock(times)
    out = dict(zip(OUTPUTS, _split(weights), strict=True))
    start = onset(times)
    late = start.times(t)
    p = _position(x, t, late, start, track, out)
    turned = Dual(*(part.unflatten(-1, (2, 3)) for part in out["spin"]))
    w = x.w + start.x[:, None] * (turned.x[..., 0, :] * x.w + turned.x[..., 1, :])
    q = rotations.multiply(x.q.expand(*w.shape[:-1], 4), rotations.exp(t.x[:, None] * w))
    fade = t.times(exp(t.scaled(-SETTLING))).unsqueeze(-1).scaled(x.u / x.s)
    growth = fade.plus(late.unsqueeze(-1).times(out["scale"]))
    s = exp(Dual(growth.x.clamp(-GROWTH, GROWTH), growth.dx))
    shape = w.shape[:-1]
    constant = [part.expand(*shape, 1) for part in (x.m, x.e, x.mu)]
    return pack(p.x, q, p.dx, w, x.s * s.x, x.s * s.dx, *constant)


def _split(weights: Dual) -> list[Dual]:
    sizes = list(OUTPUTS.values())
    return [Dual(*pair) for pair in zip(weights.x.split(sizes, -1), weights.dx.split(sizes, -1),
                                        strict=True)]  # fmt: skip


def _position(
    x: State, t: Dual, late: Dual, start: Dual, track: Tracks, out: dict[str, Dual]
) -> Dual:
    """Position and, as its derivative, velocity ``(B, K, T, 3)``."""
    v = x.v
    matrix = Dual(*(part.unflatten(-1, (3, 3)) for part in out["A"]))
    a = Dual(*((part * v.unsqueeze(-2)).sum(-1) for part in matrix))
    learned = late.unsqueeze(-1).times(a.plus(out["B"]))
    turn = Dual(*(part.unflatten(-1, (3, 2)) for part in out["turn"]))
    swing = start.unsqueeze(-1).unsqueeze(-1).times(track.turn.unsqueeze(-2)).times(turn)
    swing = Dual(swing.x.sum(-1), swing.dx.sum(-1))
    fall = track.bounce.times(out["fall"].at(0)).plus(track.rest.times(out["fall"].at(1)))
    slow_x = track.drag.times(out["drag"].at(0)).scaled(v[..., X])
    slow_z = track.drag.times(out["drag"].at(1)).scaled(v[..., Z])
    known = stack([slow_x, fall, slow_z])
    straight = t.unsqueeze(-1).scaled(v).shifted(x.p)
    return straight.plus(learned).plus(swing).plus(known)

"""Map an object of any size and place to what ContextNND knows, and its prediction back.

The model was trained on objects of scale 0.18 to 0.36 that start within two units of the origin,
above a floor at zero, under a gravity of 9.81, and knows nothing else. For an object of another
size, lengths are scaled to the nearest trained size and times by its square root, which leaves
gravity unchanged. If it starts farther away, its start is moved to x = z = 0. Heights are measured
from the floor. The initial orientation is factored out, since training had none. Within the trained
sizes and places nothing changes: State-32's sequences are read as they are.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.state import CHANNELS, State, pack, project, require_simulable
from ..base.types import StateTensor, Times, Vec3
from ..dynamics.rollout import check_initial
from .config import RATE, SEEN
from .model import ContextNND

SIZES = (0.18, 0.36)  # scales of the objects in training
TARGETS = (0.2, 0.27, 0.34)  # sizes to try
HEIGHTS = (2.0, 3.3)  # heights to try for a flying object: it may be a throw from higher up
PLAIN = 2.0  # how much better another mapping must fit the observed states
FARTHEST_START = 2.0  # distance from the origin
CLOSING = 0.15  # s, to blend from the last observed state into the prediction


@dataclass(frozen=True)
class Fitting:
    """The mapping of one object to the model's units."""

    size: float
    """World units per model unit."""
    start: Vec3
    """The world point ``(3,)`` that the model has at x = z = 0 on the floor."""
    turn: Tensor
    """Orientation of the first state ``(4,)``."""

    @classmethod
    def of(cls, z0: StateTensor, *, floor: float = 0.0) -> "Fitting":
        """The mapping for an object that starts as ``z0 (22,)`` above a floor at that height."""
        x = State(z0)
        mean = float(x.s.mean())
        size = mean / min(max(mean, SIZES[0]), SIZES[1])
        near = bool((x.p[::2].abs() <= FARTHEST_START * size).all())
        start = torch.tensor(
            [0.0 if near else float(x.p[0]), floor, 0.0 if near else float(x.p[2])]
        )
        return cls(size, start.to(z0), x.q)

    @classmethod
    def others(cls, z0: StateTensor, *, floor: float = 0.0) -> "list[Fitting]":
        """Alternative mappings of the same object: other sizes, at the origin, higher up."""
        x = State(z0)
        middle = [float(x.p[0]), 0.0, float(x.p[2])]
        found = []
        for target in TARGETS:
            size = float(x.s.mean()) / target
            for height in (None, *HEIGHTS):
                down = floor if height is None else float(x.p[1]) - size * height
                start = torch.tensor([middle[0], down, middle[2]]).to(z0)
                found.append(cls(size, start, x.q))
        return found

    @property
    def pace(self) -> float:
        """World seconds per model second."""
        return math.sqrt(self.size)

    def to_model(self, z: StateTensor) -> StateTensor:
        """World states ``(T, 22)`` in the model's units; spins about the world's axes."""
        x, size, speed = State(z), self.size, self.size / self.pace
        away = rotations.conjugate(self.turn).expand_as(x.q)
        return pack(
            p=(x.p - self.start) / size, q=rotations.multiply(x.q, away), v=x.v / speed,
            w=rotations.rotate(x.q, x.w) * self.pace, s=x.s / size, u=x.u / speed,
            m=x.m, e=x.e, mu=x.mu,
        )  # fmt: skip

    def to_world(self, z: StateTensor) -> StateTensor:
        """The model's states ``(T, 22)`` in the world."""
        x, size, speed = State(z), self.size, self.size / self.pace
        q = rotations.multiply(x.q, self.turn.expand_as(x.q))
        w = rotations.rotate(rotations.conjugate(q), x.w) / self.pace
        return pack(
            p=size * x.p + self.start, q=q, v=speed * x.v, w=w, s=size * x.s, u=speed * x.u,
            m=x.m, e=x.e, mu=x.mu,
        )  # fmt: skip


class Guess(NamedTuple):
    """A prediction, and how well it fits the observed states."""

    misfit: float  # mean distance to the observed positions, in world units
    states: StateTensor  # (T, 22)


def predict(model: ContextNND, z0: StateTensor, times: Times, *, floor: float = 0.0) -> StateTensor:
    """The likeliest motion ``(T, 22)`` of an object that starts as ``z0 (22,)``."""
    return predict_many(model, z0.unsqueeze(0), times, floor=floor)[0]


@torch.no_grad()
def predict_many(
    model: ContextNND, z0: StateTensor, times: Times, *, floor: float = 0.0
) -> StateTensor:
    """The same ``(N, T, 22)`` for many starts ``(N, 22)`` of one object.

    All have the first one's pose and size; velocities, spins and materials may differ.
    """
    z0 = project(check_initial(z0).double())
    fit = Fitting.of(z0[0], floor=floor)
    read = fit.to_model(z0).unsqueeze(1)
    elapsed = torch.cat([torch.zeros(1).double(), times.double()]) / fit.pace
    found = model.likeliest(read.to(model.like), elapsed.to(model.like))
    return _bounded(fit.to_world(found[:, 1:].double()))


@torch.no_grad()
def continued(
    model: ContextNND, observed: StateTensor, at: Times, times: Times, *, floor: float = 0.0
) -> Guess:
    """States ``(T, 22)`` at ``times``: observed up to the last one, then predicted.

    The model knows motions from their beginning. So it predicts from the first states of the track,
    and from the last ones as if the motion began there; the better fit to the track's end wins.

    Args:
        model: in float32.
        observed: states ``(k, 22)``.
        at: their times ``(k,)``, increasing.
        times: ``(T,)`` seconds; those before the last observed time are interpolated.
        floor: height of the floor.
    """
    require_simulable(observed, "track")
    z, at, times = observed.double(), at.double(), times.double()
    if not bool((State(z).s > 0).all()):
        raise InputError("a track's scales must be above zero")
    if len(z) != len(at) or not bool((at.diff() > 0).all()):
        raise InputError("a track needs one time for each state, in increasing order")
    recent = at >= at[-1] - (SEEN - 1) / RATE * Fitting.of(z[-1]).pace - 1e-9
    after = times > at[-1] + 1e-9
    ahead = torch.cat([at[-1:], times[after]])
    guesses = [_best(model, z[part], at[part], ahead, floor) for part in (at >= at[0], recent)]
    best = min(guesses, key=lambda guess: guess.misfit)
    seen = interpolated(z, at, times[~after])
    joined = _joined(best.states, z[-1], ahead - at[-1])
    return Guess(best.misfit, _bounded(torch.cat([seen, joined[1:]])))


def _bounded(states: StateTensor) -> StateTensor:
    """Check that the states ``(..., T, 22)`` are finite."""
    wrong = torch.nonzero(~torch.isfinite(states).flatten(0, -2).all(0))
    if len(wrong):
        raise InputError(
            f"the prediction's {CHANNELS[int(wrong[0])]} is not finite; the model was trained "
            "only on objects of everyday sizes and speeds"
        )
    return states


def _joined(future: StateTensor, last: StateTensor, since: Times) -> StateTensor:
    """Blend from the last observed state into a prediction that starts beside it."""
    future = future.clone()
    x, fade = State(future), torch.exp(-since / CLOSING).unsqueeze(-1)
    gap = State(last).p - x.p[:1]
    x.p.add_(fade * gap)
    x.v.add_(-fade / CLOSING * gap)
    return future


def _best(model: ContextNND, z: StateTensor, at: Times, times: Times, floor: float) -> Guess:
    """The likeliest motion after states ``(k, 22)``, of which the first sixteen frames are read.

    With three states or more, if the prediction does not even pass through the observed states,
    alternative mappings are tried too.
    """
    fits = [Fitting.of(z[0], floor=floor)]
    if len(z) >= 3:
        fits += Fitting.others(z[0], floor=floor)
    plain, *others = (_guess(model, fit, z, at, times) for fit in fits)
    other = min(others, key=lambda guess: guess.misfit, default=plain)
    return other if other.misfit < plain.misfit / PLAIN else plain


def _guess(model: ContextNND, fit: Fitting, z: StateTensor, at: Times, times: Times) -> Guess:
    """The prediction of one mapping, checked against the last sixteen states."""
    frames = int((float(at[-1] - at[0]) / fit.pace) * RATE + 1e-3) + 1
    shown = at[0] + torch.arange(min(frames, SEEN)).double() / RATE * fit.pace
    read = fit.to_model(interpolated(z, at, shown))
    elapsed = torch.cat([at, times.double()]) - float(at[0])
    found = model.likeliest(read.unsqueeze(0).to(model.like), (elapsed / fit.pace).to(model.like))
    world = fit.to_world(found[0].double())
    error = (State(world[: len(at)]).p - State(z).p)[-SEEN:]
    return Guess(float(torch.linalg.vector_norm(error, dim=-1).mean()), world[len(at) :])


def interpolated(z: StateTensor, at: Times, times: Times) -> StateTensor:
    """Interpolated states ``(T, 22)``: every channel linear, orientations normalised."""
    if len(z) == 1:
        return z.expand(len(times), -1).clone()
    i = torch.searchsorted(at.contiguous(), times.contiguous(), right=True)
    i = i.clamp(1, len(at) - 1)
    share = ((times - at[i - 1]) / (at[i] - at[i - 1])).clamp(0, 1).unsqueeze(-1).to(z)
    a, b = z[i - 1], z[i]
    flipped = (State(a).q * State(b).q).sum(-1, keepdim=True) < 0
    b = torch.where(flipped, pack_flipped(b), b)
    between = torch.lerp(a, b, share)
    State(between).q.copy_(rotations.normalize(State(between).q))
    return between


def pack_flipped(z: StateTensor) -> StateTensor:
    """The same states with the opposite quaternion of each rotation."""
    z = z.clone()
    State(z).q.neg_()
    return z

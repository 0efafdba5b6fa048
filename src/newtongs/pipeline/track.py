"""Tracks that an object follows: a named motion of State-32, or a prediction."""

import math

import torch

from .. import motions
from ..base import rotations
from ..base.state import State, replace
from ..base.types import StateTensor, Times
from ..dynamics.floor import support_radius
from ..physics.bodies import Track

RATE = 24.0  # Hz, of the named motions


def _motion(name: str, size: float, seconds: float, seed: int) -> StateTensor:
    """States ``(T, 22)`` of a named motion at 24 Hz, for an object of mean scale ``size``."""
    frames = max(math.ceil(seconds * RATE) + 1, 4)
    z = motions.generate(name, 1, seed=seed, frames=frames).states[0].double()
    factor = size / State(z).s[0].mean()
    x = State(z)
    return replace(z, p=factor * x.p, v=factor * x.v, s=factor * x.s, u=factor * x.u)


def clearance(name: str, size: float, seed: int) -> float:
    """Height above the floor at which a motion begins."""
    z = _motion(name, size, 0.2, seed)[0]
    return max(float(State(z).p[1] - support_radius(z)), 0.0)


def named_track(name: str, z0: StateTensor, seconds: float, seed: int) -> Track:
    """A motion of State-32, moved to the object's pose and scaled to its size."""
    start = State(z0.double())
    z = _motion(name, start.s.mean().item(), seconds, seed)
    x = State(z)
    turn = rotations.multiply(x.q, rotations.conjugate(x.q[:1]).expand_as(x.q))
    states = replace(
        z,
        p=start.p + x.p - x.p[0],
        q=rotations.multiply(turn, start.q.expand_as(turn)),
        s=start.s * x.s / x.s[0],
        u=start.s * x.u / x.s[0],
        m=start.m, e=start.e, mu=start.mu,
    )  # fmt: skip
    return Track(torch.arange(len(z), dtype=torch.float64) / RATE, states)


def predicted_track(z0: StateTensor, seconds: float) -> Track:
    """ContextNND's prediction from an object's first state, over the floor at zero."""
    from ..forecast import load_pretrained_context
    from ..forecast.fitting import predict

    frames = max(math.ceil(seconds * RATE) + 1, 2)
    times = torch.arange(frames, dtype=torch.float64) / RATE
    return Track(times, predict(load_pretrained_context(), z0.double(), times))


def predicted_paths(z0: StateTensor, times: Times) -> StateTensor:
    """Predictions ``(N, T, 22)`` at ``times`` from many first states ``(N, 22)`` of an object."""
    from ..forecast import load_pretrained_context
    from ..forecast.fitting import predict_many

    return predict_many(load_pretrained_context(), z0, times)

"""The five analytic baselines of Appendix C.

Each is a function ``(z0 (B, 22), times (T,)) -> (B, T, 22)``. None sees a motion label or a
future state. The two stepped ones take one semi-implicit Euler step per frame.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import unknown_name
from ..base.state import SCALE_FLOOR, State, pack, project
from ..base.types import StateTensor, Times
from . import floor
from .analytic import Coefficients, linear_acceleration, scale_acceleration
from .rollout import check_initial, intervals, rollout

Predictor = Callable[[StateTensor, Times], StateTensor]

DAMPING = 0.35


def hold_z0(z0: StateTensor, times: Times) -> StateTensor:
    """Repeat all 22 initial channels."""
    z0 = project(check_initial(z0))
    return z0.unsqueeze(-2).expand(*z0.shape[:-1], len(intervals(times)) + 1, -1)


def const_vel_se3(z0: StateTensor, times: Times) -> StateTensor:
    """Extrapolate position, orientation and scale with their initial rates."""
    z0 = check_initial(z0)
    t = _elapsed(times, z0)
    return _extrapolate(z0, reach=t, remaining=torch.ones_like(t))


def damped_vel_se3(z0: StateTensor, times: Times) -> StateTensor:
    """The same with rates that decay as ``d(t) = exp(-0.35 t)``."""
    z0 = check_initial(z0)
    d = torch.exp(-DAMPING * _elapsed(times, z0))
    return _extrapolate(z0, reach=(1 - d) / DAMPING, remaining=d)


def _elapsed(times: Times, z0: StateTensor) -> Tensor:
    """Time since the first frame ``(T, 1)``, on the device of ``z0``."""
    steps = torch.tensor([0.0, *intervals(times)], dtype=torch.float64)
    return steps.cumsum(0).to(z0).unsqueeze(-1)


def _extrapolate(z0: StateTensor, reach: Tensor, remaining: Tensor) -> StateTensor:
    """Constant rates over ``reach`` seconds, then scaled by ``remaining``; both ``(T, 1)``."""
    x = State(project(z0).unsqueeze(-2))
    shape = (*z0.shape[:-1], len(reach), -1)
    turn = rotations.from_axis_angle(
        x.w.expand(shape), (reach * torch.linalg.vector_norm(x.w, dim=-1, keepdim=True)).squeeze(-1)
    )
    return pack(
        p=x.p + reach * x.v,
        q=rotations.multiply(x.q, turn),
        v=x.v * remaining,
        w=x.w * remaining,
        s=(x.s + reach * x.u).clamp_min(SCALE_FLOOR),
        u=x.u * remaining,
        m=x.m.expand(shape),
        e=x.e.expand(shape),
        mu=x.mu.expand(shape),
    )


def _semi_implicit(z: StateTensor, h: float, c: Coefficients, restore_scale: bool) -> StateTensor:
    """Velocities first, then what they move; the scale is updated before the contact test."""
    x = State(z)
    v = x.v + h * linear_acceleration(z, c)
    w = max(0.0, 1 - float(c.c_w) * h) * x.w
    turn = rotations.from_axis_angle(w, h * torch.linalg.vector_norm(w, dim=-1))
    u = x.u + h * scale_acceleration(z, c) if restore_scale else x.u
    return pack(
        p=x.p + h * v,
        q=rotations.multiply(x.q, turn),
        v=v,
        w=w,
        s=(x.s + h * u).clamp_min(SCALE_FLOOR),
        u=u,
        m=x.m,
        e=x.e,
        mu=x.mu,
    )


def gravity_bounce_se3(z0: StateTensor, times: Times) -> StateTensor:
    """Gravity and the analytic floor response, no damping, constant scale rate."""
    step = partial(_semi_implicit, c=Coefficients(c_v=0.0, c_w=0.0), restore_scale=False)
    return rollout(z0, times, step, gap=floor.gap, jump=floor.jump)


def physics_prior_se3(z0: StateTensor, times: Times) -> StateTensor:
    """Gravity, damping, scale restoration and the analytic floor response."""
    step = partial(_semi_implicit, c=Coefficients(), restore_scale=True)
    return rollout(z0, times, step, gap=floor.gap, jump=floor.jump)


BASELINES: dict[str, Predictor] = {
    "hold_z0": hold_z0,
    "const_vel_se3": const_vel_se3,
    "damped_vel_se3": damped_vel_se3,
    "gravity_bounce_se3": gravity_bounce_se3,
    "physics_prior_se3": physics_prior_se3,
}


def get_baseline(name: str) -> Predictor:
    """The baseline called ``name``."""
    if name not in BASELINES:
        raise unknown_name("baseline", name, BASELINES)
    return BASELINES[name]

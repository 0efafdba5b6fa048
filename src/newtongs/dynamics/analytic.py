"""Continuous Newtonian terms of Gaussian-NND (Eq. 4 without its residuals)."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ..base import rotations
from ..base.state import State, pack
from ..base.types import GRAVITY, StateTensor, Vec3, Y

G = -GRAVITY[Y]  # the paper's gravity


@dataclass(frozen=True)
class Coefficients:
    """Effective, non-negative coefficients: plain numbers or learned scalars."""

    c_v: Tensor | float = 0.05  # linear damping
    c_w: Tensor | float = 0.05  # angular damping
    k_s: Tensor | float = 0.25  # scale restoration towards 1
    c_s: Tensor | float = 0.08  # scale-rate damping
    g: float = G  # gravity


@cache
def _gravity(dtype: torch.dtype, device: torch.device, g: float) -> Tensor:
    return torch.tensor((0.0, -g, 0.0), dtype=dtype, device=device)


def linear_acceleration(z: StateTensor, c: Coefficients) -> Vec3:
    """``g - c_v v / m``."""
    x = State(z)
    return _gravity(z.dtype, z.device, c.g) - c.c_v * x.v / x.m


def scale_acceleration(z: StateTensor, c: Coefficients) -> Vec3:
    """``-k_s (s - 1) - c_s u``."""
    x = State(z)
    return -c.k_s * (x.s - 1) - c.c_s * x.u


def rates(z: StateTensor, c: Coefficients) -> StateTensor:
    """Time derivative of every channel; the material channels do not change."""
    x = State(z)
    still = torch.zeros_like(x.m)
    return pack(
        p=x.v,
        q=rotations.derivative(x.q, x.w),
        v=linear_acceleration(z, c),
        w=-c.c_w * x.w,
        s=x.u,
        u=scale_acceleration(z, c),
        m=still,
        e=still,
        mu=still,
    )


def kinematics(z: StateTensor) -> StateTensor:
    """What the definition of the state implies: ``p' = v``, ``q' = 1/2 q (x) [0, w]``, ``s' = u``.

    Velocities do not change.
    """
    x = State(z)
    zero3, zero1 = torch.zeros_like(x.p), torch.zeros_like(x.m)
    q = rotations.derivative(x.q, x.w)
    return pack(p=x.v, q=q, v=zero3, w=zero3, s=x.u, u=zero3, m=zero1, e=zero1, mu=zero1)


def correction(r_v: Vec3, r_w: Vec3, r_s: Vec3) -> StateTensor:
    """Residual accelerations in the channels they correct, zero in the others."""
    zero3 = torch.zeros_like(r_v)
    zero1 = zero3[..., :1]
    return pack(
        p=zero3, q=torch.cat([zero1, zero3], -1), v=r_v, w=r_w, s=zero3, u=r_s,
        m=zero1, e=zero1, mu=zero1,
    )  # fmt: skip

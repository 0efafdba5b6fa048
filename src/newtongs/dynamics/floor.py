"""Contact with the horizontal floor y = 0: detection and response."""

import torch
from torch import Tensor

from ..base.state import State, pack
from ..base.types import StateTensor, Y

RADIUS_FLOOR = 1e-3


def support_radius(z: StateTensor) -> Tensor:
    """Proxy vertical extent ``r_y = max(|s_y|, 1e-3)``, shape ``(...)``."""
    return State(z).s[..., Y].abs().clamp_min(RADIUS_FLOOR)


def gap(z: StateTensor) -> Tensor:
    """Height of the lowest point above the floor, shape ``(...)``; contact where it is <= 0.

    An object that does not move downwards cannot hit the floor: its gap is infinite.
    """
    x = State(z)
    height = x.p[..., Y] - support_radius(z)
    return torch.where(x.v[..., Y] < 0, height, torch.inf)


def jump(z: StateTensor) -> StateTensor:
    """Analytic response: restitution ``e``, attenuation ``mu``; other channels are copied.

    ``p_y = r_y``, ``v_y -> -e v_y``, ``(v_x, v_z) -> (1 - mu) (v_x, v_z)``,
    ``w -> (1 - mu / 2) w``.
    """
    x = State(z)
    p_x, _, p_z = x.p.unbind(-1)
    v_x, v_y, v_z = x.v.unbind(-1)
    e, keep = x.e.squeeze(-1), 1 - x.mu.squeeze(-1)
    return pack(
        p=torch.stack([p_x, support_radius(z), p_z], -1),
        q=x.q,
        v=torch.stack([keep * v_x, -e * v_y, keep * v_z], -1),
        w=(1 - 0.5 * x.mu) * x.w,
        s=x.s,
        u=x.u,
        m=x.m,
        e=x.e,
        mu=x.mu,
    )

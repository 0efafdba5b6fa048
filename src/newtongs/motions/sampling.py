"""Initial draws of the hard profile: the sampling ranges of the paper and who starts in the air."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

Range = tuple[float, float]

NUMBERS_PER_OBJECT = 16


@dataclass(frozen=True)
class Ranges:
    """Uniform sampling intervals of the initial values (the paper's sampling table)."""

    position: Range = (-0.8, 0.8)  # p_x, p_z
    horizontal: Range = (-3.2, 3.2)  # v_x, v_z
    vertical: Range = (0.4, 4.8)  # v_y, before a class rule
    angular: Range = (-4.0, 4.0)  # each component of omega
    scale: Range = (0.18, 0.36)  # each component of s
    mass: Range = (0.45, 3.625)
    restitution: Range = (0.35, 0.96)
    attenuation: Range = (0.12, 0.75)
    lift: Range = (0.0, 0.45)  # added to the class height of airborne classes
    clearance: Range = (0.0, 0.04)  # added to the support of all others
    support: float = 1.0  # p_0y = support * s_0y + clearance when not airborne


IN_DISTRIBUTION = Ranges()

# The velocity-range shift: 1.6 times the limits, the lower vertical bound excepted.
VELOCITY_SHIFT = replace(
    IN_DISTRIBUTION, horizontal=(-5.12, 5.12), vertical=(0.4, 7.68), angular=(-6.4, 6.4)
)


@dataclass(frozen=True)
class Draw:
    """Initial values of ``N`` objects, components first so that they read like the paper.

    ``p, v, w, s`` have shape ``(3, N, 1)`` and unpack as ``x, y, z = draw.p``; the scalars
    ``m, e, mu`` have shape ``(N, 1)``. Against times of shape ``(T,)`` everything broadcasts to
    ``(3, N, T)`` and ``(N, T)``.
    """

    p: Tensor
    v: Tensor
    w: Tensor
    s: Tensor
    m: Tensor
    e: Tensor
    mu: Tensor

    @property
    def s_bar(self) -> Tensor:
        """Mean of the three scale components ``(N, 1)``."""
        return self.s.mean(0)

    @property
    def y_f(self) -> Tensor:
        """Support height of the expanded generators, ``max(0.5 s_0y, 0.04)``, ``(N, 1)``."""
        return (0.5 * self.s[1]).clamp_min(0.04)

    def vec(self, x: Tensor | float, y: Tensor | float, z: Tensor | float) -> Tensor:
        """Three components, tensors or plain numbers, broadcast to one ``(3, ., .)`` vector."""
        one = self.m.new_ones(1, 1)
        return torch.stack(torch.broadcast_tensors(*(one * c for c in (x, y, z))))


def draw(uniforms: Tensor, ranges: Ranges, height: float | None) -> Draw:
    """Initial values from numbers in [0, 1) of shape ``(N, 16)``.

    ``height`` is the class height of an airborne family, None on the floor.
    """
    u = uniforms.T.unsqueeze(-1).contiguous()

    def uniform(rows: slice, interval: Range) -> Tensor:
        low, high = interval
        return low + (high - low) * u[rows]

    p = uniform(slice(0, 3), ranges.position)
    v = uniform(slice(3, 6), ranges.horizontal)
    v[1] = uniform(slice(4, 5), ranges.vertical)[0]
    s = uniform(slice(9, 12), ranges.scale)
    if height is None:
        p[1] = ranges.support * s[1] + uniform(slice(15, 16), ranges.clearance)[0]
    else:
        p[1] = height + uniform(slice(15, 16), ranges.lift)[0]
    return Draw(
        p=p,
        v=v,
        w=uniform(slice(6, 9), ranges.angular),
        s=s,
        m=uniform(slice(12, 13), ranges.mass)[0],
        e=uniform(slice(13, 14), ranges.restitution)[0],
        mu=uniform(slice(14, 15), ranges.attenuation)[0],
    )

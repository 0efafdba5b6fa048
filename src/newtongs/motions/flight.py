"""Expanded flight and ballistic families (Appendix B, third generator table)."""

import math

import torch
from torch import Tensor, cos, exp, sin

from .operators import Path, ballistic, centered, first_hit, forward, stop_floor
from .registry import family
from .sampling import Draw


@family("free_fall", "ballistic", height=3.4)
def free_fall(z: Draw, t: Tensor) -> Path:
    """Dropped with a little sideways drift; stops dead on the floor."""
    p, v = ballistic(z, t, z.vec(0.25 * z.v[0], 0.0, 0.18 * z.v[2]))
    p, v, events = stop_floor(z, p, v)
    return Path(p, v, events=events)


@family("airplane_flight", "flight", height=2.3)
def airplane_flight(z: Draw, t: Tensor) -> Path:
    """Cruising along x with a gentle weave."""
    u = 1.6 + 0.35 * z.v[0].abs()
    p = z.vec(
        z.p[0] + u * t,
        z.p[1] + 0.18 * sin(2 * math.pi * t / t[-1]),
        z.p[2] + 0.38 * sin(1.6 * t),
    )
    return Path(p, forward(p, t), w=z.vec(0.0, 0.35, 0.0))


@family("helical_flight", "flight", height=2.0)
def helical_flight(z: Draw, t: Tensor) -> Path:
    """A climbing helix."""
    r, w = 0.72 + 0.20 * z.s_bar, 2.3 + 0.25 * z.w[1].abs()
    p = z.vec(
        z.p[0] + r * cos(w * t),
        z.p[1] + 0.28 * t + 0.16 * sin(1.7 * w * t),
        z.p[2] + r * sin(w * t),
    )
    return Path(p, forward(p, t), w=z.vec(0.25, w, 0.10))


@family("figure_eight_flight", "flight", height=1.9)
def figure_eight_flight(z: Draw, t: Tensor) -> Path:
    """A lying figure eight."""
    a, w = 0.95 + 0.15 * z.s_bar, 1.95 + 0.2 * z.w[1].abs()
    p = z.vec(
        z.p[0] + a * sin(w * t),
        z.p[1] + 0.20 * sin(0.7 * w * t + 0.4),
        z.p[2] + 0.55 * a * sin(2 * w * t),
    )
    return Path(p, centered(p, t), w=z.vec(0.18 * cos(w * t), 0.45, 0.22 * sin(1.4 * w * t)))


@family("spiral_orbit_decay", "orbit", height=1.7)
def spiral_orbit_decay(z: Draw, t: Tensor) -> Path:
    """An orbit that winds in from radius 1.25 to 0.35."""
    w = 2.55 + 0.25 * z.w[1].abs()
    r = torch.linspace(1.25, 0.35, len(t), dtype=t.dtype, device=t.device)
    p = z.vec(
        z.p[0] + r * cos(w * t),
        z.p[1] + 0.16 * sin(1.2 * w * t),
        z.p[2] + r * sin(w * t),
    )
    return Path(p, centered(p, t), w=z.vec(0.10, w, 0.18))


@family("throw_and_land", "ballistic", height=1.2)
def throw_and_land(z: Draw, t: Tensor) -> Path:
    """Thrown, then sliding on after landing; the slide adds to the stored positions."""
    launch = z.vec(1.15 + 0.3 * z.v[0], z.v[1].abs() + 3.4, 0.55 * z.v[2])
    p, v, events = stop_floor(z, *ballistic(z, t, launch))
    landed, first = first_hit(events.collision)
    tau = (t - (first * t).sum(-1, keepdim=True)) * landed
    slide = z.vec(launch[0], 0.0, launch[2]) * exp(-2.2 * z.mu * tau)
    return Path(p + tau * slide, torch.where(landed, slide, v), events=events)


@family("vertical_launch", "ballistic", height=0.8)
def vertical_launch(z: Draw, t: Tensor) -> Path:
    """Shot upwards, stops where it comes down."""
    launch = z.vec(0.15 * z.v[0], 4.2 + z.v[1].abs(), 0.12 * z.v[2])
    p, v, events = stop_floor(z, *ballistic(z, t, launch))
    return Path(p, v, w=z.vec(0.35, 0.10, 0.20), events=events)


@family("tumbling_fall", "ballistic", height=3.0)
def tumbling_fall(z: Draw, t: Tensor) -> Path:
    """Falling while spinning fast about all three axes."""
    launch = z.vec(0.45 * z.v[0], 0.25 * z.v[1].abs(), 0.35 * z.v[2])
    p, v, events = stop_floor(z, *ballistic(z, t, launch))
    spin = z.vec(3.2 + 0.5 * sin(2 * t), 2.2 + 0.4 * cos(1.7 * t), 2.6 + 0.45 * sin(2.4 * t))
    return Path(p, v, w=z.w + spin, events=events)

"""The remaining expanded families (Appendix B, fourth generator table)."""

import torch
from torch import Tensor, cos, exp, sin

from ..base.types import GRAVITY
from .operators import Events, Path, centered, floor, length, march, wall
from .registry import family
from .sampling import Draw


@family("damped_bouncing", "collision")
def damped_bouncing(z: Draw, t: Tensor) -> Path:
    """Bouncing with a restitution that fades by 0.76 at every hit."""
    p = z.vec(z.p[0], z.p[1].maximum(z.y_f + 1.55), z.p[2])
    v = z.vec(0.75 * z.v[0] + 0.7, z.v[1].abs() + 2.2, 0.45 * z.v[2])
    e_b = z.e.clamp(0.25, 0.85)
    keep = 1 - 0.45 * z.mu

    def bounce(p: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Events]:
        nonlocal e_b
        p, v, event = floor(z, p, v, height=z.y_f, keep=(keep, keep), e=e_b)
        hit = event.collision
        e_b = torch.where(hit, 0.76 * e_b, e_b)
        settled = hit & (v[1].abs() < 0.22)
        return p, z.vec(v[0], torch.where(settled, 0.0, v[1]), v[2]), event

    p, v, events = march(t, p, v, lambda t, p, v: z.vec(*GRAVITY), bounce)
    w = z.w + z.vec(0.35 * sin(4 * t), 0.20 * cos(2.6 * t), 0.50 * sin(3.2 * t))
    return Path(p, v, w=w, events=events)


@family("rolling_then_collision", "collision")
def rolling_then_collision(z: Draw, t: Tensor) -> Path:
    """Rolling into a wall at x = 1.2."""
    h = t[1] - t[0]
    d = z.vec(1.0, 0.0, 0.18)
    p = z.vec(-1.65, z.p[1], z.p[2])
    p, v, events = march(
        t, p, (1.65 + 0.25 * z.v[0].abs()) * d / length(d),
        lambda t, p, v: torch.zeros_like(v),
        lambda p, v: wall(z, p, v, at=1.2, v_z=v[2] + 0.35),
        damping=(1 - 0.55 * z.mu * h).clamp_min(0),
    )  # fmt: skip
    spin = length(v) / z.s_bar.clamp_min(1e-3)
    return Path(p, v, w=z.vec(0.0, 0.0, spin), events=events)


@family("sliding_then_stop", "friction")
def sliding_then_stop(z: Draw, t: Tensor) -> Path:
    """Sliding to a stop.

    The distance is the paper's formula to the letter: its cap is the parabola's own summit, so
    the position comes back after the stop while the velocity stays zero.
    """
    d = z.vec(1.0, 0.0, -0.28)
    d = d / length(d)
    u_0, a = 1.8 + 0.4 * z.v[0].abs(), (1.4 * 9.81 * z.mu).clamp_min(0.35)
    u = (u_0 - a * t).clamp_min(0)
    distance = (u_0 * t - 0.5 * a * t**2).clamp_min(0).minimum(u_0**2 / (2 * a))
    return Path(p=z.p + distance * d, v=u * d, w=z.vec(0.0, 0.0, 0.0))


@family("wind_drag_projectile", "ballistic", height=1.4)
def wind_drag_projectile(z: Draw, t: Tensor) -> Path:
    """Thrown into a wind with quadratic drag, rebounding weakly."""
    v = z.vec(1.55 + 0.25 * z.v[0], z.v[1].abs() + 2.6, 0.55 + 0.15 * z.v[2])
    wind = z.vec(0.65, 0.0, 0.35)
    d = 0.20 + 0.08 * z.mu

    def accelerate(t: Tensor, p: Tensor, v: Tensor) -> Tensor:
        air = v - wind
        drag = d * length(air).clamp_max(8) * air / z.m.clamp_min(1e-4)
        return z.vec(*GRAVITY) + (0.25 + 0.15 * sin(2.4 * t)) * wind - drag

    p, v, events = march(
        t, z.p, v, accelerate,
        lambda p, v: floor(z, p, v, height=z.y_f, keep=(1 - z.mu, 1 - z.mu), rebound=0.25),
    )  # fmt: skip
    w = z.w + z.vec(0.4 * sin(2 * t), 0.3 * cos(1.7 * t), 0.4 * sin(2.5 * t + 0.4))
    return Path(p, v, w=w, events=events)


@family("spring_oscillation", "oscillation", height=1.5)
def spring_oscillation(z: Draw, t: Tensor) -> Path:
    """A damped spring about an anchor 0.2 above the start, three axes out of phase."""
    anchor = z.p + z.vec(0.0, 0.2, 0.0)
    swing = z.vec(0.85 * sin(4.2 * t), 0.42 * sin(4.2 * t + 0.8), 0.38 * sin(4.2 * t + 1.6))
    p = anchor + exp(-0.35 * t) * swing
    w = z.vec(0.35 * sin(4.2 * t), 0.25 * cos(4.2 * t), 0.30 * sin(2.94 * t))
    return Path(p, centered(p, t), w=w)


@family("stop_and_go_motion", "switching")
def stop_and_go_motion(z: Draw, t: Tensor) -> Path:
    """Moving during the first half of each of three periods, standing in the other."""
    h, last = t[1] - t[0], len(t) - 1
    # sin(2 pi t_k / P) > 0 with P = t_last / 3. Where t_k is a whole number of half periods the
    # sine is zero and float32 rounding decides: up at full periods (frame 0 excepted), down at
    # half ones. Whole frames say the same on every device; the paper's figures need it.
    k = torch.arange(last + 1, device=t.device)
    go = (k > 0) & (2 * (3 * k % last) < last)
    u = (1.25 + 0.25 * sin(3.5 * t)) * go
    d = z.vec(1.0, 0.0, 0.35)
    v = u * d / length(d)
    return Path(p=z.p + h * v.cumsum(-1), v=v, w=z.vec(0.0, 0.0, u))


@family("two_stage_motion", "switching")
def two_stage_motion(z: Draw, t: Tensor) -> Path:
    """A straight run, then an orbit about a centre beside its last point."""
    split = len(t) // 2
    straight = z.p + t[:split] * z.vec(1.05, 0.0, 0.25)
    x, y, w = straight[..., -1:]
    tau = t[split:] - t[split]
    orbit = z.vec(
        x + 0.55 * sin(2.4 * tau), y + 0.12 * sin(3.6 * tau), w + 0.55 + 0.55 * cos(2.4 * tau)
    )
    p = torch.cat([straight, orbit], dim=-1)
    second = torch.arange(len(t), device=t.device) >= split
    spin = torch.where(second, z.vec(0.35, 2.4, 0.18), z.vec(0.0, 0.25, 0.0))
    return Path(p, centered(p, t), w=spin)


@family("banked_airplane_turn", "flight", height=2.1)
def banked_airplane_turn(z: Draw, t: Tensor) -> Path:
    """A turn of radius 1.1, banking as it goes."""
    r, w = 1.10, 1.65
    p = z.vec(
        z.p[0] + r * sin(w * t),
        z.p[1] + 0.16 * sin(0.8 * w * t),
        z.p[2] + r * (1 - cos(w * t)),
    )
    return Path(p, centered(p, t), w=z.vec(0.55 * sin(w * t), w, -0.45 * sin(w * t)))


@family("orbit_with_precession", "orbit", height=1.6)
def orbit_with_precession(z: Draw, t: Tensor) -> Path:
    """A tilted orbit whose plane turns."""
    r, w, nu = 0.95, 2.15, 0.55
    p = z.vec(
        z.p[0] + r * cos(w * t) * cos(nu * t),
        z.p[1] + 0.42 * sin(w * t),
        z.p[2] + r * sin(w * t) + 0.35 * sin(nu * t),
    )
    return Path(p, centered(p, t), w=z.vec(0.20 * sin(nu * t), w, 0.25 * cos(nu * t)))


@family("scale_pulse", "deformation")
def scale_pulse(z: Draw, t: Tensor) -> Path:
    """Almost in place, pulsing on all three axes."""
    p = z.p + z.vec(0.12 * sin(1.5 * t), 0.0, 0.10 * cos(1.2 * t))
    factor = z.vec(1 + 0.38 * sin(4 * t), 1 + 0.28 * sin(4 * t + 1.2), 1 + 0.33 * cos(3.2 * t))
    return Path(p, centered(p, t), w=z.vec(0.10, 0.45, 0.15), s=z.s * factor.clamp_min(0.35))

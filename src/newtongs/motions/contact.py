"""Base families with stopping or collision events (Appendix B, second generator table)."""

from torch import Tensor, cos, sin

from ..base.types import GRAVITY
from .operators import Contact, Path, floor, length, march, wall
from .registry import family
from .sampling import Draw


def _planar_bounce(z: Draw) -> Contact:
    """Floor contact at ``s_0y`` that keeps ``1 - mu`` of the horizontal velocity."""
    return lambda p, v: floor(z, p, v, height=z.s[1], keep=(1 - z.mu, 1 - z.mu))


@family("bouncing_on_plane", "collision")
def bouncing_on_plane(z: Draw, t: Tensor) -> Path:
    """Bouncing along the floor in a swaying wind."""
    p = z.vec(z.p[0], z.p[1].maximum(z.s[1] + 0.35), z.p[2])
    v = z.vec(z.v[0] + 1.4, z.v[1].abs() + 2, z.v[2] - 1.2)

    def accelerate(t: Tensor, p: Tensor, v: Tensor) -> Tensor:
        return z.vec(0.8 * sin(3.4 * t), GRAVITY[1], 0.6 * cos(2.1 * t))

    p, v, events = march(t, p, v, accelerate, _planar_bounce(z))
    return Path(p, v, events=events)


@family("object_wall_collision", "collision")
def object_wall_collision(z: Draw, t: Tensor) -> Path:
    """Flung at a wall at x = 1.1 under a gravity of 2, with no floor."""
    p = z.vec(-1.8, z.p[1], z.p[2])
    v = z.vec(z.v[0].abs() + 2.2, 0.2, 0.8)
    p, v, events = march(
        t, p, v,
        lambda t, p, v: z.vec(0.0, -2.0, 0.0),
        lambda p, v: wall(z, p, v, at=1.1, v_z=(1 - z.mu) * v[2]),
    )  # fmt: skip
    return Path(p, v, events=events)


@family("rolling_with_friction", "friction")
def rolling_with_friction(z: Draw, t: Tensor) -> Path:
    """Rolling under friction; the distance is the literal parabola, cut at zero."""
    d = z.vec(1.0, 0.0, 0.3)
    d = d / length(d)
    u_0, a = z.v[0].abs() + 2, 1.35 * 9.81 * z.mu
    distance = (u_0 * t - 0.5 * a * t**2).clamp_min(0)
    u = (u_0 - a * t).clamp_min(0)
    x, _, w = z.p + distance * d
    return Path(p=z.vec(x, z.s[1], w), v=u * d, w=z.vec(0.0, 0.0, u / z.s_bar))


@family("hybrid_collision_impulse", "collision")
def hybrid_collision_impulse(z: Draw, t: Tensor) -> Path:
    """Thrown at a floor and a wall at x = 1.25, which also kicks it sideways."""
    p = z.vec(z.p[0], z.p[1].maximum(z.s[1] + 0.45), z.p[2])
    v = z.vec(z.v[0].abs() + 1.8, z.v[1].abs() + 2.8, z.v[2])

    def accelerate(t: Tensor, p: Tensor, v: Tensor) -> Tensor:
        return z.vec(0.45 * sin(5 * t), GRAVITY[1], 0.35 * cos(3 * t))

    p, v, events = march(
        t, p, v, accelerate,
        lambda p, v: floor(z, p, v, height=z.s[1], keep=(1 - z.mu, 1 - 0.5 * z.mu)),
        lambda p, v: wall(z, p, v, at=1.25, v_z=v[2] + 0.6),
    )  # fmt: skip
    w = z.vec(0.7 * sin(3 * t), z.w[1].abs() + 1, 0.4 * cos(2.1 * t))
    return Path(p, v, w=w, events=events)


@family("nonlinear_force_field", "force field", height=1.8)
def nonlinear_force_field(z: Draw, t: Tensor) -> Path:
    """A spring-like field with position-dependent forcing, quadratic drag and a floor."""

    def accelerate(t: Tensor, p: Tensor, v: Tensor) -> Tensor:
        x, y, w = p
        spring = z.vec(-1.15 * x, -0.2 * (y - 1), -1.05 * w)
        forcing = z.vec(0.85 * sin(3.2 * t + w), -2.2, 0.85 * cos(2.7 * t + x))
        return spring + forcing - 0.18 * length(v).clamp_max(8) * v

    p, v, events = march(t, z.p, z.v, accelerate, _planar_bounce(z))
    factor = z.vec(1 + 0.18 * sin(3.7 * t), 1 + 0.15 * cos(2.9 * t), 1 + 0.12 * sin(4.5 * t + 0.2))
    w = z.w + z.vec(0.5 * sin(2 * t), 0.5 * cos(1.5 * t), 0.4 * sin(2.8 * t))
    return Path(p, v, w=w, s=z.s * factor.clamp_min(0.5), events=events)

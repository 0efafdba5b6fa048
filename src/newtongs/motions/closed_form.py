"""Closed-form families of the base corpus (Appendix B, first generator table)."""

import math

import torch
from torch import Tensor, cos, exp, sin

from .operators import Path, ballistic, centered
from .registry import family
from .sampling import Draw


@family("3d_uniform_motion", "translation")
def uniform_motion(z: Draw, t: Tensor) -> Path:
    """Constant velocity."""
    return Path(p=z.p + t * z.v, v=z.v)


@family("3d_acceleration_gravity", "ballistic", height=1.9)
def acceleration_gravity(z: Draw, t: Tensor) -> Path:
    """A time-varying acceleration with weakened gravity; both sums include frame 0."""
    h = t[1] - t[0]
    a = z.vec(
        0.45 + 0.95 * sin(2.3 * t),
        -4.2 + 1.2 * cos(1.7 * t),
        0.30 + 0.80 * sin(3.1 * t + 0.4),
    )
    v = z.v + h * a.cumsum(-1)
    return Path(p=z.p + h * v.cumsum(-1), v=v)


@family("projectile_motion", "ballistic", height=1.8)
def projectile_motion(z: Draw, t: Tensor) -> Path:
    """Free flight that no floor stops, launched upwards with at least 2.2."""
    v_x, v_y, v_z = z.v
    p, v = ballistic(z, t, z.vec(v_x, v_y.clamp_min(2.2), v_z))
    return Path(p, v)


@family("circular_orbital_motion", "orbit", height=1.6)
def circular_orbital_motion(z: Draw, t: Tensor) -> Path:
    """An orbit about the origin whose radius breathes."""
    r = 0.9 + z.s_bar
    w = 1.2 + z.w[1].abs()
    rho = r * (1 + 0.22 * sin(2.1 * t))
    p = z.vec(rho * cos(w * t), z.p[1] + 0.35 * sin(0.5 * w * t), rho * sin(w * t))
    return Path(p, centered(p, t), w=z.vec(0.35 * sin(2 * t), w, 0.25 * cos(1.5 * t)))


@family("3d_rotation", "rotation")
def rotation(z: Draw, t: Tensor) -> Path:
    """Spinning in place."""
    return Path(p=z.p, v=torch.zeros_like(z.v), w=z.w + z.vec(0.0, 1.5, 0.0))


@family("pendulum_damped_oscillation", "oscillation", height=1.8)
def pendulum_damped_oscillation(z: Draw, t: Tensor) -> Path:
    """A damped elliptic swing with a steady sideways sway."""
    decay = exp(-0.22 * t)
    swing = z.vec(
        1.15 * decay * cos(4.2 * t), 0.45 * decay * sin(4.2 * t), 0.35 * sin(7.14 * t + 0.3)
    )
    p = z.p + swing
    return Path(p, centered(p, t), w=z.vec(0.0, 0.0, 4.2 * decay))


@family("slope_sliding", "friction")
def slope_sliding(z: Draw, t: Tensor) -> Path:
    """Along a 22-degree slope against friction."""
    theta = math.radians(22)
    a = 9.81 * math.sin(theta) - 9.81 * z.mu * math.cos(theta)
    d = z.v[0] * t + 0.5 * a * t**2
    p = z.vec(z.p[0] + d * math.cos(theta), z.s[1] + d * math.sin(theta), z.p[2])
    return Path(p, centered(p, t))


@family("size_changing", "deformation")
def size_changing(z: Draw, t: Tensor) -> Path:
    """Drifting while each axis grows and shrinks at its own pace."""
    p = z.p + 0.75 * t * z.v
    factor = z.vec(
        1 + 0.32 * sin(3.1 * t), 1 + 0.28 * cos(2.3 * t + 0.4), 1 + 0.24 * sin(4.5 * t + 0.2)
    )
    return Path(p, centered(p, t), s=z.s * factor.clamp_min(0.35))


@family("non_rigid_deformation", "deformation")
def non_rigid_deformation(z: Draw, t: Tensor) -> Path:
    """Drifting while squashing and stretching; aggregate anisotropic scale only."""
    p = z.p + 0.65 * t * z.v
    a = 1 + 0.42 * sin(5 * t)
    factor = z.vec(a, 1 / a.clamp_min(0.2), 1 + 0.18 * cos(4 * t))
    return Path(p, centered(p, t), s=z.s * factor)

"""An object's true shape at the floor, beside the paper's proxy ``|s_y|``.

A :class:`Body` is a set of extreme points: where a convex object touches the floor, one of them
does. They follow the object by the paper's map ``A_t = R_t diag(rho) R_0^T``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import rotations
from ..errors import InputError
from ..state import State, StateLike, as_tensor, project, replace, require_finite
from ..types import GRAVITY, StateTensor, Vec3, Y
from . import floor
from .gaussian_nnd import GaussianNND

G = -GRAVITY[Y]
DIRECTIONS = 512  # in which the extreme points are looked for: one every 9 degrees
MOST_POINTS = 300
SIGMAS = 1.5  # how far a Gaussian reaches; beyond, it is too faint to be seen as a surface
OPAQUE = 0.3
OUTLIERS = 1e-3
CHUNK = 32  # directions at a time, to keep 60,000 Gaussians within some 10 MB


@dataclass(frozen=True, eq=False)
class Body:
    """Extreme points ``(K, 3)`` relative to the object's centre, in its initial orientation."""

    points: Vec3

    def __post_init__(self) -> None:
        x = as_tensor(self.points, "points").double()
        if x.dim() != 2 or x.shape[-1] != 3 or not len(x):
            raise InputError(f"points: expected shape (K, 3) with K >= 1, got {tuple(x.shape)}")
        require_finite(x, "points")
        object.__setattr__(self, "points", x)

    @classmethod
    def of_points(cls, points: StateLike, center: StateLike | None = None) -> "Body":
        """The extreme ones of points ``(N, 3)``; ``center`` is the object's ``p``, default zero."""
        x = as_tensor(points, "points").double()
        if x.dim() != 2 or x.shape[-1] != 3 or not len(x):
            raise InputError(f"points: expected shape (N, 3) with N >= 1, got {tuple(x.shape)}")
        d = directions(DIRECTIONS).to(x)
        found = torch.cat([(x @ part.mT).argmax(0) for part in d.split(CHUNK)])
        return cls(_few(x[found.unique()]) - _center(center, x))

    @classmethod
    def of_gaussians(
        cls,
        means: Vec3,
        quats: Tensor,
        scales: Vec3,
        opacities: Tensor,
        center: StateLike | None = None,
        *,
        sigmas: float = SIGMAS,
        opaque: float = OPAQUE,
        outliers: float = OUTLIERS,
    ) -> "Body":
        """The extreme points of an object's Gaussians.

        Args:
            means: ``(N, 3)`` in the physics frame.
            quats: their rotations ``(N, 4)``.
            scales: standard deviations ``(N, 3)`` along the rotated axes.
            opacities: ``(N,)``.
            center: the object's ``p`` ``(3,)``, in the same coordinates; default zero.
            sigmas: how many standard deviations a Gaussian reaches.
            opaque: fainter ones are air, unless all are.
            outliers: fraction of the Gaussians that may stick out in a direction: captured objects
                have floaters around them.
        """
        kept = opacities >= opaque
        kept = kept if kept.any() else torch.ones_like(kept)
        if not len(kept):
            raise InputError("an object without Gaussians has no shape; select at least one")
        x = means[kept].double()
        axes = rotations.to_matrix(quats[kept].double()) * scales[kept].double().unsqueeze(-2)
        d = directions(DIRECTIONS).to(x)
        rank = math.floor(outliers * len(x)) + 1
        found = torch.cat([_supports(x, axes, part, sigmas, rank) for part in d.split(CHUNK)])
        if rank > 1:
            found = _clipped(found, x.median(0).values, d)
        return cls(_few(found) - _center(center, x))

    @property
    def radius(self) -> float:
        """Distance of the farthest point from the centre."""
        return float(torch.linalg.vector_norm(self.points, dim=-1).max())

    def local(self, z0: StateLike) -> Vec3:
        """The points ``(K, 3)`` in the axes of ``z0``, in multiples of its scale, float64.

        At a later state ``z`` the object's points are ``p + R(q) (s * local)``.
        """
        x = State(project(as_tensor(z0, "z0").double()))
        return rotations.rotate(rotations.conjugate(x.q), self.points) / x.s

    def lowest(self, z0: StateLike, z: StateLike) -> Tensor:
        """How far the lowest point lies below the centre at states ``z`` ``(..., 22)``, float64."""
        return depth_below(self.local(z0), as_tensor(z, "z"))

    def height(self, z0: StateLike, z: StateLike) -> Tensor:
        """Height of the lowest point above the floor at states ``z`` ``(..., 22)``, float64."""
        z = as_tensor(z, "z")
        return State(z).p[..., Y].double() - self.lowest(z0, z)


def directions(n: int) -> Vec3:
    """``n`` unit vectors ``(n, 3)`` spread evenly (a Fibonacci spiral), and the six axes."""
    i = torch.arange(n, dtype=torch.float64) + 0.5
    y, turn = 1 - 2 * i / n, math.pi * (1 + math.sqrt(5)) * i
    r = (1 - y * y).sqrt()
    axes = torch.eye(3, dtype=torch.float64)
    return torch.cat([axes, -axes, torch.stack([r * turn.cos(), y, r * turn.sin()], -1)])


def _supports(x: Vec3, axes: Tensor, d: Vec3, sigmas: float, rank: int) -> Vec3:
    """The ``rank``-th farthest surface point in each direction ``d (D, 3)``: ``(D, 3)``."""
    along = torch.einsum("nji,dj->dni", axes, d)  # sqrt(Sigma) d, in the Gaussian's own axes
    reach = torch.linalg.vector_norm(along, dim=-1)
    best = (d @ x.mT + sigmas * reach).topk(rank, dim=-1).indices[:, -1]
    row = torch.arange(len(d))
    push = torch.einsum("dij,dj->di", axes[best], along[row, best])
    return x[best] + sigmas * push / reach[row, best].clamp_min(1e-30).unsqueeze(-1)


def _clipped(x: Vec3, inside: Vec3, d: Vec3) -> Vec3:
    """Points ``(D, 3)`` drawn in to where each direction's own point ends.

    A floater passed over in the directions where it sticks out is found again in those across.
    """
    x = x - inside
    end = (x * d).sum(-1).clamp_min(1e-9)
    return inside + x / (x @ d.mT / end).amax(-1, keepdim=True).clamp_min(1)


def _few(x: Vec3) -> Vec3:
    """At most ``MOST_POINTS`` of the points, the extreme ones in as many directions."""
    x = x.unique(dim=0)
    if len(x) <= MOST_POINTS:
        return x
    return x[(x @ directions(MOST_POINTS - 6).to(x).mT).argmax(0).unique()]


def _center(center: StateLike | None, like: Tensor) -> Tensor:
    return like.new_zeros(3) if center is None else as_tensor(center, "center").to(like)


def up_in_body(q: Tensor) -> Vec3:
    """The world's up ``(..., 3)`` in the object's axes: the second row of ``R(q)``, float64."""
    return rotations.to_matrix(rotations.normalize(q.double()))[..., Y, :]


def depth_below(local: Vec3, z: StateTensor) -> Tensor:
    """Distance ``(...)`` from the centre down to the lowest of the points, float64.

    A point's height is its product with the up direction, both in the object's axes; so the scale
    goes to the direction, and no point is turned.
    """
    x = State(z)
    return -((up_in_body(x.q) * x.s.double()) @ local.mT).amin(-1)


def body_gap(body: Body, z0: StateLike) -> Callable[[StateTensor], Tensor]:
    """``floor.gap`` with the true lowest point, for ``dynamics.rollout``."""
    local = body.local(z0)

    def gap(z: StateTensor) -> Tensor:
        x = State(z)
        height = (x.p[..., Y].double() - depth_below(local, z)).to(z.dtype)
        return torch.where(x.v[..., Y] < 0, height, torch.inf)

    return gap


def body_jump(
    body: Body, z0: StateLike, model: GaussianNND | None = None
) -> Callable[[StateTensor], StateTensor]:
    """``floor.jump``, or that of ``model`` with its correction, with the true lowest point."""
    local = body.local(z0)
    return lambda z: bounce(local, z, model)


def bounce(local: Vec3, z: StateTensor, model: GaussianNND | None = None) -> StateTensor:
    """The paper's response of a state found at or below the floor, its lowest point put on it.

    One thing differs: the speed that is reflected is the one at the plane, ``v^2 - 2 g depth``, not
    the one reached below it. Together with the lift the latter would add energy at every hit, up to
    6 % in speed for a drop of half a unit.
    """
    x = State(z)
    radius = depth_below(local, z).to(z.dtype)
    p = torch.stack([x.p[..., 0], radius, x.p[..., 2]], -1)
    v = torch.stack([x.v[..., 0], -speed_at_plane(z, radius), x.v[..., 2]], -1)
    jumped = (floor.jump if model is None else model.jump)(replace(z, v=v))
    return replace(jumped, p=p)


def speed_at_plane(z: StateTensor, radius: Tensor) -> Tensor:
    """How fast a falling object was when its lowest point passed the floor ``(...)``."""
    x = State(z)
    depth = (radius - x.p[..., Y]).clamp_min(0)
    return (x.v[..., Y].square() - 2 * G * depth).clamp_min(0).sqrt()

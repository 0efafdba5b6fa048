"""Surfaces that objects can touch under the paper's response: the floor, planes, boxes.

The paper defines the floor y = 0. Any other plane has the floor's response in its own frame, in
which its normal points up and it lies at height zero. A box responds like the plane through its
point nearest to the object's centre.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.state import State, replace
from ..base.types import Quat, StateTensor, Vec3
from . import floor
from .rollout import landed

Vector: TypeAlias = tuple[float, float, float]
Response: TypeAlias = Callable[[StateTensor], StateTensor]


class Surface(Protocol):
    """Something that states ``(..., 22)`` can touch."""

    def gap(self, z: StateTensor) -> Tensor:
        """Distance ``(...)`` to the surface; contact where it is <= 0, infinite moving away."""
        ...

    def jump(self, z: StateTensor, response: Response) -> StateTensor:
        """The states after contact; ``response`` is the model's response to the floor y = 0."""
        ...


class Floor:
    """The plane y = 0, bit for bit the paper's arithmetic."""

    def gap(self, z: StateTensor) -> Tensor:
        """Height of the lowest point, see :func:`newtongs.dynamics.floor.gap`."""
        return floor.gap(z)

    def jump(self, z: StateTensor, response: Response) -> StateTensor:
        """The response itself."""
        return response(z)


@dataclass(frozen=True)
class Plane:
    """The half-space ``normal . x <= offset`` is solid: a floor, a ramp, a wall."""

    normal: Vector
    """Direction away from the solid side; any length above zero."""
    offset: float
    """Distance of the plane from the origin along the normal, in physics units."""

    def __post_init__(self) -> None:
        normal = checked_vector(self.normal, "a plane's normal")
        length = math.hypot(*normal)
        if not length > 0:
            raise InputError("a plane's normal must not be zero, got 0 0 0; a floor's is 0 1 0")
        if not math.isfinite(self.offset):
            raise InputError(f"a plane's offset must be a finite number, got {self.offset}")
        x, y, z = (c / length for c in normal)
        object.__setattr__(self, "normal", (x, y, z))
        object.__setattr__(self, "offset", float(self.offset))

    def gap(self, z: StateTensor) -> Tensor:
        """The gap to the floor in the plane's frame."""
        return floor.gap(self._lying(z))

    def jump(self, z: StateTensor, response: Response) -> StateTensor:
        """The floor's response in the plane's frame."""
        turn = upright(torch.tensor(self.normal).to(z))
        up = torch.tensor([0.0, self.offset, 0.0]).to(z)
        return turned(response(self._lying(z)), rotations.conjugate(turn), before=up)

    def _lying(self, z: StateTensor) -> StateTensor:
        """The states in the frame in which the plane is the floor."""
        turn = upright(torch.tensor(self.normal).to(z))
        return turned(z, turn, after=torch.tensor([0.0, -self.offset, 0.0]).to(z))


@dataclass(frozen=True)
class Box:
    """A solid box between two corners, in physics units."""

    low: Vector
    """Corner with the smallest coordinates."""
    high: Vector
    """The opposite corner."""

    def __post_init__(self) -> None:
        low, high = (checked_vector(x, "a box's corner") for x in (self.low, self.high))
        if not all(a < b for a, b in zip(low, high, strict=True)):
            raise InputError(
                f"a box needs x0 y0 z0 x1 y1 z1 with x0 < x1, y0 < y1, z0 < z1, got {low} {high}"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def gap(self, z: StateTensor) -> Tensor:
        """The gap to the floor in the frame of the nearest plane."""
        point, normal = self._nearest(State(z).p)
        return floor.gap(_on(z, point, upright(normal)))

    def jump(self, z: StateTensor, response: Response) -> StateTensor:
        """The floor's response in the frame of the nearest plane."""
        point, normal = self._nearest(State(z).p)
        turn = upright(normal)
        after = turned(response(_on(z, point, turn)), rotations.conjugate(turn))
        return replace(after, p=State(after).p + point)

    def _nearest(self, p: Vec3) -> tuple[Vec3, Vec3]:
        """The surface point nearest to each position ``(..., 3)``, and its normal."""
        low, high = torch.tensor(self.low).to(p), torch.tensor(self.high).to(p)
        clamped = torch.minimum(torch.maximum(p, low), high)
        away = p - clamped
        distance = torch.linalg.vector_norm(away, dim=-1, keepdim=True)
        depths = torch.cat([p - low, high - p], -1)  # inside: the nearest of six faces
        face = depths.argmin(-1)
        outward = torch.cat([-torch.eye(3), torch.eye(3)]).to(p)[face]
        inside = distance <= 0
        surface = clamped + depths.gather(-1, face.unsqueeze(-1)) * outward
        normal = torch.where(inside, outward, away / distance.clamp_min(1e-12))
        return torch.where(inside, surface, clamped), normal


FLOOR = Floor()


def checked_vector(x: Sequence[float], what: str) -> Vector:
    """Three finite numbers."""
    try:
        a, b, c = (float(v) for v in x)
    except (TypeError, ValueError):
        raise InputError(f"{what}: expected three numbers x y z, got {x!r}") from None
    if not all(map(math.isfinite, (a, b, c))):
        raise InputError(f"{what}: expected finite numbers, got {x!r}")
    return a, b, c


def upright(normal: Vec3) -> Quat:
    """The shortest rotation ``(..., 4)`` that takes unit vectors ``(..., 3)`` to +y."""
    x, y, z = normal.unbind(-1)
    zero = torch.zeros_like(x)
    q = torch.stack([1 + y, -z, zero, x], -1)  # 1 + n . up, n x up
    half_turn = torch.tensor([0.0, 1.0, 0.0, 0.0]).to(normal).expand_as(q)
    return torch.where((y < -1 + 1e-6).unsqueeze(-1), half_turn, rotations.normalize(q))


def turned(
    z: StateTensor, turn: Quat, *, before: Vec3 | None = None, after: Vec3 | None = None
) -> StateTensor:
    """States turned about the origin, shifted before and after; ``w`` is in body axes and stays."""
    x = State(z)
    turn = turn.expand(*z.shape[:-1], 4)
    p = rotations.rotate(turn, x.p if before is None else x.p + before)
    p = p if after is None else p + after
    return replace(z, p=p, q=rotations.multiply(turn, x.q), v=rotations.rotate(turn, x.v))


def _on(z: StateTensor, point: Vec3, turn: Quat) -> StateTensor:
    """States relative to the nearest surface ``point``, with the normal turned up."""
    return turned(z, turn, before=-point)


def touch(z: StateTensor, surfaces: Sequence[Surface], response: Response) -> StateTensor:
    """The states after contact with each surface that they touch, in order."""
    for surface in surfaces:
        z = landed(z, surface.gap, partial(surface.jump, response=response))
    return z

"""From a captured scene's coordinates to the physics frame, and back.

Captures have arbitrary rotation, scale and position. The physics needs y up, the floor at y = 0,
and objects about as large as those it was trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.state import State, pack
from ..base.types import Quat, StateTensor, Vec3
from .gaussians import AT_A_TIME

UP = (0.0, 1.0, 0.0)  # of the physics frame


@dataclass(frozen=True, eq=False)
class WorldFrame:
    """The similarity ``x_physics = scale * R(rotation) x_scene + offset``, in float64."""

    rotation: Quat
    """Rotates the scene's up to +y ``(4,)``."""
    scale: float
    """Physics units per scene unit."""
    offset: Vec3
    """Moves the floor to y = 0 ``(3,)``."""

    @classmethod
    def identity(cls) -> "WorldFrame":
        """For a scene that is already in the physics frame."""
        return cls(torch.tensor([1.0, 0, 0, 0]).double(), 1.0, torch.zeros(3).double())

    @classmethod
    def of_floor(
        cls, up: Sequence[float] | Tensor, height: float, *, scale: float = 1.0
    ) -> "WorldFrame":
        """From the scene's up direction and the floor's height along it, both in scene units."""
        sky = torch.as_tensor(up, dtype=torch.float64)
        length = torch.linalg.vector_norm(sky)
        if sky.shape != (3,) or not (torch.isfinite(length) and length > 0):
            raise InputError(f"up: expected three numbers that are not all zero, got {up}")
        if not scale > 0:
            raise InputError(f"scale must be positive, got {scale}")
        offset = torch.tensor([0.0, -scale * height, 0.0], dtype=torch.float64)
        return cls(upright(sky / length), float(scale), offset)

    @property
    def up(self) -> Vec3:
        """The scene's up direction, a unit vector ``(3,)``."""
        return rotations.rotate(rotations.conjugate(self.rotation), torch.tensor(UP).double())

    @property
    def floor(self) -> float:
        """Height of the floor along ``up`` in scene units."""
        return -self.offset[1].item() / self.scale

    def to_physics(self, points: Vec3) -> Vec3:
        """Points ``(..., 3)`` from the scene to the physics frame."""
        if points.dim() == 2 and len(points) > AT_A_TIME:
            return torch.cat([self.to_physics(part) for part in points.split(AT_A_TIME)])
        x = points.double()
        turned = rotations.rotate(self.rotation.to(x), x)
        return (self.scale * turned + self.offset.to(x)).to(points.dtype)

    def to_scene(self, points: Vec3) -> Vec3:
        """Points ``(..., 3)`` from the physics frame to the scene."""
        x = points.double()
        back = (x - self.offset.to(x)) / self.scale
        return rotations.rotate(rotations.conjugate(self.rotation).to(x), back).to(points.dtype)

    def state_to_physics(self, z: StateTensor) -> StateTensor:
        """States ``(..., 22)`` from the scene to the physics frame."""
        x = State(z.double())
        k, turn = self.scale, self.rotation.to(x.q).expand(*z.shape[:-1], 4)
        return pack(
            p=self.to_physics(x.p), q=rotations.multiply(turn, x.q),
            v=k * rotations.rotate(turn, x.v), w=x.w, s=k * x.s, u=k * x.u, m=x.m, e=x.e, mu=x.mu,
        ).to(z.dtype)  # fmt: skip

    def state_to_scene(self, z: StateTensor) -> StateTensor:
        """States ``(..., 22)`` from the physics frame to the scene."""
        x = State(z.double())
        k, turn = self.scale, rotations.conjugate(self.rotation).to(x.q).expand(*z.shape[:-1], 4)
        return pack(
            p=self.to_scene(x.p), q=rotations.multiply(turn, x.q),
            v=rotations.rotate(turn, x.v) / k, w=x.w, s=x.s / k, u=x.u / k, m=x.m, e=x.e, mu=x.mu,
        ).to(z.dtype)  # fmt: skip


def upright(up: Vec3) -> Quat:
    """A rotation that maps the unit vector ``up`` to +y.

    An upside-down scene is first rotated by half a turn about x: the usual step from the axes of
    captures (y down, z ahead) to those of graphics. It keeps the heading stable for directions near
    -y, where the shortest rotation is ambiguous.
    """
    flip = torch.tensor([0.0, 1, 0, 0] if up[1] < 0 else [1.0, 0, 0, 0]).to(up)
    rest = shortest_turn(rotations.rotate(flip, up), torch.tensor(UP).to(up))
    return rotations.multiply(rest, flip)


def shortest_turn(a: Vec3, b: Vec3) -> Quat:
    """The smallest rotation that maps the unit vector ``a`` to ``b``, both ``(3,)``."""
    w = 1 + a @ b
    if w < 1e-9:  # opposite: half a turn about any perpendicular axis
        across = torch.eye(3).to(a)[int(a.abs().argmin())]
        axis = torch.linalg.cross(a, across)
        return torch.cat([torch.zeros(1).to(a), axis / torch.linalg.vector_norm(axis)])
    return rotations.normalize(torch.cat([w[None], torch.linalg.cross(a, b)]))

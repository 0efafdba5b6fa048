"""From the page to the scene: rays, cameras, and clicked points."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.types import Vec3
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene
from ..scene.world_frame import WorldFrame
from ..segment.objects.rays import crossings, first_opaque

Ray: TypeAlias = Vec3 | Sequence[float]  # an origin or a direction (3,)

THIN = 0.02  # height over length below which a triangle of clicks does not define a plane
DIGITS = 6  # decimals of an up direction and a floor set by hand


def ray_in_scene(world: WorldFrame, origin: Ray, direction: Ray) -> tuple[Tensor, Tensor]:
    """A ray of the physics frame in scene coordinates; ray parameters keep their values."""
    o, d = (torch.as_tensor(x, dtype=torch.float64) for x in (origin, direction))
    turn = rotations.conjugate(world.rotation)
    return world.to_scene(o), rotations.rotate(turn, d) / world.scale


def met(scene: GaussianScene, world: WorldFrame, origin: Ray, direction: Ray) -> Vec3:
    """The point ``(3,)`` where a ray hits the scene; both in the physics frame."""
    found = crossings(scene, *ray_in_scene(world, origin, direction))
    first = first_opaque(found.distances, found.alphas)
    if first is None:
        raise InputError("nothing is under the pointer; click a visible part of the floor")
    o, d = (torch.as_tensor(x, dtype=torch.float64) for x in (origin, direction))
    return o + float(found.distances[first]) * d


def plane_through(points: Sequence[Ray], above: Ray) -> tuple[Vec3, Vec3]:
    """A point and the unit normal, towards ``above``, of the plane through three points."""
    a, b, c = (torch.as_tensor(x, dtype=torch.float64) for x in points)
    normal = torch.linalg.cross(b - a, c - a)
    longest = max(float((x - y).norm()) for x, y in ((a, b), (b, c), (c, a)))
    if not float(normal.norm()) > THIN * longest**2:
        raise InputError("the three points lie on a line; click the corners of a wide triangle")
    normal = normal / normal.norm()
    side = (torch.as_tensor(above, dtype=torch.float64) - a) @ normal
    return a, normal if side >= 0 else -normal


def ground_in_scene(
    world: WorldFrame, point: Ray, up: Ray
) -> tuple[tuple[float, float, float], float]:
    """Up ``(3,)`` and height along it, scene units, of a plane in the physics frame."""
    p, n = (torch.as_tensor(x, dtype=torch.float64) for x in (point, up))
    turned = rotations.rotate(rotations.conjugate(world.rotation), n / n.norm())
    x, y, z = (round(v, DIGITS) + 0.0 for v in turned.tolist())
    return (x, y, z), round(float(world.to_scene(p) @ turned), DIGITS) + 0.0


def camera_in_scene(
    world: WorldFrame,
    position: Sequence[float],
    wxyz: Sequence[float],
    fov: float,
    size: tuple[int, int],
) -> Camera:
    """A camera given in the physics frame, in scene coordinates.

    ``wxyz`` rotates its axes (x right, y down, z forward) into those of the frame. ``fov`` is the
    vertical field of view in radians.
    """
    width, height = size
    p = world.to_scene(torch.as_tensor(position, dtype=torch.float64))
    q = rotations.multiply(
        rotations.conjugate(world.rotation), torch.as_tensor(wxyz, dtype=torch.float64)
    )
    R = rotations.to_matrix(rotations.normalize(q)).T
    w2c = torch.eye(4, dtype=torch.float64)
    w2c[:3, :3], w2c[:3, 3] = R, -R @ p
    f = 0.5 * height / math.tan(fov / 2)
    K = torch.tensor([[f, 0, width / 2], [0, f, height / 2], [0, 0, 1]])
    return Camera(K, w2c.float(), width, height)

"""A camera that sees a whole motion."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..state import State
from ..types import Vec3
from .animation import Animation
from .cameras import Camera, look_at, orbit
from .placing import VISIBLE, across

FIELD = 50.0  # degrees
AZIMUTH = 25.0  # degrees from the physics frame's z
ELEVATION = 14.0  # degrees it looks down
MARGIN = 0.9  # of the picture the motion fills at most
ROOM = 0.08  # of the object's size left free around it


def default_camera(
    animation: Animation,
    size: Sequence[int] = (512, 512),
    *,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
) -> Camera:
    """The nearest camera that keeps all moving objects and the floor under them in the picture.

    ``size`` is (width, height) in pixels; the angles are those of :func:`fit_camera`.
    """
    up, floor = animation.world.up, animation.world.floor
    if animation.states:
        boxes = torch.cat([swept_points(animation, i) for i in animation.states]).cpu()
    else:
        boxes = corners(*animation.scene.bounds()).double().cpu()
    feet = boxes - ((boxes @ up) - floor).unsqueeze(-1) * up
    points = torch.cat([boxes, feet[(boxes @ up) > floor]])
    width, height = size
    return fit_camera(points, up, width=width, height=height, azimuth=azimuth, elevation=elevation)


def paper_orbit(
    animation: Animation, size: Sequence[int] = (512, 512), *, views: int = 4
) -> list[Camera]:
    """The paper's cameras where a capture has none: radius 5 and elevation 1.2 around the motion.

    The target is the mean predicted position over all frames and objects. Lengths are those of the
    physics frame, in which an object is about half a unit large.
    """
    world, (width, height) = animation.world, size
    way = torch.cat([State(world.state_to_physics(z)).p for z in animation.states.values()])
    around = orbit(way.mean(0), views=views, width=width, height=height)
    aim = world.to_scene(way.mean(0))
    return [
        look_at(
            world.to_scene(camera.position.double()), aim, width=width, height=height,
            up=world.up.tolist(),
        )
        for camera in around
    ]  # fmt: skip


def swept_points(animation: Animation, index: int) -> Vec3:
    """Extreme points ``(T * 26, 3)`` of an object, a little widened, in all frames, float64."""
    thing = animation.scene.object(index)
    opaque = thing.means[thing.opacities >= VISIBLE]
    means = (opaque if len(opaque) else thing.means).double()
    ends = means.quantile(0.002, dim=0), means.quantile(0.998, dim=0)
    inside = means.clamp(*ends)  # floaters count for no more than the end of all others
    steps = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0]).to(means)] * 3)
    d = steps[steps.norm(dim=-1) > 0]
    outer = inside[(inside @ d.mT).argmax(0)]
    room = ROOM * (ends[1] - ends[0]).max()
    outer = outer + room * d / d.norm(dim=-1, keepdim=True)
    A, b = animation.affines(index)
    return (outer @ A.mT + b.unsqueeze(1)).flatten(0, 1)


def fit_camera(
    points: Vec3,
    up: Vec3,
    *,
    width: int = 512,
    height: int = 512,
    fov: float = FIELD,
    azimuth: float = 0.0,
    elevation: float = ELEVATION,
    margin: float = MARGIN,
) -> Camera:
    """The nearest camera that sees all ``points`` (N, 3).

    It stands at ``azimuth`` degrees around ``up``, zero on the side of the physics frame's z, and
    looks down at ``elevation`` degrees. ``margin`` is the part of the picture that they fill.
    """
    x = points.double()
    target = (x.amin(0) + x.amax(0)) / 2
    a, b = across(up)
    side, rise = math.radians(azimuth), math.radians(elevation)
    out = math.cos(rise) * (math.cos(side) * b + math.sin(side) * a) + math.sin(rise) * up
    probe = look_at(target + out, target, width=width, height=height, fov=fov, up=up.tolist())
    across_, down, ahead = ((x - target) @ probe.w2c[:3, :3].double().T).unbind(-1)
    slope = math.tan(math.radians(fov) / 2) * margin
    distance = torch.maximum(across_.abs() * height / width, down.abs()) / slope - ahead
    r = max(distance.max().item(), 1e-6)
    return look_at(target + r * out, target, width=width, height=height, fov=fov, up=up.tolist())


def corners(low: Tensor, high: Tensor) -> Vec3:
    """The eight corners ``(..., 8, 3)`` of boxes given by two of them ``(..., 3)``."""
    pick = torch.cartesian_prod(*[torch.tensor([0, 1])] * 3)
    ends = torch.stack([low, high], -2)
    return torch.stack([ends[..., pick[:, i], i] for i in range(3)], -1)

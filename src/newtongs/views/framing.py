"""Cameras that see a whole motion, fixed or moving."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..base.state import State
from ..base.types import Vec3
from ..scene.animation import Animation
from ..scene.cameras import Camera, look_at, orbit
from ..scene.gaussians import AT_A_TIME, quantiles
from ..scene.similarity import VISIBLE, across

FIELD = 50.0  # degrees
AZIMUTH = 25.0  # degrees from the physics frame's z
ELEVATION = 14.0  # degrees by which it looks down
MARGIN = 0.9  # fraction of the picture that the motion fills, at most
ROOM = 0.08  # free space around the object over its size
TURN = 90.0  # degrees that a camera moves around the motion in a film
FOLLOWED = 0.55  # fraction of the picture that a followed object fills
AROUND = 1.7  # times as large: what is shown of a shelf around a motion on it
NOTICED = 0.1  # of its size by which an object that was hit must move, or radians, to be seen
PIXELS = 96  # longer side of a small picture
CENTERED = 8  # steps until the motion is in the middle; each leaves a fraction of the error
SMOOTH = 0.25  # seconds: standard deviation of the smoothing of such a camera's path


def default_camera(
    animation: Animation,
    size: Sequence[int] = (512, 512),
    *,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    fov: float = FIELD,
) -> Camera:
    """The nearest camera that keeps all moving objects and the floor under them in the picture.

    ``size`` is (width, height) in pixels; the angles are those of :func:`fit_camera`. It may be
    occluded, see :func:`newtongs.views.viewpoints.clear_camera`.
    """
    width, height = size
    return fit_camera(
        points_of_interest(animation), animation.world.up, width=width, height=height, fov=fov,
        azimuth=azimuth, elevation=elevation, centered=is_alone(animation),
    )  # fmt: skip


def is_alone(animation: Animation) -> bool:
    """Whether nothing but its objects and an assumed floor is there, so that they fill a picture.

    Elsewhere the box around the motion is in the middle, which leaves room for its surroundings.
    """
    return animation.about.floor_is.startswith("assumed")


def points_of_interest(animation: Animation) -> Vec3:
    """Points ``(N, 3)`` that a picture of the motion should show: objects, floor under them.

    A floor that is farther below than the whole motion is large has no part in it: a pot that is
    pushed along a shelf would be a dot above it.
    """
    up, floor = animation.world.up, animation.world.floor
    if animation.states:
        boxes = torch.cat([swept_points(animation, i) for i in moved(animation)]).cpu()
    else:
        boxes = corners(*animation.scene.bounds()).double().cpu()
    above = (boxes @ up) - floor
    if above.amin() > (boxes.amax(0) - boxes.amin(0)).norm():
        middle = (boxes.amin(0) + boxes.amax(0)) / 2
        return middle + AROUND * (boxes - middle)
    feet = boxes - above.unsqueeze(-1) * up
    return torch.cat([boxes, feet[above > 0]])


def orbit_path(
    animation: Animation,
    size: Sequence[int] = (512, 512),
    *,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    fov: float = FIELD,
    degrees: float = TURN,
) -> list[Camera]:
    """A camera a frame that turns by ``degrees`` around the motion; the middle one is the default.

    It keeps one distance, from which the whole motion is seen from all sides that it comes to.
    """
    (width, height), up, x = size, animation.world.up, points_of_interest(animation)
    target = (x.amin(0) + x.amax(0)) / 2
    turns = [azimuth + degrees * s for s in torch.linspace(-0.5, 0.5, len(animation)).tolist()]
    sees: dict[str, Any] = {"width": width, "height": height, "fov": fov, "up": up.tolist()}
    out = [outward(up, turn, elevation) for turn in turns]
    r = max(fitting_distance(x - target, look_at(target + d, target, **sees), fov) for d in out)
    return [look_at(target + r * d, target, **sees) for d in out]


def follow_path(
    animation: Animation,
    size: Sequence[int] = (512, 512),
    *,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    fov: float = FIELD,
) -> list[Camera]:
    """One camera per frame that follows the pushed objects without shaking.

    It looks at their centre from a constant direction and distance, smoothed over half a second.
    """
    (width, height), up = size, animation.world.up
    boxes = torch.stack([swept_points(animation, i) for i in pushed(animation)]).cpu()
    boxes = boxes.unflatten(1, (len(animation), -1)).transpose(0, 1).flatten(1, 2)  # (T, n, 3)
    target = smoothed((boxes.amin(1) + boxes.amax(1)) / 2, SMOOTH * animation.fps)
    sees: dict[str, Any] = {"width": width, "height": height, "fov": fov, "up": up.tolist()}
    out = outward(up, azimuth, elevation)
    probe = look_at(target[0] + out, target[0], **sees)
    r = fitting_distance((boxes - target.unsqueeze(1)).flatten(0, 1), probe, fov, FOLLOWED)
    return [look_at(x + r * out, x, **sees) for x in target]


def pushed(animation: Animation) -> list[int]:
    """Ids of the objects to look at: all that move, except those that were only loose."""
    loose = {each.id for each in animation.about.objects if each.loose}
    return [i for i in animation.states if i not in loose] or [*animation.states]


def moved(animation: Animation) -> list[int]:
    """Ids of the pushed objects and of those loose ones that were hit hard enough to show it.

    A picture of all that is loose in a kitchen would be one of the whole kitchen.
    """
    out = pushed(animation)
    for index, z in animation.states.items():
        x = State(z)
        away = torch.linalg.vector_norm(x.p - x.p[:1], dim=-1).amax()
        turn = 2 * (x.q * x.q[:1]).sum(-1).abs().clamp(max=1).acos().amax()
        if index not in out and (away > NOTICED * x.s[0].amax() or turn > NOTICED):
            out.append(index)
    return out


def smoothed(x: Tensor, sigma: float) -> Tensor:
    """A path ``(T, D)`` smoothed by a Gaussian of ``sigma`` frames, continued straight at its ends.

    A straight path at constant speed is unchanged.
    """
    reach = min(math.ceil(3 * sigma), len(x) - 1)
    if reach < 1:
        return x
    before = 2 * x[0] - x[1 : reach + 1].flip(0)
    after = 2 * x[-1] - x[-1 - reach : -1].flip(0)
    steps = torch.arange(-reach, reach + 1).to(x)
    weights = (-0.5 * (steps / sigma) ** 2).exp()
    windows = torch.cat([before, x, after]).unfold(0, 2 * reach + 1, 1)
    return windows @ (weights / weights.sum())


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
    """Extreme points ``(T * 26, 3)`` of an object, slightly enlarged, in all frames, float64."""
    thing = animation.scene.plain.object(index)
    opaque = thing.means[thing.opacities >= VISIBLE]
    means = (opaque if len(opaque) else thing.means).double()
    ends = quantiles(means, (0.002, 0.998))
    inside = means.clamp(*ends)  # floaters count no more than the end of the rest
    steps = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0]).to(means)] * 3)
    d = steps[steps.norm(dim=-1) > 0]
    parts = inside.split(AT_A_TIME)
    ends_of = torch.cat([part[(part @ d.mT).argmax(0)] for part in parts])
    far = torch.stack([(each * d).sum(-1) for each in ends_of.split(len(d))])
    outer = ends_of.unflatten(0, (-1, len(d)))[far.argmax(0), torch.arange(len(d))]
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
    centered: bool = False,
) -> Camera:
    """The nearest camera that sees all ``points`` (N, 3).

    It stands at ``azimuth`` degrees around ``up``, zero on the side of the physics frame's z, and
    looks down at ``elevation`` degrees. ``margin`` is the fraction of the picture that they fill.
    It looks at the middle of the box around the points; if ``centered``, to where what it sees of
    them is in the middle of the picture, and from nearer.
    """
    x = points.double()
    target, out = (x.amin(0) + x.amax(0)) / 2, outward(up, azimuth, elevation)
    sees: dict[str, Any] = {"width": width, "height": height, "fov": fov, "up": up.tolist()}
    probe = look_at(target + out, target, **sees)
    r = fitting_distance(x - target, probe, fov, margin)
    for _ in range(CENTERED if centered else 0):
        pixels, _ = look_at(target + r * out, target, **sees).project(x)
        off = (pixels.amin(0) + pixels.amax(0) - pixels.new_tensor([width, height])) / 2
        target = target + r * (off / probe.K[0, 0]) @ probe.w2c[:2, :3].to(off)
        r = fitting_distance(x - target, probe, fov, margin)
    return look_at(target + r * out, target, **sees)


def outward(up: Vec3, azimuth: float, elevation: float) -> Vec3:
    """The direction ``(3,)`` from the target to the camera; angles as in fit_camera."""
    a, b = across(up)
    side, rise = math.radians(azimuth), math.radians(elevation)
    return math.cos(rise) * (math.cos(side) * b + math.sin(side) * a) + math.sin(rise) * up


def fitting_distance(x: Vec3, camera: Camera, fov: float, margin: float = MARGIN) -> float:
    """How far a camera of this direction must stand from the origin to see all points ``(N, 3)``.

    They fill the fraction ``margin`` of its picture, which is ``fov`` degrees high.
    """
    across_, down, ahead = (x @ camera.w2c[:3, :3].double().T).unbind(-1)
    slope = math.tan(math.radians(fov) / 2) * margin
    wide = across_.abs() * camera.height / camera.width
    return max((torch.maximum(wide, down.abs()) / slope - ahead).max().item(), 1e-6)


def small(camera: Camera) -> Camera:
    """The same view in fewer pixels."""
    width, height = small_size(camera.width, camera.height)
    scale = torch.tensor([[width / camera.width], [height / camera.height], [1.0]])
    return Camera(camera.K * scale.to(camera.K), camera.w2c, width, height)


def small_size(width: int, height: int) -> tuple[int, int]:
    """The size of a small picture of the same aspect ratio."""
    return (
        max(1, round(PIXELS * width / max(width, height))),
        max(1, round(PIXELS * height / max(width, height))),
    )


def corners(low: Tensor, high: Tensor) -> Vec3:
    """The eight corners ``(..., 8, 3)`` of boxes given by two opposite ones ``(..., 3)``."""
    pick = torch.cartesian_prod(*[torch.tensor([0, 1])] * 3)
    ends = torch.stack([low, high], -2)
    return torch.stack([ends[..., pick[:, i], i] for i in range(3)], -1)

"""A picture of the objects found in a scene, with their numbers, axes and a ruler."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..base.types import Vec3
from ..render.scenes import render
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene
from ..scene.similarity import VISIBLE
from ..scene.world_frame import WorldFrame
from ..segment.floor.finding import FloorPlane
from ..segment.objects.clusters import Cluster
from .annotate import axis_cross, ruler, ruler_step, write_text
from .framing import corners, fit_camera

SIZE = (640, 480)  # of the picture
AZIMUTH, ELEVATION = 25.0, 24.0  # degrees
MARGIN = 0.84  # fraction of the picture that is filled: the ruler's numbers are outside
ROOM = 0.1  # free space around the framed region over its size
TAIL = 0.02  # share of an object's Gaussians at either end that is ignored
LOW = 0.06  # of the framed height: Gaussians below it belong to the floor
NEARER = 0.93  # of the smallest framed depth: Gaussians nearer than that are left out


def overview(
    scene: GaussianScene,
    world: WorldFrame,
    clusters: Sequence[Cluster] = (),
    *,
    size: tuple[int, int] = SIZE,
) -> tuple[Tensor, float]:
    """The scene upright with each cluster's number, axes and ruler; and the ruler's step.

    The ruler has the coordinates of the ``world``, those of ``--goal "land at X Z"``. Walls between
    the camera and the framed region are left out, as in a doll's house.
    """
    x = world.to_physics(scene.means.double())
    masks = [c.mask for c in clusters] or [scene.opacities >= VISIBLE]
    boxes = torch.stack([_box(x[mask if mask.any() else slice(None)]) for mask in masks])
    low, high = _on_ruler(boxes[:, 0].amin(0), boxes[:, 1].amax(0))
    floor = low.new_tensor([1.0, 0.0, 1.0])
    seen = torch.cat([corners(low * floor, high * floor), corners(*boxes.unbind(1)).flatten(0, 1)])
    seen = world.to_scene(seen)
    camera = fit_camera(
        seen, world.up, width=size[0], height=size[1], azimuth=AZIMUTH, elevation=ELEVATION,
        margin=MARGIN,
    )  # fmt: skip
    picture, depth = _drawn(scene, camera, seen, x[:, 1] > LOW * high[1])
    step = ruler(picture, camera, world, low, high, depth)
    axis_cross(picture, camera, world)
    for cluster, box in zip(clusters, boxes, strict=False):
        above = torch.tensor(
            [0.5 * (box[0, 0] + box[1, 0]), box[1, 1], 0.5 * (box[0, 2] + box[1, 2])]
        )
        at, _ = camera.project(world.to_scene(above.double()))
        write_text(picture, str(cluster.id), (float(at[0]), float(at[1]) - 8))
    return picture, step


def alternatives(scene: GaussianScene, floors: Sequence[FloorPlane], *, size: int = 320) -> Tensor:
    """Each floor with the scene upright on it, side by side, with its number and score."""
    pictures = []
    for i, floor in enumerate(floors):
        world = WorldFrame.of_floor(floor.up, floor.height)
        picture, _ = overview(scene, world, size=(size, size))
        write_text(picture, f"{i}", (16, 16), size=4)
        write_text(picture, f"{floor.score:.2f}", (size - 28, 14))
        pictures.append(picture)
    return torch.cat(pictures, 1)


def _box(x: Vec3) -> Tensor:
    """Two corners ``(2, 3)`` around most of the points ``(n, 3)``."""
    some = x[:: max(1, len(x) // 100_000)]
    return torch.stack([some.quantile(TAIL, dim=0), some.quantile(1 - TAIL, dim=0)])


def _on_ruler(low: Vec3, high: Vec3) -> tuple[Vec3, Vec3]:
    """Two corners extended to lines of the ruler."""
    room = ROOM * (high - low).amax()
    step = ruler_step(low - room, high + room)
    return ((low - room) / step).floor() * step, ((high + room) / step).ceil() * step


def _drawn(
    scene: GaussianScene, camera: Camera, seen: Vec3, above: Tensor
) -> tuple[Tensor, Tensor]:
    """Colour ``(H, W, 3)``, and depth ``(H, W)`` of the Gaussians ``above (N,)`` the floor.

    It is infinite in empty pixels. Grass must not hide the ruler.
    """
    _, nearest = camera.project(seen)
    _, depth = camera.project(scene.means.double())
    kept = depth > NEARER * nearest.amin()
    color = render(scene[kept], camera).color
    standing = render(scene.plain[kept & above], camera)
    hidden = torch.where(standing.alpha < 0.5, torch.inf, standing.depth)
    return color.clamp(0, 1).clone(), hidden.double()

"""One picture of what was found in a scene: objects with their numbers, axes, a ruler."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..scene.cameras import Camera
from ..scene.find.clusters import Cluster
from ..scene.find.floor import Floor
from ..scene.framing import corners, fit_camera
from ..scene.gaussians import GaussianScene
from ..scene.placing import VISIBLE
from ..scene.world_frame import WorldFrame
from ..types import Vec3
from .marks import axis_cross, ruler, ruler_step, write_text
from .scenes import render

SIZE = (640, 480)  # of the picture
AZIMUTH, ELEVATION = 25.0, 24.0  # degrees
MARGIN = 0.84  # of the picture that is filled at most: the ruler's numbers stand outside
ROOM = 0.1  # of what is framed, left free around it
TAIL = 0.02  # share of a thing's Gaussians at either end that does not count
LOW = 0.06  # of the height that is framed: what is lower belongs to the floor
NEARER = 0.93  # of the nearest depth that is framed: what is nearer to the camera is left out


def overview(
    scene: GaussianScene,
    world: WorldFrame,
    clusters: Sequence[Cluster] = (),
    *,
    size: tuple[int, int] = SIZE,
) -> tuple[Tensor, float]:
    """The scene upright with each cluster's number, axes and ruler; and the ruler's step.

    The ruler is that of the ``world``: coordinates of ``--goal "land at X Z"``. Walls between the
    camera and what is framed are left out, as in a doll's house.
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


def alternatives(scene: GaussianScene, floors: Sequence[Floor], *, size: int = 320) -> Tensor:
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
    """Two corners widened a little, to lines of the ruler."""
    room = ROOM * (high - low).amax()
    step = ruler_step(low - room, high + room)
    return ((low - room) / step).floor() * step, ((high + room) / step).ceil() * step


def _drawn(
    scene: GaussianScene, camera: Camera, seen: Vec3, above: Tensor
) -> tuple[Tensor, Tensor]:
    """Colour ``(H, W, 3)``, and depth ``(H, W)`` of what is ``above (N,)`` the floor.

    It is infinite where nothing is. Grass must not hide the ruler.
    """
    _, nearest = camera.project(seen)
    _, depth = camera.project(scene.means.double())
    kept = depth > NEARER * nearest.amin()
    color = render(scene[kept], camera).color
    standing = render(scene[kept & above], camera)
    hidden = torch.where(standing.alpha < 0.5, torch.inf, standing.depth)
    return color.clamp(0, 1).clone(), hidden.double()

"""A picture of the objects found in a scene, with their numbers, axes and a ruler.

The scene is looked at from the side from which most of the objects are visible. Then what stands
before them is left out, as in a doll's house: a ceiling, the near walls of a closed room.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base.process import one_thread
from ..base.types import Array, Vec3
from ..render.ewa import visible_slots
from ..render.scenes import render
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene
from ..scene.similarity import VISIBLE
from ..scene.world_frame import WorldFrame
from ..segment.floor.finding import FloorPlane
from ..segment.objects.clusters import Cluster
from .annotate import axis_cross, ruler, ruler_step, write_text
from .floor_flags import flags_for
from .framing import corners, fit_camera, small
from .numbers import Sign, placed, write_signs
from .viewpoints import Drawn, fewer

SIZE = (960, 720)  # of the picture
AZIMUTH, ELEVATION = 25.0, 24.0  # degrees
MARGIN = 0.84  # fraction of the picture that is filled: the ruler's numbers are outside
ROOM = 0.04  # free space around the framed region over its size
TAIL = 0.02  # share of an object's Gaussians at either end that is ignored
LOW = 0.06  # of the framed height: Gaussians below it belong to the floor
FRAMED = 10  # of the objects, the best; the picture is made for these
NEAR = 0.3  # of the size of all these: others that near are framed too
FALL = 0.3  # of the scene's height: with more empty space below it, the floor is not drawn
SIDES = [  # azimuth and elevation in degrees, in order of preference
    ((AZIMUTH + turn) % 360, elevation)
    for elevation in (ELEVATION, 40.0, 58.0)
    for turn in (0, 30, -30, 60, -60, 90, -90, 120, -120, 150, -150, 180)
]
ENOUGH = 6.0  # pixels of a small picture on which half of an object's worth is visible
ALIKE = 0.85  # of the best: so good a side is taken if it is nearer to the usual one
MOST = 250_000  # Gaussians with which it is decided what a pixel of the picture shows
ACROSS = 4  # alternatives in a row
LEAST = 2e-5  # of the picture: an object of which less is visible has no number


class Overview(NamedTuple):
    """A picture, and what is in it."""

    picture: Tensor
    """``(H, W, 3)``."""
    step: float
    """Of the ruler, physics units."""
    drop: float
    """Height of the ruler above the floor, physics units: above zero where that is far below."""
    signs: list[Sign]
    """The numbers in the picture."""


@one_thread()
def overview(
    scene: GaussianScene,
    world: WorldFrame,
    clusters: Sequence[Cluster] = (),
    *,
    size: tuple[int, int] = SIZE,
) -> Overview:
    """The scene upright with the numbers of all clusters that are visible, axes and ruler.

    The ruler has the coordinates of the ``world``, those of ``--goal "land at X Z"``. It lies on
    the floor; where an object hangs high above an assumed floor, at the height of its foot.
    """
    x = world.to_physics(scene.means.double())
    rows = [c.rows for c in clusters] or [(scene.opacities >= VISIBLE).nonzero()[:, 0]]
    boxes = _framed(torch.stack([box_around(x[each] if len(each) else x) for each in rows]))
    low, high = box_around(x[scene.opacities >= VISIBLE]) if len(scene) else boxes[0]
    drop = float(low[1]) if low[1] > FALL * (high[1] - low[1]) else 0.0
    raised = replace(world, offset=world.offset - drop * world.offset.new_tensor([0, 1, 0]))
    x[:, 1], boxes[..., 1] = x[:, 1] - drop, boxes[..., 1] - drop
    low, high = _on_ruler(boxes[:, 0].amin(0), boxes[:, 1].amax(0))
    floor = low.new_tensor([1.0, 0.0, 1.0])
    seen = torch.cat([corners(low * floor, high * floor), corners(*boxes.unbind(1)).flatten(0, 1)])
    slots = _slots(clusters, len(scene))
    camera, opened = _camera(scene, raised, x, slots, seen, size)
    eye = raised.to_physics(camera.position.double())
    kept = ~_before(eye, seen, x) if opened else torch.ones(len(x), dtype=torch.bool)
    picture, depth = _drawn(scene[kept], camera, (x[:, 1] > LOW * high[1])[kept])
    corner = axis_cross(picture, camera, raised)
    step, plates = ruler(picture, camera, raised, low, high, depth, taken=[corner])
    few = fewer(scene, kept.nonzero().squeeze(-1), MOST)
    shown = _shown(few, camera, slots)
    signs = placed([str(c.id) for c in clusters], shown, LEAST * shown.size, plates)
    write_signs(picture, signs)
    return Overview(picture, step, drop, signs)


def alternatives(scene: GaussianScene, floors: Sequence[FloorPlane], *, size: int = 320) -> Tensor:
    """Each floor with the scene upright on it, with its score and the flags that choose it."""
    pictures = []
    for i, floor in enumerate(floors):
        world = WorldFrame.of_floor(floor.up, floor.height)
        picture = overview(scene, world, size=(size, size)).picture
        write_text(picture, f"{i}", (16, 16), size=4)
        if floor.score:
            write_text(picture, f"{floor.score:.2f}", (size - 28, 14))
        for line, flag in enumerate(reversed(flags_for(floor, floors[0]))):
            write_text(picture, flag, (size / 2, size - 12 - 18 * line))
        pictures.append(picture)
    pictures += [torch.ones_like(pictures[0])] * (-len(pictures) % min(ACROSS, len(pictures)))
    rows = [torch.cat(pictures[i : i + ACROSS], 1) for i in range(0, len(pictures), ACROSS)]
    return torch.cat(rows, 0)


def box_around(x: Vec3) -> Tensor:
    """Two corners ``(2, 3)`` around most of the points ``(n, 3)``."""
    some = x[:: max(1, len(x) // 100_000)]
    return torch.stack([some.quantile(TAIL, dim=0), some.quantile(1 - TAIL, dim=0)])


def _framed(boxes: Tensor) -> Tensor:
    """The boxes ``(n, 2, 3)`` of the best objects, and those of all others that are near them."""
    low, high = boxes[:FRAMED, 0].amin(0), boxes[:FRAMED, 1].amax(0)
    room, middle = NEAR * (high - low), boxes.mean(1)
    near = ((middle > low - room) & (middle < high + room)).all(-1)
    near[:FRAMED] = True
    return boxes[near]


def _on_ruler(low: Vec3, high: Vec3) -> tuple[Vec3, Vec3]:
    """Two corners extended to lines of the ruler."""
    room = ROOM * (high - low).amax()
    step = ruler_step(low - room, high + room)
    return ((low - room) / step).floor() * step, ((high + room) / step).ceil() * step


def _camera(
    scene: GaussianScene, world: WorldFrame, x: Vec3, slots: Array, seen: Vec3,
    size: tuple[int, int],
) -> tuple[Camera, bool]:  # fmt: skip
    """The camera that frames ``seen`` from the side from which most of the clusters are visible.

    And whether what stands before them must be left out. A side from which nothing must be counts
    twice: behind a wall are the backs of things, which nobody has captured. ``x (N, 3)`` and
    ``seen`` are in the physics frame.
    """
    points, few = world.to_scene(seen), fewer(scene, torch.arange(len(scene)))
    every = [
        fit_camera(
            points, world.up, width=size[0], height=size[1], margin=MARGIN, azimuth=azimuth,
            elevation=elevation, centered=True,
        )
        for azimuth, elevation in SIDES
    ]  # fmt: skip
    count, at = min(int(slots.max(initial=-1)) + 1, FRAMED), x[few.rows]
    if not count:
        return every[0], True

    def worth(camera: Camera) -> list[float]:
        open_ = ~_before(world.to_physics(camera.position.double()), seen, at)
        parts = few, Drawn(few.rows[open_], few.scene[open_])
        return [_worth(_shown(part, small(camera), slots), count) for part in parts]

    worths = torch.tensor([worth(camera) for camera in every])
    best = int((worths.sum(1) >= ALIKE * worths.sum(1).amax()).nonzero()[0])
    return every[best], bool(worths[best, 0] < ALIKE * worths[best, 1])


def _worth(shown: Array, count: int) -> float:
    """How well the first things are visible: large ones count little more than small ones."""
    pixels = np.bincount(shown[(shown >= 0) & (shown < count)], minlength=count)
    return float((pixels / (pixels + ENOUGH)).sum())


def _slots(clusters: Sequence[Cluster], total: int) -> Array:
    """The cluster ``(N,)`` of each Gaussian, the better one where two share it; -1 for none."""
    out = np.full(total, -1, np.int16)
    for i, cluster in reversed(list(enumerate(clusters))):
        out[cluster.rows.numpy()] = i
    return out


def _shown(part: Drawn, camera: Camera, slots: Array) -> Array:
    """The cluster ``(H, W)`` that each pixel shows; -1 for none."""
    count = int(slots.max(initial=-1)) + 1
    own = slots[part.rows.numpy()]
    shown = visible_slots(part.scene, camera, np.where(own < 0, count, own).astype(np.int16), count)
    return np.where(shown == count, -1, shown)


def _before(eye: Vec3, seen: Vec3, x: Vec3) -> Tensor:
    """Which points ``(N,)`` stand between the eye and the box around what is to be ``seen``."""
    low, high, ray = seen.amin(0), seen.amax(0), x - eye
    ray = torch.where(ray.abs() < 1e-12, 1e-12, ray)
    ends = torch.stack([(low - eye) / ray, (high - eye) / ray])
    enters, leaves = ends.amin(0).amax(-1), ends.amax(0).amin(-1)
    return (enters > 1) & (enters < leaves)


def _drawn(scene: GaussianScene, camera: Camera, above: Tensor) -> tuple[Tensor, Tensor]:
    """Colour ``(H, W, 3)``, and depth ``(H, W)`` of the Gaussians ``above (N,)`` the floor.

    It is infinite in empty pixels. Grass must not hide the ruler.
    """
    color = render(scene, camera).color
    standing = render(scene.plain[above], camera)
    hidden = torch.where(standing.alpha < 0.5, torch.inf, standing.depth)
    return color.clamp(0, 1).clone(), hidden.double()

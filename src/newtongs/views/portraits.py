"""A close-up of every thing in a scene, and a sheet of them with their numbers.

Each is seen from the side from which most of it is visible, a little from above. In a room that is
the side of the room: from behind a wall nothing is visible. What stands before the thing is cut
away, and what is around it is pale and grey, so that it is clear which thing is meant.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..base.process import one_thread
from ..base.types import Vec3
from ..render.scenes import render, render_frames
from ..scene.cameras import Camera, look_at
from ..scene.gaussians import GaussianScene, join, quantiles
from ..scene.similarity import VISIBLE
from ..scene.world_frame import WorldFrame
from ..segment.objects.clusters import Cluster
from .annotate import BLACK, WHITE, text_size, write_text
from .framing import AZIMUTH, PIXELS, corners, fit_camera, outward
from .viewpoints import ALIKE, in_grey

SIZE = 160  # pixels
FIELD = 40.0  # degrees; a narrower one would stand in the next wall, a wider one distorts
MARGIN = 0.62  # fraction of a picture that the thing fills, so that its place is seen too
SIDES = [  # azimuth and elevation in degrees, in order of preference
    ((AZIMUTH + turn) % 360, elevation)
    for elevation in (20.0, 50.0)
    for turn in (0, 30, -30, 60, -60, 90, -90, 120, -120, 150, -150, 180)
]
TAIL = 0.01  # share of its Gaussians at either end that do not count for its extent
HIDDEN = 0.5  # of what would be visible alone: with less, what is far from the thing is cut away
BEFORE = 0.85  # of the camera's distance: what is nearer to the camera does not hide the thing
AROUND = 0.5  # of the thing's size: what is that near always counts as hiding it
PALE, GREY = 0.6, 0.82  # how far the surroundings fade, and to what
EDGE = (0.95, 0.1, 0.5)  # colour of the thing's outline: no usual thing's own
COLUMNS, GAP = 6, 4  # of the sheet; pixels between pictures


@one_thread()
def portraits(
    scene: GaussianScene, world: WorldFrame, clusters: Sequence[Cluster], *, size: int = SIZE
) -> list[Tensor]:
    """One close-up ``(size, size, 3)`` per cluster in which it can be recognised."""
    plain = scene.replace(sh=scene.sh[:, :1])  # the side of a colour does not matter at this size
    return [_portrait(plain, world, cluster.rows, size) for cluster in clusters]


def contact_sheet(pictures: Sequence[Tensor], clusters: Sequence[Cluster]) -> Tensor:
    """All close-ups on one picture ``(H, W, 3)``, each with its cluster's number on top."""
    size = pictures[0].shape[0]
    columns = min(COLUMNS, len(pictures))
    rows, step = -(-len(pictures) // columns), size + GAP
    sheet = torch.ones(rows * step - GAP, columns * step - GAP, 3)
    for i, (picture, cluster) in enumerate(zip(pictures, clusters, strict=True)):
        y, x = i // columns * step, i % columns * step
        sheet[y : y + size, x : x + size] = picture
        text, dots = str(cluster.id), max(2, size // 60)
        width, height = text_size(text, dots)
        at = (x + GAP + width / 2, y + GAP + height / 2)
        write_text(sheet, text, at, color=WHITE, behind=BLACK, size=dots)
    return sheet


def _portrait(scene: GaussianScene, world: WorldFrame, rows: Tensor, size: int) -> Tensor:
    """The Gaussians ``rows`` in colour before pale surroundings."""
    box = _box(scene[rows])
    azimuth, elevation = _side(scene, world, rows, box)
    camera = fit_camera(
        box, world.up, width=size, height=size, fov=FIELD, azimuth=azimuth, elevation=elevation,
        margin=MARGIN,
    )  # fmt: skip
    depth = camera.project(scene.means.double())[1]
    kept = depth > camera.project(box)[1].amin()  # nothing before it
    kept[rows] = True
    seen, ours = scene[kept], torch.zeros(len(scene), 3)
    ours[rows] = 1.0
    color = render(seen, camera).color.clamp(0, 1)
    part = render(seen, camera, colors=ours[kept], background=BLACK).color
    grey = color.mean(-1, keepdim=True).lerp(torch.tensor(GREY), PALE)
    return _outlined(grey.lerp(color, part.clamp(0, 1)), part[..., 0] > 0.5)


def _box(thing: GaussianScene) -> Vec3:
    """Corners ``(8, 3)`` around most of the visible Gaussians."""
    x = thing.means[thing.opacities >= VISIBLE].double()
    return corners(*quantiles(x if len(x) else thing.means.double(), (TAIL, 1 - TAIL)))


def _side(scene: GaussianScene, world: WorldFrame, rows: Tensor, box: Vec3) -> tuple[float, float]:
    """Azimuth and elevation from which most of a thing is visible, near the usual ones."""
    middle = (box[0] + box[-1]) / 2
    half = float((box - middle).norm(dim=-1).amax())
    reach = half / math.sin(math.radians(FIELD / 2))
    cameras = [
        look_at(
            middle + reach * outward(world.up, *side), middle, width=PIXELS // 2,
            height=PIXELS // 2, fov=FIELD, up=world.up.tolist(),
        )
        for side in SIDES
    ]  # fmt: skip
    ours = torch.zeros(len(scene), dtype=torch.bool)
    ours[rows] = True
    away = (scene.means.double() - middle).norm(dim=-1)
    thing = in_grey(scene, ours, 1.0).scene
    alone = _areas(thing, cameras[: len(cameras) // 2])
    for far in (BEFORE * reach, (1 + AROUND) * half):
        rest = in_grey(scene, ~ours & (away < far), 0.0).scene
        areas = _areas(join(thing, rest), cameras)
        if areas.amax() > HIDDEN * alone.amax():
            break
    return SIDES[int((areas >= ALIKE * areas.amax()).nonzero()[0])]


def _areas(scene: GaussianScene, cameras: Sequence[Camera]) -> Tensor:
    """How much white each camera sees, in pixels."""
    film = render_frames(scene, cameras, background=BLACK)
    return torch.stack([picture.color[..., 0].sum() for picture in film])


def _outlined(picture: Tensor, inside: Tensor) -> Tensor:
    """A picture with a line around a region ``(H, W)``."""
    grown = torch.nn.functional.max_pool2d(inside[None, None].float(), 3, 1, 1)[0, 0] > 0
    picture[grown & ~inside] = picture.new_tensor(EDGE)
    return picture

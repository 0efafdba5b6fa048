"""Lines, numbers and axes drawn into a picture, without a font or a plotting library."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..base.types import Vec3
from ..scene.cameras import Camera
from ..scene.world_frame import WorldFrame

Color = tuple[float, float, float]
Plate: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom in pixels, half open
WHITE, BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
ON_LIGHT, ON_DARK = (0.35, 0.35, 0.4), (0.95, 0.95, 1.0)  # lines of the ruler
DARK = 0.5  # mean of a pixel's channels below which it is dark
AXES: dict[str, Color] = {"x": (0.85, 0.1, 0.1), "y": (0.1, 0.6, 0.1), "z": (0.15, 0.3, 0.95)}
AXIS, SHORTEST = 0.07, 14.0  # length of an axis over the picture's height; in pixels, at least
PLATE = 0.75  # opacity of the white disc behind the axes
WIDE = 480  # width in pixels from which numbers are drawn larger
TICKS = 9  # approximate number of ruler lines across the framed region
HIDDEN = 1.02  # ratio to the picture's depth from which a line is hidden
# Five rows of three dots each, in octal digits from the top.
GLYPHS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71122", "8": "75757", "9": "75717", ".": "00002", "-": "00700",
    "x": "05255", "y": "05527", "z": "07247", " ": "00000", "?": "71202",
    "f": "34644", "l": "62227", "o": "07557", "p": "07574", "r": "07444", "u": "05557",
}  # fmt: skip


def write_text(
    picture: Tensor, text: str, at: Sequence[float], *, color: Color = WHITE,
    behind: Color | None = BLACK, size: int = 2,
) -> None:  # fmt: skip
    """Draw characters of :data:`GLYPHS` into a picture ``(H, W, 3)``, centred at (x, y)."""
    rows = [[int(GLYPHS.get(c, GLYPHS["?"])[r]) for c in text] for r in range(5)]
    bits = [[bit for d in row for bit in (d >> 2 & 1, d >> 1 & 1, d & 1, 0)] for row in rows]
    dots = torch.tensor(bits)
    dots = torch.nn.functional.pad(dots, (1, 0, 1, 1)).bool()
    dots = dots.repeat_interleave(size, 0).repeat_interleave(size, 1)
    left, top, *_ = plate_of(text, at, size)
    y, x = torch.meshgrid(*(torch.arange(n) for n in dots.shape), indexing="ij")
    y, x = y + top, x + left
    inside = (y >= 0) & (y < picture.shape[0]) & (x >= 0) & (x < picture.shape[1])
    if behind is not None:
        picture[y[inside], x[inside]] = picture.new_tensor(behind)
    shown = inside & dots
    picture[y[shown], x[shown]] = picture.new_tensor(color)


def text_size(text: str, size: int) -> tuple[int, int]:
    """Width and height in pixels of a text and its plate, see :func:`write_text`."""
    return size * (4 * len(text) + 1), size * 7


def draw_line(
    picture: Tensor, a: Sequence[float], b: Sequence[float], color: Color, *, strength: float = 1.0
) -> None:
    """Draw a line between two pixels (x, y)."""
    n = int(max(abs(b[0] - a[0]), abs(b[1] - a[1]))) + 2
    t = torch.linspace(0, 1, min(n, 4096))
    _dots(picture, a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), color, strength)


def _dots(picture: Tensor, x: Tensor, y: Tensor, color: Color | None, strength: float) -> None:
    x, y = x.round().long(), y.round().long()
    inside = (y >= 0) & (y < picture.shape[0]) & (x >= 0) & (x < picture.shape[1])
    old = picture[y[inside], x[inside]]
    new = _in_contrast(old) if color is None else picture.new_tensor(color)
    picture[y[inside], x[inside]] = old + strength * (new - old)


def _in_contrast(pixels: Tensor) -> Tensor:
    """Colours ``(n, 3)`` that contrast with those of a picture."""
    dark = pixels.mean(-1, keepdim=True) < DARK
    return torch.where(dark, pixels.new_tensor(ON_DARK), pixels.new_tensor(ON_LIGHT))


def line_in_space(
    picture: Tensor, camera: Camera, a: Vec3, b: Vec3, color: Color | None = None, *,
    depth: Tensor | None = None, strength: float = 0.6,
) -> None:  # fmt: skip
    """Draw a line between two points ``(3,)`` of the scene, where no ``depth (H, W)`` hides it.

    Without a ``color`` it is light on dark pixels and dark on light ones.
    """
    t = torch.linspace(0, 1, 1500, dtype=torch.float64)[:, None]
    pixels, far = camera.project(a + t * (b - a))
    seen = far > 0
    x, y = pixels[seen].round().long().T
    inside = (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)
    x, y, far = x[inside], y[inside], far[seen][inside]
    if depth is not None:
        open_ = far <= HIDDEN * depth[y, x]
        x, y = x[open_], y[open_]
    flat = torch.unique(y * camera.width + x)  # each pixel once: uniform strength
    _dots(picture, flat % camera.width, flat // camera.width, color, strength)


def axis_cross(picture: Tensor, camera: Camera, world: WorldFrame) -> Plate:
    """The physics frame's axes as seen by the camera, in the lower left corner; where that is."""
    length = max(AXIS * picture.shape[0], SHORTEST)
    corner = (1.5 * length, picture.shape[0] - 1.5 * length)
    _lighten(picture, corner, 1.4 * length)
    origin = world.to_scene(torch.zeros(3).double())
    for i, (name, color) in enumerate(AXES.items()):
        way = world.to_scene(torch.eye(3).double()[i]) - origin
        seen = camera.w2c[:3, :3].double() @ (way / torch.linalg.vector_norm(way))
        tip = [c + length * float(d) for c, d in zip(corner, seen[:2], strict=True)]
        for shift in (-0.5, 0.5):
            draw_line(picture, [c + shift for c in corner], [c + shift for c in tip], color)
        named = [c + (length + 9) * float(d) for c, d in zip(corner, seen[:2], strict=True)]
        write_text(picture, name, named, color=color, behind=None)
    return 0, int(picture.shape[0] - 3 * length), int(3 * length), picture.shape[0]


def _lighten(picture: Tensor, middle: Sequence[float], radius: float) -> None:
    """Draw a light disc around a pixel (x, y), on which colours are visible."""
    y, x = (torch.arange(n).to(picture) for n in picture.shape[:2])
    inside = (x - middle[0]) ** 2 + (y[:, None] - middle[1]) ** 2 <= radius**2
    picture[inside] += PLATE * (1 - picture[inside])


def ruler(
    picture: Tensor, camera: Camera, world: WorldFrame, low: Vec3, high: Vec3,
    depth: Tensor | None = None, taken: Sequence[Plate] = (),
) -> tuple[float, list[Plate]]:  # fmt: skip
    """Draw lines of x and z on the floor with their numbers, from one corner ``(3,)`` to another.

    Both are in the physics frame. The numbers are on the sides next to the camera, and not where
    the picture is ``taken``. Returns the step, 1, 2 or 5 times a power of ten, and what is taken
    now.
    """
    step, size = ruler_step(low, high), 2 if camera.width >= WIDE else 1
    ends = [(round(float(low[i]) / step), round(float(high[i]) / step)) for i in (0, 2)]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    eye = world.to_physics(camera.position.double())[[0, 2]] / step
    written = list(taken)
    for axis, other in ((0, 1), (1, 0)):
        for k in range(ends[axis][0], ends[axis][1] + 1):
            a, b = (_on_floor(world, step, axis, k, ends[other][side]) for side in (0, 1))
            line_in_space(picture, camera, a, b, depth=depth, strength=0.45)
            near = eye[other] > sum(ends[other]) / 2
            edge = ends[other][1] + 0.35 if near else ends[other][0] - 0.35
            past = _on_floor(world, step, axis, k, edge)
            at, far = camera.project(past)
            number = f"{k * step + 0.0:.{digits}f}"
            plate = plate_of(number, at.tolist(), size) if far > 0 else None
            if plate and inside(plate, picture) and not any(overlap(plate, p) for p in written):
                name = "xz"[axis]
                write_text(picture, number, at.tolist(), color=WHITE, behind=AXES[name], size=size)
                written.append(plate)
    return step, written


def plate_of(text: str, at: Sequence[float], size: int) -> Plate:
    """Where a text centred at (x, y) is drawn."""
    width, height = text_size(text, size)
    left, top = round(float(at[0]) - width / 2), round(float(at[1]) - height / 2)
    return left, top, left + width, top + height


def overlap(a: Plate, b: Plate) -> bool:
    """Whether two plates share a pixel."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def inside(plate: Plate, picture: Tensor) -> bool:
    """Whether a plate is all in a picture ``(H, W, 3)``."""
    left, top, right, bottom = plate
    return left >= 0 and top >= 0 and right <= picture.shape[1] and bottom <= picture.shape[0]


def ruler_step(low: Vec3, high: Vec3) -> float:
    """Distance between the lines of a ruler from one corner ``(3,)`` to another."""
    return nice_step(float((high - low)[[0, 2]].amax()) / TICKS)


def _on_floor(world: WorldFrame, step: float, axis: int, along: float, across: float) -> Vec3:
    """A point of the floor ``(3,)`` in scene coordinates."""
    x, z = (along, across) if axis == 0 else (across, along)
    return world.to_scene(torch.tensor([x * step, 0.0, z * step], dtype=torch.float64))


def nice_step(rough: float) -> float:
    """A number of about this size that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-300)))
    return next((k * power for k in (1, 2, 5) if rough <= 1.5 * k * power), 10 * power)

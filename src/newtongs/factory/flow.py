"""Where the pixels of a picture go, compiled: flow, scene flow, and what the next frame shows.

A point that a camera sees goes to the next frame's camera by one affine map for each slot: out of
the first camera, along with its object, into the second. So a pixel takes a few dozen operations.

Numba's cache knows this file's own text alone: after changing the fields of ``Labels``, remove the
``__pycache__`` beside it.
"""

from typing import Any, NamedTuple

import numpy as np

from ..render.ewa_records import compiled
from ..render.labels import Labels

SAME_DEPTH = 0.02  # relative: a point this near to what the next frame shows there is what it shows
SAME_PLACE = 1.0  # pixels: likewise what the next frame shows there must have come from here
SAME_SHARE = 0.1  # of a pixel's light: a thing that gains or loses more is covered there in part
PIXEL_STEP = 1 / 64  # flow is rounded to this: a tenth of what matters, and half the bytes
METRE_STEP = 2.0**-13  # scene flow likewise: an eighth of a millimetre
LARGEST = 60_000  # in half precision; a point that comes into the camera's plane flows without end


class Lens(NamedTuple):
    """How a camera projects, in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float


class Ways(NamedTuple):
    """Affine maps of points in camera coordinates, ``(slots + 1, 3, 4)``.

    The last one is of what is infinitely far off and turns with the camera alone.
    """

    onward: Any
    """From this camera to the next frame's."""
    back: Any
    """From the next frame's camera to this one."""
    displaced: Any
    """From this camera to the way that the point goes in the physics frame."""


class Rules(NamedTuple):
    """How a picture is labelled."""

    objects: int
    """Slots from this one on stand still."""
    static: bool
    """Whether the camera stands still: then only objects have a flow."""
    same_share: float
    """By less than this a visible point's share of the light differs in the next frame."""


class Flow(NamedTuple):
    """What is filled in of one picture; see ``ViewLabels``."""

    flow: Any
    scene_flow: Any
    visible: Any

    @classmethod
    def empty(cls, height: int, width: int) -> "Flow":
        """Not filled yet."""
        size = height, width
        return cls(
            np.empty((*size, 2), np.float32), np.empty((*size, 3), np.float32), np.empty(size, bool)
        )


@compiled(inside=True)
def _mapped(A: Any, p: tuple[float, float, float]) -> tuple[float, float, float]:
    """An affine map ``(3, 4)`` of a point."""
    x, y, z = p
    return (
        A[0, 0] * x + A[0, 1] * y + A[0, 2] * z + A[0, 3],
        A[1, 0] * x + A[1, 1] * y + A[1, 2] * z + A[1, 3],
        A[2, 0] * x + A[2, 1] * y + A[2, 2] * z + A[2, 3],
    )


@compiled(inside=True)
def _point(lens: Lens, u: float, v: float, z: float) -> tuple[float, float, float]:
    """What is seen at pixel coordinates, at a depth."""
    return z * (u - lens.cx) / lens.fx, z * (v - lens.cy) / lens.fy, z


@compiled(inside=True)
def _pixel(lens: Lens, p: tuple[float, float, float]) -> tuple[float, float]:
    """Where a point is seen."""
    return lens.fx * p[0] / p[2] + lens.cx, lens.fy * p[1] / p[2] + lens.cy


@compiled(inside=True)
def _rounded(x: float, step: float) -> float:
    """To a multiple of ``step``, and to what half precision holds."""
    if x != x:
        return 0.0
    return min(max(step * np.rint(x / step), -LARGEST), LARGEST)


@compiled()
def _share_at(there: Labels, slot: int, objects: int, u: float, v: float) -> float:
    """Part of the light that a slot has at a place of the picture, interpolated between pixels.

    Where another has the largest part, it is all that this one leaves: exact for two things in a
    pixel, too much for three. What stands still and the background colour share theirs.
    """
    height, width = there.slot.shape
    x, y = min(max(u - 0.5, 0.0), width - 1.0), min(max(v - 0.5, 0.0), height - 1.0)
    left, top = int(x), int(y)
    out = 0.0
    for down in range(2):
        for right in range(2):
            row, column = min(top + down, height - 1), min(left + right, width - 1)
            share, its = np.float64(there.share[row, column]), there.slot[row, column]
            both_stand = slot == objects and its < 0
            if its != slot and not both_stand:
                share = 1 - share
            out += abs(1 - down - (y - top)) * abs(1 - right - (x - left)) * share
    return out


@compiled()
def _shown(
    there: Labels,
    lenses: tuple[Lens, Lens],
    back: Any,
    slot: int,
    rules: Rules,
    start: tuple[float, float],
    share: float,
    end: tuple[float, float],
    depth: float,
) -> bool:
    """Whether the next frame shows at ``end`` what went there from ``start``, and as much of it.

    Depth alone would take the back of a small thing far off for its front, after it has turned.
    What stands still turns by the camera alone, which is next to nothing in a frame.
    """
    height, width = there.slot.shape
    u, v = end
    if not (depth > 0 and 0 <= u < width and 0 <= v < height):
        return False
    row, column = int(v), int(u)
    z = np.float64(there.flow_depth[row, column])
    if there.slot[row, column] != slot or not abs(z - depth) < SAME_DEPTH * depth:
        return False
    if slot < rules.objects:
        x, y = _pixel(lenses[0], _mapped(back, _point(lenses[1], u, v, z)))
        if not np.hypot(x - start[0], y - start[1]) < SAME_PLACE:
            return False
    return abs(_share_at(there, slot, rules.objects, u, v) - share) < rules.same_share


@compiled()
def fill(
    here: Labels, there: Labels, lenses: tuple[Lens, Lens], ways: Ways, rules: Rules, out: Flow
) -> None:
    """Flow, scene flow and visibility of a picture, given its labels and the next one's."""
    height, width = here.slot.shape
    for y in range(height):
        for x in range(width):
            slot, share = here.slot[y, x], np.float64(here.share[y, x])
            out.flow[y, x], out.scene_flow[y, x], out.visible[y, x] = 0.0, 0.0, False
            if rules.static and not 0 <= slot < rules.objects:
                change = abs(np.float64(there.share[y, x]) - share)
                out.visible[y, x] = there.slot[y, x] == slot and change < rules.same_share
                continue
            far = slot < 0
            way = len(ways.onward) - 1 if far else slot
            start = x + 0.5, y + 0.5
            z = 1.0 if far else np.float64(here.flow_depth[y, x])
            point = _point(lenses[0], start[0], start[1], z)
            moved = _mapped(ways.onward[way], point)
            end = _pixel(lenses[1], moved)
            for k in range(2):
                out.flow[y, x, k] = _rounded(end[k] - start[k], PIXEL_STEP)
            if far:
                continue
            way_there = _mapped(ways.displaced[way], point)
            for k in range(3):
                out.scene_flow[y, x, k] = _rounded(way_there[k], METRE_STEP)
            out.visible[y, x] = _shown(
                there, lenses, ways.back[way], slot, rules, start, share, end, moved[2]
            )

"""Pictures of a film and their labels: ids, shares, depth, optical flow and scene flow.

A pixel's point in space follows from its depth. Its displacement to the next frame is the affine
map of the object that the pixel shows, followed by the camera's own motion. So the flow is as exact
as the states are, at occlusions and in fast rotations too. Nothing is estimated from pictures.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from ..base.jit import compiled
from ..base.types import Array
from ..render.ewa import labelled
from ..render.labels import Labels
from ..render.video import to_bytes
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.gaussians import BACKGROUND
from ..scene.world_frame import WorldFrame

SAME_DEPTH = 0.02  # relative: a point this close to what the next frame shows there is visible
SAME_PLACE = 1.0  # pixels: and what the next frame shows there must have come from this close
SAME_SHARE = 0.1  # of a pixel's light: where the share changes by more, the point is partly covered
PIXEL_STEP = 1 / 64  # flow is rounded to this: a tenth of what matters, and half the bytes
METRE_STEP = 2.0**-13  # scene flow likewise: an eighth of a millimetre
LARGEST_LABEL = 60_000  # of half precision; the flow of points in the camera's plane is unbounded
HALF = np.float16


class ViewLabels(NamedTuple):
    """One view of a film. Lengths are metres, as in the physics frame; ``flow`` is in pixels."""

    rgb: Array
    """``(T, H, W, 3)`` uint8."""
    ids: Array
    """``(T, H, W)`` uint8: 0 for what does not move, ``i + 1`` for object ``i``."""
    share: Array
    """``(T, H, W)`` uint8: fraction of the pixel's light that comes from what ``ids`` names.

    255 is all of it. Less means a mixture of two things that may move apart; the other labels
    describe the named one. For id 0 it is all light that does not come from objects.
    """
    depth: Array
    """``(T, H, W)`` float16 along the camera's axis; 0 where there is nothing."""
    flow: Array
    """``(T - 1, H, W, 2)`` float16: the point's position in the next frame, minus that here.

    The point lies slightly in front of ``depth``, see ``Labels.flow_depth``.
    """
    scene_flow: Array
    """``(T - 1, H, W, 3)`` float16: displacement of the same point in the physics frame."""
    visible: Array
    """``(T - 1, H, W)`` bool: whether the next frame shows that point, with the same share."""


class ObjectMotion(NamedTuple):
    """What the labels need of an animation, in scene coordinates."""

    matrices: Array
    """``(S + 1, T, 3, 3)``: from frame 0 to each frame; the last slot does not move."""
    shifts: Array
    """``(S + 1, T, 3)``."""
    slots: Array
    """``(N,)`` int16: slot of each Gaussian."""

    @classmethod
    def of(cls, animation: Animation) -> "ObjectMotion":
        """Slots for all objects in order of their ids, then one for the rest."""
        ids, frames = sorted(animation.states), len(animation)
        maps = [animation.affines(i) for i in ids]
        still = torch.eye(3, dtype=torch.float64).expand(frames, 3, 3), torch.zeros(frames, 3)
        A, b = ([m[k].double() for m in (*maps, still)] for k in (0, 1))
        slots = np.full(len(animation.scene), len(ids), np.int16)
        given = animation.scene.ids.cpu().numpy()
        for slot, i in enumerate(ids):
            slots[given == i] = slot
        assert BACKGROUND not in ids
        return cls(torch.stack(A).numpy(), torch.stack(b).numpy(), slots)

    @property
    def objects(self) -> int:
        """The number of objects, which is also the slot of the rest."""
        return len(self.matrices) - 1

    def steps(self, t: int) -> tuple[Array, Array]:
        """Matrices ``(S + 1, 3, 3)`` and shifts ``(S + 1, 3)`` from frame ``t`` to the next."""
        M = self.matrices[:, t + 1] @ np.linalg.inv(self.matrices[:, t])
        return M, self.shifts[:, t + 1] - np.einsum("sij,sj->si", M, self.shifts[:, t])


class Lens(NamedTuple):
    """How a camera projects, in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float


class PointMaps(NamedTuple):
    """Affine maps of points in camera coordinates, ``(slots + 1, 3, 4)``.

    The last one is for points at infinity, which move with the camera's rotation alone.
    """

    onward: Any
    """From this camera to the next frame's."""
    back: Any
    """From the next frame's camera to this one."""
    displaced: Any
    """From this camera to the point's displacement in the physics frame."""


class Rules(NamedTuple):
    """Thresholds and cases of one picture."""

    objects: int
    """Slots from this one on do not move."""
    static: bool
    """Whether the camera does not move: then only objects have a flow."""
    same_share: float
    """A visible point's share of the light changes by less than this to the next frame."""


class Flow(NamedTuple):
    """Output arrays of one picture; see ``ViewLabels``."""

    flow: Any
    scene_flow: Any
    visible: Any

    @classmethod
    def empty(cls, height: int, width: int) -> "Flow":
        """Not yet filled."""
        size = height, width
        return cls(
            np.empty((*size, 2), np.float32), np.empty((*size, 3), np.float32), np.empty(size, bool)
        )


# --- flow, compiled -------------------------------------------------------------------------------


@compiled(inside=True)
def _mapped(A: Any, p: tuple[float, float, float]) -> tuple[float, float, float]:
    """A point under an affine map ``(3, 4)``."""
    x, y, z = p
    return (
        A[0, 0] * x + A[0, 1] * y + A[0, 2] * z + A[0, 3],
        A[1, 0] * x + A[1, 1] * y + A[1, 2] * z + A[1, 3],
        A[2, 0] * x + A[2, 1] * y + A[2, 2] * z + A[2, 3],
    )


@compiled(inside=True)
def _point(lens: Lens, u: float, v: float, z: float) -> tuple[float, float, float]:
    """The point seen at pixel coordinates and a depth."""
    return z * (u - lens.cx) / lens.fx, z * (v - lens.cy) / lens.fy, z


@compiled(inside=True)
def _pixel(lens: Lens, p: tuple[float, float, float]) -> tuple[float, float]:
    """Pixel coordinates of a point."""
    return lens.fx * p[0] / p[2] + lens.cx, lens.fy * p[1] / p[2] + lens.cy


@compiled(inside=True)
def _rounded(x: float, step: float) -> float:
    """To a multiple of ``step``, within the range of half precision."""
    if x != x:
        return 0.0
    return min(max(step * np.rint(x / step), -LARGEST_LABEL), LARGEST_LABEL)


@compiled()
def _share_at(there: Labels, slot: int, objects: int, u: float, v: float) -> float:
    """A slot's share of the light at a point of the picture, interpolated between pixels.

    Where another slot has the largest share, this one's is taken to be the whole remainder: exact
    for two slots in a pixel, too much for three. The background colour counts as the static rest.
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
    """Whether the next frame shows at ``end`` the point from ``start``, with the same share.

    Depth alone would take the back of a small distant object for its front once it has turned, so
    what is shown there must also map back to ``start``. What does not move needs no such check: the
    camera hardly turns in one frame.
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
    here: Labels, there: Labels, lenses: tuple[Lens, Lens], maps: PointMaps, rules: Rules, out: Flow
) -> None:
    """Fill in flow, scene flow and visibility of a picture from its labels and the next one's."""
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
            row = len(maps.onward) - 1 if far else slot
            start = x + 0.5, y + 0.5
            z = 1.0 if far else np.float64(here.flow_depth[y, x])
            point = _point(lenses[0], start[0], start[1], z)
            moved = _mapped(maps.onward[row], point)
            end = _pixel(lenses[1], moved)
            for k in range(2):
                out.flow[y, x, k] = _rounded(end[k] - start[k], PIXEL_STEP)
            if far:
                continue
            displacement = _mapped(maps.displaced[row], point)
            for k in range(3):
                out.scene_flow[y, x, k] = _rounded(displacement[k], METRE_STEP)
            out.visible[y, x] = _shown(
                there, lenses, maps.back[row], slot, rules, start, share, end, moved[2]
            )


# --- a view ---------------------------------------------------------------------------------------


def each(cameras: Camera | list[Camera], frames: int) -> list[Camera]:
    """One camera per frame."""
    return [cameras] * frames if isinstance(cameras, Camera) else cameras


def point_maps(
    motion: ObjectMotion, here: Camera, there: Camera, world: WorldFrame, t: int
) -> PointMaps:
    """Maps of the points that one camera sees to the next frame's camera, for each slot.

    A point is ``x`` in space, ``R x + r`` in camera coordinates, and ``M x + b`` in the next frame.
    """
    (R, r), (R2, r2), P = _pose(here), _pose(there), _to_physics(world)
    M, b = motion.steps(t)
    change = M - np.eye(3)
    onward = _affine(R2 @ M @ R.T, (b - M @ R.T @ r) @ R2.T + r2)
    displaced = _affine(P @ change @ R.T, (b - change @ R.T @ r) @ P.T)
    far = _affine((R2 @ R.T)[None], np.zeros((1, 3)))
    onward, displaced = np.concatenate([onward, far]), np.concatenate([displaced, 0 * far])
    A = np.linalg.inv(onward[..., :3])
    back = _affine(A, -np.einsum("sij,sj->si", A, onward[..., 3]))
    return PointMaps(onward, back, displaced)


def _pose(camera: Camera) -> tuple[Array, Array]:
    w2c = camera.w2c.double().numpy()
    return w2c[:3, :3], w2c[:3, 3]


def _affine(A: Array, b: Array) -> Array:
    """``(n, 3, 4)``."""
    return np.ascontiguousarray(np.concatenate([A, b[..., None]], -1))


def _to_physics(world: WorldFrame) -> Array:
    """Matrix ``(3, 3)`` that takes displacements in the scene to the physics frame."""
    axes = world.to_physics(torch.eye(3, dtype=torch.float64)) - world.offset
    return axes.numpy().T


def lens_of(camera: Camera) -> Lens:
    """Focal lengths and principal point of a camera."""
    K = camera.K.double().numpy()
    return Lens(*(float(x) for x in (K[0, 0], K[1, 1], K[0, 2], K[1, 2])))


def label_view(
    animation: Animation,
    cameras: Camera | list[Camera],
    color: tuple[float, float, float],
    drawn: Callable[..., Iterator[tuple[Any, Labels]]] = labelled,
    same_share: float = SAME_SHARE,
) -> ViewLabels:
    """Draw and label all frames of one view; ``drawn`` is the renderer.

    Points whose share of the light changes by ``same_share`` or more are marked as not visible.
    """
    motion, views = ObjectMotion.of(animation), each(cameras, len(animation))
    T, H, W = len(animation), views[0].height, views[0].width
    out = ViewLabels(
        np.empty((T, H, W, 3), np.uint8), np.empty((T, H, W), np.uint8),
        np.empty((T, H, W), np.uint8), np.empty((T, H, W), HALF),
        np.zeros((T - 1, H, W, 2), HALF), np.zeros((T - 1, H, W, 3), HALF),
        np.zeros((T - 1, H, W), bool),
    )  # fmt: skip
    before: Labels | None = None
    rules = Rules(motion.objects, isinstance(cameras, Camera), same_share)
    frames = drawn(animation.frames(), cameras, color, motion.slots, motion.objects)
    for t, (picture, labels) in enumerate(frames):
        out.rgb[t] = to_bytes(picture)
        inside = (labels.slot >= 0) & (labels.slot < motion.objects)
        out.ids[t] = np.where(inside, labels.slot + 1, 0)
        out.share[t] = np.rint(255 * labels.share)
        out.depth[t] = np.minimum(animation.world.scale * labels.depth, LARGEST_LABEL)
        if before is not None:
            maps = point_maps(motion, views[t - 1], views[t], animation.world, t - 1)
            lenses = lens_of(views[t - 1]), lens_of(views[t])
            flow = Flow.empty(H, W)
            fill(before, labels, lenses, maps, rules, flow)
            out.flow[t - 1], out.scene_flow[t - 1], out.visible[t - 1] = flow
        before = labels
    return out

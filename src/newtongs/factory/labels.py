"""Pictures of a film and their labels: ids, shares, depth, optical flow and scene flow.

A pixel's point in space follows from its depth; its way to the next frame is the affine map of the
object that the pixel shows, and the camera's own. So flow is as exact as the states are, at
occlusions and in fast rotations too. Nothing is estimated from pictures.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ..render.ewa_labels import pictures
from ..render.labels import NOTHING, Labels
from ..render.video import to_bytes
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.gaussians import BACKGROUND
from .views import each

Array: TypeAlias = npt.NDArray[Any]

SAME_DEPTH = 0.02  # relative: a point this near to what the next frame shows there is what it shows
SAME_PLACE = 1.0  # pixels: likewise what the next frame shows there must have come from here
HALF = np.float16
PIXEL_STEP = 1 / 64  # flow is rounded to this: a tenth of what matters, and half the bytes
METRE_STEP = 2.0**-13  # scene flow likewise: an eighth of a millimetre
LARGEST = 60_000  # in half precision; a point that comes into the camera's plane flows without end


class ViewLabels(NamedTuple):
    """One view of a film. Lengths are metres, as in the physics frame; ``flow`` has pixels."""

    rgb: Array
    """``(T, H, W, 3)`` uint8."""
    ids: Array
    """``(T, H, W)`` uint8: 0 for what does not move, ``i + 1`` for object ``i``."""
    share: Array
    """``(T, H, W)`` uint8: part of the pixel's light that comes from what ``ids`` names; 255: all.

    Where it is less, two things are mixed that may move apart; the other labels are those of one.
    For id 0 it is all light that does not come from objects.
    """
    depth: Array
    """``(T, H, W)`` float16 along the camera's axis; 0 where nothing is."""
    flow: Array
    """``(T - 1, H, W, 2)`` float16: where the pixel's point is in the next frame, minus here."""
    scene_flow: Array
    """``(T - 1, H, W, 3)`` float16: the same point's way in the physics frame."""
    visible: Array
    """``(T - 1, H, W)`` bool: whether the next frame shows that point."""


class Motion(NamedTuple):
    """What the labels need of an animation, in scene coordinates."""

    matrices: Array
    """``(S + 1, T, 3, 3)``: from frame 0 to each frame; the last slot stays."""
    shifts: Array
    """``(S + 1, T, 3)``."""
    slots: Array
    """``(N,)`` int16: slot of each Gaussian."""

    @classmethod
    def of(cls, animation: Animation) -> "Motion":
        """All objects in order of their ids, then the rest."""
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
        """How many; also the slot of the rest."""
        return len(self.matrices) - 1

    def carried(self, slot: Array, x: Array, t: int, to: int) -> Array:
        """Where points ``(n, 3)`` of slots ``(n,)`` in frame ``t`` are in frame ``to``."""
        step = self.matrices[:, to] @ np.linalg.inv(self.matrices[:, t])
        moved = np.einsum("nij,nj->ni", step[slot], x - self.shifts[slot, t])
        return moved + self.shifts[slot, to]


class Lens(NamedTuple):
    """A camera in float64."""

    K: Array
    R: Array
    t: Array

    @classmethod
    def of(cls, camera: Camera) -> "Lens":
        """Its numbers."""
        w2c = camera.w2c.double().numpy()
        return cls(camera.K.double().numpy(), w2c[:3, :3], w2c[:3, 3])

    def points(self, x: Array, y: Array, depth: Array) -> Array:
        """Points ``(n, 3)`` behind pixel coordinates."""
        f, c = self.K.diagonal()[:2], self.K[:2, 2]
        seen = np.stack([(x - c[0]) / f[0], (y - c[1]) / f[1], np.ones_like(x)], -1)
        return (depth[:, None] * seen - self.t) @ self.R

    def pixels(self, points: Array) -> tuple[Array, Array]:
        """Pixel coordinates ``(n, 2)`` and depth ``(n,)`` of points."""
        x = points @ self.R.T + self.t
        f, c = self.K.diagonal()[:2], self.K[:2, 2]
        return f * x[:, :2] / x[:, 2:] + c, x[:, 2]


def label_view(
    animation: Animation,
    cameras: Camera | list[Camera],
    color: tuple[float, float, float],
    drawn: Callable[..., Iterator[tuple[Any, Labels]]] = pictures,
) -> ViewLabels:
    """Draw and label all frames from one view; ``drawn`` is what draws."""
    motion, views = Motion.of(animation), each(cameras, len(animation))
    T, H, W = len(animation), views[0].height, views[0].width
    out = ViewLabels(
        np.empty((T, H, W, 3), np.uint8), np.empty((T, H, W), np.uint8),
        np.empty((T, H, W), np.uint8), np.empty((T, H, W), HALF),
        np.zeros((T - 1, H, W, 2), HALF), np.zeros((T - 1, H, W, 3), HALF),
        np.zeros((T - 1, H, W), bool),
    )  # fmt: skip
    before: Labels | None = None
    still = isinstance(cameras, Camera)
    frames = drawn(animation.frames(), cameras, color, motion.slots, motion.objects)
    for t, (picture, labels) in enumerate(frames):
        out.rgb[t] = to_bytes(picture)
        inside = (labels.slot >= 0) & (labels.slot < motion.objects)
        out.ids[t] = np.where(inside, labels.slot + 1, 0)
        out.share[t] = np.rint(255 * labels.share)
        out.depth[t] = np.minimum(animation.world.scale * labels.depth, LARGEST)
        if before is not None:
            step = Step(animation, motion, views, t - 1, before, labels)
            step.write(out, static=still)
        before = labels
    return out


class Step(NamedTuple):
    """From one frame to the next."""

    animation: Animation
    motion: Motion
    views: list[Camera]
    t: int
    here: Labels
    there: Labels

    def write(self, out: ViewLabels, *, static: bool) -> None:
        """Fill in the flow of frame ``t``; before a still camera only objects have any."""
        slot, t = self.here.slot, self.t
        if static:
            out.visible[t] = self.there.slot == slot
            rows, columns = np.nonzero((slot >= 0) & (slot < self.motion.objects))
        else:
            rows, columns = np.nonzero(slot != NOTHING)
            out.flow[t] = rounded(self._sky(), PIXEL_STEP)
        if not len(rows):
            return
        x, y = columns + 0.5, rows + 0.5
        lens, after = Lens.of(self.views[t]), Lens.of(self.views[t + 1])
        points = lens.points(x, y, self.here.depth[rows, columns].astype(float))
        moved = self.motion.carried(slot[rows, columns], points, t, t + 1)
        pixels, depth = after.pixels(moved)
        here = np.stack([x, y], -1)
        out.flow[t, rows, columns] = rounded(pixels - here, PIXEL_STEP)
        way = self._in_physics(moved - points)
        out.scene_flow[t, rows, columns] = rounded(way, METRE_STEP)
        out.visible[t, rows, columns] = self._shown(slot[rows, columns], here, pixels, depth)

    def _in_physics(self, way: Array) -> Array:
        """Displacements ``(n, 3)`` of the scene in the physics frame."""
        world = self.animation.world
        there = world.to_physics(torch.from_numpy(way)) - world.offset
        return there.numpy()

    def _shown(self, slot: Array, here: Array, pixels: Array, depth: Array) -> Array:
        """Whether the next frame shows the points that go from ``here`` to ``pixels`` at ``depth``.

        Depth alone would take the back of a small thing far off for its front, after it has turned.
        What stands still turns by the camera alone, which is next to nothing in a frame.
        """
        height, width = self.there.slot.shape
        column, row = np.floor(np.nan_to_num(pixels, nan=-1.0).clip(-1, 1e6)).astype(int).T
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (depth > 0)
        at = row.clip(0, height - 1), column.clip(0, width - 1)
        near = np.abs(self.there.depth[at] - depth) < SAME_DEPTH * depth
        shown = inside & (self.there.slot[at] == slot) & near
        may_turn = shown & (slot < self.motion.objects)
        found = self._whence(slot[may_turn], pixels[may_turn], self.there.depth[at][may_turn])
        shown[may_turn] = np.linalg.norm(found - here[may_turn], axis=-1) < SAME_PLACE
        return shown

    def _whence(self, slot: Array, pixels: Array, depth: Array) -> Array:
        """Pixel coordinates ``(n, 2)`` in this frame of what the next one shows at ``pixels``."""
        lens, after = Lens.of(self.views[self.t]), Lens.of(self.views[self.t + 1])
        points = after.points(pixels[:, 0], pixels[:, 1], depth.astype(float))
        return lens.pixels(self.motion.carried(slot, points, self.t + 1, self.t))[0]

    def _sky(self) -> Array:
        """Flow of a picture ``(H, W, 2)`` of what is infinitely far off."""
        lens, after = Lens.of(self.views[self.t]), Lens.of(self.views[self.t + 1])
        rows, columns = np.indices(self.here.slot.shape)
        x, y = columns.ravel() + 0.5, rows.ravel() + 0.5
        away = lens._replace(t=np.zeros(3)).points(x, y, np.ones_like(x))
        pixels, _ = after._replace(t=np.zeros(3)).pixels(away)
        return (pixels - np.stack([x, y], -1)).reshape(*rows.shape, 2)


def rounded(x: Array, step: float) -> Array:
    """To multiples of ``step``, and to what half precision holds."""
    return np.nan_to_num(step * np.rint(x / step)).clip(-LARGEST, LARGEST)

"""Pictures of a film and their labels: ids, shares, depth, optical flow and scene flow.

A pixel's point in space follows from the depth of its flow; its way to the next frame is the affine
map of the object that the pixel shows, and the camera's own. So flow is as exact as the states are,
at occlusions and in fast rotations too. Nothing is estimated from pictures.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ..render.ewa_labels import pictures
from ..render.labels import Labels
from ..render.video import to_bytes
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.gaussians import BACKGROUND
from ..scene.world_frame import WorldFrame
from .flow import LARGEST, SAME_SHARE, Flow, Lens, Rules, Ways, fill
from .views import each

Array: TypeAlias = npt.NDArray[Any]

HALF = np.float16


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
    """``(T - 1, H, W, 2)`` float16: where the pixel's point is in the next frame, minus here.

    The point lies a little before ``depth``, see ``Labels.flow_depth``.
    """
    scene_flow: Array
    """``(T - 1, H, W, 3)`` float16: the same point's way in the physics frame."""
    visible: Array
    """``(T - 1, H, W)`` bool: whether the next frame shows that point, and as much of it."""


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

    def steps(self, t: int) -> tuple[Array, Array]:
        """Matrices ``(S + 1, 3, 3)`` and shifts ``(S + 1, 3)`` from frame ``t`` to the next."""
        M = self.matrices[:, t + 1] @ np.linalg.inv(self.matrices[:, t])
        return M, self.shifts[:, t + 1] - np.einsum("sij,sj->si", M, self.shifts[:, t])


def ways_of(motion: Motion, here: Camera, there: Camera, world: WorldFrame, t: int) -> Ways:
    """Where points that a camera sees go until the next frame's camera sees them.

    A point is ``x`` in space, ``R x + r`` before a camera, and ``M x + b`` in the next frame.
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
    return Ways(onward, back, displaced)


def _pose(camera: Camera) -> tuple[Array, Array]:
    w2c = camera.w2c.double().numpy()
    return w2c[:3, :3], w2c[:3, 3]


def _affine(A: Array, b: Array) -> Array:
    """``(n, 3, 4)``."""
    return np.ascontiguousarray(np.concatenate([A, b[..., None]], -1))


def _to_physics(world: WorldFrame) -> Array:
    """Matrix ``(3, 3)`` of displacements in the scene to those in the physics frame."""
    axes = world.to_physics(torch.eye(3, dtype=torch.float64)) - world.offset
    return axes.numpy().T


def lens_of(camera: Camera) -> Lens:
    """Its numbers."""
    K = camera.K.double().numpy()
    return Lens(*(float(x) for x in (K[0, 0], K[1, 1], K[0, 2], K[1, 2])))


def label_view(
    animation: Animation,
    cameras: Camera | list[Camera],
    color: tuple[float, float, float],
    drawn: Callable[..., Iterator[tuple[Any, Labels]]] = pictures,
    same_share: float = SAME_SHARE,
) -> ViewLabels:
    """Draw and label all frames from one view; ``drawn`` is what draws.

    Points whose share of light differs by ``same_share`` or more in the next frame are not visible.
    """
    motion, views = Motion.of(animation), each(cameras, len(animation))
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
        out.depth[t] = np.minimum(animation.world.scale * labels.depth, LARGEST)
        if before is not None:
            ways = ways_of(motion, views[t - 1], views[t], animation.world, t - 1)
            lenses = lens_of(views[t - 1]), lens_of(views[t])
            flow = Flow.empty(H, W)
            fill(before, labels, lenses, ways, rules, flow)
            out.flow[t - 1], out.scene_flow[t - 1], out.visible[t - 1] = flow
        before = labels
    return out

"""Gaussians as splat nodes of a browser's scene: float32 positions, float16 covariances.

The Gaussians of a node are relative to its own origin and divided by a length ``unit``, so that
their covariances fit into float16; the node's scale undoes this. While an object moves, only the
pose of its node changes.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.state import LAYOUT
from ..base.types import Array, StateTensor, Vec3
from ..pipeline.pick import Layout
from ..scene.frames import ALWAYS, FIRST, LATER
from ..scene.gaussians import BACKGROUND, SH_C0, GaussianScene
from ..scene.world_frame import WorldFrame

TINT = (1.0, 0.55, 0.1)  # colour of a selected object
TINTED = 0.4  # weight of the tint
TYPICAL = 0.1  # median standard deviation of the Gaussians, units of their node
LARGEST_DEVIATION = 200.0  # largest standard deviation, units of a node; float16 ends at 65,504


class Splats(NamedTuple):
    """Arguments of viser's ``add_gaussian_splats``, and the unit of the node."""

    centers: Array
    """``(N, 3)``, float32."""
    covariances: Array
    """``(N, 3, 3)``."""
    rgbs: Array
    """``(N, 3)`` from 0 to 1."""
    opacities: Array
    """``(N, 1)``."""
    unit: float
    """Scene units per unit of the node."""

    def tinted(self) -> "Splats":
        """The same splats, tinted as selected."""
        rgbs = (1 - TINTED) * self.rgbs + TINTED * np.array(TINT, dtype=np.float32)
        return self._replace(rgbs=rgbs)

    def in_units_of(self, unit: float) -> "Splats":
        """The same splats for another unit of the node."""
        k = self.unit / unit
        return self._replace(
            centers=k * self.centers, covariances=k * k * self.covariances, unit=unit
        )


def splats(scene: GaussianScene, origin: Vec3, axes: Tensor | None = None) -> Splats:
    """Gaussians relative to ``origin (3,)``, in the ``axes`` (a quaternion) if given.

    Colour is averaged over all directions: the browser's nodes have no view-dependent colour.
    """
    sigma = scene.scales.amax(-1)
    unit = max(float(sigma.median()) / TYPICAL, 1e-12) if len(scene) else 1.0
    g, m = scene.means.double() - origin, rotations.to_matrix(scene.quats)
    if axes is not None:
        back = rotations.to_matrix(rotations.conjugate(axes))
        g, m = g @ back.T, back.to(m) @ m
    m = m * (scene.scales / unit).clamp(max=LARGEST_DEVIATION).unsqueeze(-2)
    rgbs = (0.5 + SH_C0 * scene.sh[:, 0]).clamp(0, 1)
    return Splats(
        (g / unit).float().numpy(), (m @ m.mT).numpy(), rgbs.numpy(),
        scene.opacities.unsqueeze(-1).numpy(), unit,
    )  # fmt: skip


class Pose(NamedTuple):
    """Pose and size of a node."""

    position: Array
    wxyz: Array
    scale: tuple[float, float, float]


def still_pose(world: WorldFrame, origin: Vec3, unit: float) -> Pose:
    """The pose of a static node in the physics frame."""
    k = unit * world.scale
    return Pose(world.to_physics(origin).numpy(), world.rotation.numpy(), (k, k, k))


def moving_pose(world: WorldFrame, unit: float, start: StateTensor, z: StateTensor) -> Pose:
    """Pose of an object at a state ``(22,)`` of the physics frame; ``start`` is its first state."""
    (pose,) = moving_poses(world, [unit], [start], z.unsqueeze(0))
    return pose


def moving_poses(
    world: WorldFrame, units: list[float], starts: list[StateTensor], states: StateTensor
) -> list[Pose]:
    """Poses of objects at states ``(K, 22)``; in numpy, for speed: called 60 times per second."""
    x = states.double().numpy()
    q, first = x[:, LAYOUT["q"]], np.array([z.numpy()[LAYOUT["s"]] for z in starts], np.float64)
    lengths = np.maximum(np.sqrt(np.einsum("ki,ki->k", q, q)), rotations.NORM_FLOOR)
    q = q / lengths[:, None]
    scales = world.scale * np.array(units)[:, None] * x[:, LAYOUT["s"]] / first
    p, sizes = x[:, LAYOUT["p"]], scales.tolist()
    return [Pose(p[i], q[i], (a, b, c)) for i, (a, b, c) in enumerate(sizes)]


def add_splats(api: Any, name: str, made: Splats, pose: Pose) -> Any:
    """Add a splat node to a viser scene."""
    return api.add_gaussian_splats(
        name, made.centers, made.covariances, made.rgbs, made.opacities,
        scale=pose.scale, wxyz=pose.wxyz, position=pose.position,
    )  # fmt: skip


def place(node: Any, pose: Pose) -> None:
    """Set a node's pose and size; only changes are sent."""
    move(node, pose)
    resize(node, pose)


@cache
def _viser_messages() -> Any:
    from viser import _messages

    return _messages


def move(node: Any, pose: Pose) -> None:
    """Set a node's position and orientation.

    Unlike viser's own setters, this compares exactly. Their comparison with a tolerance takes
    longer than everything else, and suppresses slow motion.
    """
    impl, messages = node._impl, _viser_messages()
    p, q = tuple(pose.position.tolist()), tuple(pose.wxyz.tolist())
    if p != tuple(impl.position.tolist()):
        impl.position[:] = p
        impl.api._queue_scene_message(messages.SetPositionMessage(impl.name, p))
    if q != tuple(impl.wxyz.tolist()):
        impl.wxyz[:] = q
        impl.api._queue_scene_message(messages.SetOrientationMessage(impl.name, q))


def resize(node: Any, pose: Pose) -> None:
    """Set a node's size; rounding differences are not sent."""
    pairs = zip(node.scale, pose.scale, strict=True)
    if not all(math.isclose(a, b, rel_tol=1e-12) for a, b in pairs):
        node.scale = pose.scale


def show(node: Any, visible: bool) -> None:
    """Show or hide a node."""
    if node.visible != visible:
        node.visible = visible


class Parts(NamedTuple):
    """Masks ``(N,)`` of a layout's Gaussians by object and by when they are visible."""

    rest: Tensor
    """Static Gaussians of the capture."""
    more: Tensor
    """New static Gaussians, always visible."""
    first: Tensor
    """Visible in frame 0 only."""
    later: Tensor
    """Visible from frame 1 on."""
    objects: list[Tensor]
    later_of_objects: list[Tensor]


def parts(layout: Layout) -> Parts:
    """Divide a layout into nodes."""
    ids, rows, n = layout.scene.ids, layout.rows, len(layout.scene)
    when = (
        torch.full((n,), ALWAYS, dtype=torch.uint8) if layout.presence is None else layout.presence
    )
    still, old = ids == BACKGROUND, rows >= 0
    return Parts(
        still & (when == ALWAYS) & old, still & (when == ALWAYS) & ~old,
        still & (when == FIRST), still & (when == LATER),
        [(ids == i) & (when != LATER) for i in layout.indices],
        [(ids == i) & (when == LATER) for i in layout.indices],
    )  # fmt: skip


def box_lines(boxes: Array) -> Array:
    """Edges ``(12 N, 2, 3)`` of boxes ``(N, 2, 3)``, given by lowest and highest corner."""
    corner = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    pairs = [(a, b) for a in range(8) for b in range(a) if np.abs(corner[a] - corner[b]).sum() == 1]
    low, high = boxes[:, None, 0], boxes[:, None, 1]
    points = low + corner[None] * (high - low)
    return points[:, np.array(pairs)].reshape(-1, 2, 3).astype(np.float32)

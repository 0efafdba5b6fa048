"""Gaussians as the nodes of a browser's scene: positions by float32, shapes by float16.

A node holds its Gaussians about its own origin and divided by a length ``unit``, so that float16
holds their covariances; the node's scale undoes that. Only the node's pose changes while it moves.
"""

import math
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import rotations
from ..scene.frames import ALWAYS, FIRST, LATER
from ..scene.gaussians import BACKGROUND, SH_C0, GaussianScene
from ..scene.world_frame import WorldFrame
from ..stage import Stage
from ..state import LAYOUT
from ..types import StateTensor, Vec3

Array: TypeAlias = npt.NDArray[Any]

TINT = (1.0, 0.55, 0.1)  # of what is selected
TINTED = 0.4  # how much of it
TYPICAL = 0.1  # standard deviation that most Gaussians have in a node
LARGEST = 200.0  # standard deviation there; float16 ends at 65,504


class Splats(NamedTuple):
    """Arguments of viser's ``add_gaussian_splats``, and what its pose needs."""

    centers: Array
    """``(N, 3)``, float32."""
    covariances: Array
    """``(N, 3, 3)``."""
    rgbs: Array
    """``(N, 3)`` from 0 to 1."""
    opacities: Array
    """``(N, 1)``."""
    unit: float
    """Scene units in a unit of the node."""

    def tinted(self) -> "Splats":
        """The same in the colour of a selection."""
        rgbs = (1 - TINTED) * self.rgbs + TINTED * np.array(TINT, dtype=np.float32)
        return self._replace(rgbs=rgbs)

    def in_units_of(self, unit: float) -> "Splats":
        """The same where a unit of the node is another."""
        k = self.unit / unit
        return self._replace(
            centers=k * self.centers, covariances=k * k * self.covariances, unit=unit
        )


def splats(scene: GaussianScene, origin: Vec3, axes: Tensor | None = None) -> Splats:
    """Gaussians about ``origin (3,)``, along the ``axes`` (a quaternion) if given.

    Colour is that of all directions together: a browser's nodes know no other.
    """
    sigma = scene.scales.amax(-1)
    unit = max(float(sigma.median()) / TYPICAL, 1e-12) if len(scene) else 1.0
    g, m = scene.means.double() - origin, rotations.to_matrix(scene.quats)
    if axes is not None:
        back = rotations.to_matrix(rotations.conjugate(axes))
        g, m = g @ back.T, back.to(m) @ m
    m = m * (scene.scales / unit).clamp(max=LARGEST).unsqueeze(-2)
    rgbs = (0.5 + SH_C0 * scene.sh[:, 0]).clamp(0, 1)
    return Splats(
        (g / unit).float().numpy(), (m @ m.mT).numpy(), rgbs.numpy(),
        scene.opacities.unsqueeze(-1).numpy(), unit,
    )  # fmt: skip


class Pose(NamedTuple):
    """Of a node."""

    position: Array
    wxyz: Array
    scale: tuple[float, float, float]


def still_pose(world: WorldFrame, origin: Vec3, unit: float) -> Pose:
    """Of what does not move, in the physics frame."""
    k = unit * world.scale
    return Pose(world.to_physics(origin).numpy(), world.rotation.numpy(), (k, k, k))


def moving_pose(world: WorldFrame, unit: float, start: StateTensor, z: StateTensor) -> Pose:
    """Of an object at a state ``(22,)`` of the physics frame; ``start`` is its first one."""
    (pose,) = moving_poses(world, [unit], [start], z.unsqueeze(0))
    return pose


def moving_poses(
    world: WorldFrame, units: list[float], starts: list[StateTensor], states: StateTensor
) -> list[Pose]:
    """Of objects at states ``(K, 22)``; by numpy: a few numbers, sixty times a second."""
    x = states.double().numpy()
    q, first = x[:, LAYOUT["q"]], np.array([z.numpy()[LAYOUT["s"]] for z in starts], np.float64)
    lengths = np.maximum(np.sqrt(np.einsum("ki,ki->k", q, q)), rotations.NORM_FLOOR)
    q = q / lengths[:, None]
    scales = world.scale * np.array(units)[:, None] * x[:, LAYOUT["s"]] / first
    p, sizes = x[:, LAYOUT["p"]], scales.tolist()
    return [Pose(p[i], q[i], (a, b, c)) for i, (a, b, c) in enumerate(sizes)]


def add_splats(api: Any, name: str, made: Splats, pose: Pose) -> Any:
    """A new node of a viser scene."""
    return api.add_gaussian_splats(
        name, made.centers, made.covariances, made.rgbs, made.opacities,
        scale=pose.scale, wxyz=pose.wxyz, position=pose.position,
    )  # fmt: skip


def place(node: Any, pose: Pose) -> None:
    """Set a node's pose and size; only what has changed is sent."""
    move(node, pose)
    resize(node, pose)


@cache
def _viser_messages() -> Any:
    from viser import _messages

    return _messages


def move(node: Any, pose: Pose) -> None:
    """Set where a node is.

    As viser's own setters do, but for their comparison with a tolerance: it takes longer than all
    the rest, and holds slow things back.
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
    """Set how large a node is; a last digit is no change."""
    pairs = zip(node.scale, pose.scale, strict=True)
    if not all(math.isclose(a, b, rel_tol=1e-12) for a, b in pairs):
        node.scale = pose.scale


def show(node: Any, visible: bool) -> None:
    """Show or hide a node."""
    if node.visible != visible:
        node.visible = visible


class Parts(NamedTuple):
    """Masks ``(N,)`` of a stage's Gaussians by when and with what they are to be seen."""

    rest: Tensor
    """Of the capture, where they were."""
    more: Tensor
    """Always, and new."""
    first: Tensor
    """In frame 0 alone."""
    later: Tensor
    """From frame 1 on."""
    objects: list[Tensor]
    later_of_objects: list[Tensor]


def parts(stage: Stage, rows: Tensor) -> Parts:
    """How a stage is cut into nodes; ``rows`` are those of the capture, or -1."""
    ids, n = stage.scene.ids, len(stage.scene)
    when = torch.full((n,), ALWAYS, dtype=torch.uint8) if stage.presence is None else stage.presence
    still, old = ids == BACKGROUND, rows >= 0
    return Parts(
        still & (when == ALWAYS) & old, still & (when == ALWAYS) & ~old,
        still & (when == FIRST), still & (when == LATER),
        [(ids == i) & (when != LATER) for i in stage.indices],
        [(ids == i) & (when == LATER) for i in stage.indices],
    )  # fmt: skip


def box_lines(boxes: Array) -> Array:
    """Edges ``(12 N, 2, 3)`` of boxes ``(N, 2, 3)``, each a lowest and a highest corner."""
    corner = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    pairs = [(a, b) for a in range(8) for b in range(a) if np.abs(corner[a] - corner[b]).sum() == 1]
    low, high = boxes[:, None, 0], boxes[:, None, 1]
    points = low + corner[None] * (high - low)
    return points[:, np.array(pairs)].reshape(-1, 2, 3).astype(np.float32)

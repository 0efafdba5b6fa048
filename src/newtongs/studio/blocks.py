"""The static scene as up to 32 splat nodes, each sent once.

A browser's node can only be replaced as a whole. So the Gaussians are sorted by object and position
and divided into blocks. Extracting an object makes its Gaussians invisible in the static scene, and
only the few blocks that contain it are sent again. The number of Gaussians in a block never
changes, so nothing flickers.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base.types import Array, Vec3
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.world_frame import WorldFrame
from ..segment.objects.clusters import Cluster
from .nodes import TINT, TINTED, add_splats, place, splats, still_pose

BLOCKS = 32  # maximum number of nodes
LEAST = 4096  # minimum number of Gaussians per block
CELLS = 1024  # along each axis, for sorting by position
OPAQUE = np.uint32(0xFF000000)  # the bits of a Gaussian's opacity in a node's buffer


class Block(NamedTuple):
    """One node of the static scene."""

    node: Any
    rows: Tensor
    """Rows of its Gaussians in the scene ``(n,)``."""
    colors: Array
    """Red, green, blue and opacity ``(n,)``, one byte each, as first sent."""
    origin: Vec3
    unit: float


class Rest:
    """All Gaussians of a scene, some of them hidden."""

    def __init__(
        self, api: Any, scene: GaussianScene, clusters: list[Cluster], name: str = "/rest"
    ) -> None:
        """``api`` is a viser server's scene; :meth:`place` positions the nodes."""
        self.scene, self.hidden = scene, torch.zeros(len(scene), dtype=torch.bool)
        self.tinted = self.hidden.clone()
        plain = scene.replace(sh=scene.sh[:, :1])
        size = max(LEAST, -(-len(scene) // BLOCKS))
        self.blocks = [
            _block(api, f"{name}/{k}", plain, rows)
            for k, rows in enumerate(order(scene, clusters).split(size))
        ]

    def place(self, world: WorldFrame) -> None:
        """Position the nodes in the physics frame."""
        for block in self.blocks:
            place(block.node, still_pose(world, block.origin, block.unit))

    def paint(self, *, hidden: Tensor | None = None, tinted: Tensor | None = None) -> int:
        """Hide the Gaussians of a mask ``(N,)``, tint those of another, show all others unchanged.

        Returns the number of blocks sent.
        """
        none = torch.zeros_like(self.hidden)
        hidden, tinted = none if hidden is None else hidden, none if tinted is None else tinted
        touched = (hidden != self.hidden) | (tinted != self.tinted)
        sent = [block for block in self.blocks if touched[block.rows].any()]
        for block in sent:
            colors = np.where(tinted[block.rows].numpy(), _tinted(block.colors), block.colors)
            buffer = block.node.buffer.copy()
            buffer[:, 7] = np.where(hidden[block.rows].numpy(), colors & ~OPAQUE, colors)
            block.node.buffer = buffer
        self.hidden, self.tinted = hidden.clone(), tinted.clone()
        return len(sent)

    def remove(self) -> None:
        """Remove all nodes from the page."""
        for block in self.blocks:
            block.node.remove()


def _tinted(colors: Array) -> Array:
    """Tint colours ``(n,)`` of one byte per channel; opacity is kept."""
    rgba = colors.view(np.uint8).reshape(-1, 4).copy()
    rgba[:, :3] = (1 - TINTED) * rgba[:, :3] + TINTED * 255 * np.array(TINT)
    return rgba.view(np.uint32)[:, 0]


def _block(api: Any, name: str, scene: GaussianScene, rows: Tensor) -> Block:
    part = scene[rows]
    origin = part.means.double().median(0).values
    made = splats(part, origin)
    node = add_splats(api, name, made, still_pose(WorldFrame.identity(), origin, made.unit))
    return Block(node, rows, node.buffer[:, 7].copy(), origin, made.unit)


def order(scene: GaussianScene, clusters: list[Cluster]) -> Tensor:
    """Rows ``(N,)`` sorted by object, and within an object by position."""
    owner = scene.ids.clone()
    for found in clusters:
        owner[found.mask & (owner == BACKGROUND)] = found.id
    ends = _ends(scene.means)
    cell = (scene.means - ends[0]) / (ends[1] - ends[0]).clamp_min(1e-12) * CELLS
    codes = _interleaved(cell.nan_to_num(0).clamp(0, CELLS - 1).long())
    return (((owner + 1) << 30) | codes).argsort()


def _ends(x: Vec3) -> Tensor:
    """The 1 % and 99 % quantiles of positions ``(2, 3)``, from a sample."""
    some = x[:: max(1, len(x) // 100_000)]
    return some.quantile(x.new_tensor([0.01, 0.99]), dim=0)


def _interleaved(cell: Tensor) -> Tensor:
    """Morton codes: the interleaved bits of three integers below 1024 ``(N, 3)``."""
    x = cell
    for shift, mask in ((16, 0x30000FF), (8, 0x300F00F), (4, 0x30C30C3), (2, 0x9249249)):
        x = (x | (x << shift)) & mask
    return x[:, 0] | (x[:, 1] << 1) | (x[:, 2] << 2)

"""The things of a scene as a list: where each is, how large, and what it stands on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..base.types import Vec3
from ..scene.gaussians import GaussianScene
from ..scene.similarity import VISIBLE
from ..scene.world_frame import WorldFrame
from ..segment.objects.clusters import Cluster
from .overview import box_around

NEAR = 0.25  # of a thing's size: so near to its foot, a surface carries it
DIGITS = 5  # of a number in the json


@dataclass(frozen=True)
class Entry:
    """One thing. Lengths are in metres, those of ``animate``, unless they end in ``_scene``."""

    select: str
    """The selector of ``animate --select``."""
    gaussians: int
    score: float
    """How object-like it is, 0 to 1."""
    center: list[float]
    """x, y, z: to the side, above the floor, to the side, as in ``--goal "land at X Z"``."""
    size: list[float]
    """Along the same axes."""
    stands_on: str
    """``floor``, the selector of another thing, ``plane``, or ``nothing``."""
    above_floor: float
    """Height of what it stands on above the floor; if that is nothing, of its own foot."""
    box: list[list[float]]
    """Lowest and highest corner."""
    center_scene: list[float]
    size_scene: list[float]
    """Along the axes of the scene."""


def inventory(scene: GaussianScene, world: WorldFrame, clusters: Sequence[Cluster]) -> list[Entry]:
    """All clusters, in order."""
    boxes = [_box(scene[cluster.rows], world) for cluster in clusters]
    return [_entry(clusters, boxes, i, world) for i in range(len(clusters))]


def to_json(entry: Entry) -> dict[str, Any]:
    """An entry as json, with few digits."""
    return {key: _short(value) for key, value in asdict(entry).items()}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_short(x) for x in value] if isinstance(value, list) else value


def _box(thing: GaussianScene, world: WorldFrame) -> Tensor:
    """Corners ``(2, 3)`` of a thing in the physics frame."""
    clear = thing.means[thing.opacities >= VISIBLE]
    return box_around(world.to_physics((clear if len(clear) else thing.means).double()))


def _entry(clusters: Sequence[Cluster], boxes: list[Tensor], i: int, world: WorldFrame) -> Entry:
    cluster, (low, high) = clusters[i], boxes[i]
    foot, near = float(low[1]), NEAR * float((high - low).amax())
    base = world.scale * cluster.base
    carrier = _carrier(boxes, i, near)
    if carrier is not None:
        on, height = f"cluster:{clusters[carrier].id}", float(boxes[carrier][1, 1])
    elif cluster.base > 0:
        on, height = "plane", base
    else:
        on, height = ("floor", 0.0) if foot < near else ("nothing", foot)
    return Entry(
        f"cluster:{cluster.id}", cluster.count, cluster.score, ((low + high) / 2).tolist(),
        (high - low).tolist(), on, height, [low.tolist(), high.tolist()],
        cluster.center.tolist(), cluster.size.tolist(),
    )  # fmt: skip


def _carrier(boxes: Sequence[Vec3], i: int, near: float) -> int | None:
    """The thing under the middle of another one, with its top at the other's foot."""
    (low, high), flat = boxes[i], torch.tensor([0, 2])
    middle = ((low + high) / 2)[flat]
    for j, (under, top) in enumerate(boxes):
        wide = (top - under)[flat].prod() > (high - low)[flat].prod()
        around = ((under[flat] < middle) & (middle < top[flat])).all()
        if j != i and wide and around and abs(float(top[1] - low[1])) < near:
            return j
    return None

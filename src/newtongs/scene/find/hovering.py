"""What hovers beside a larger thing belongs to it: a robot's hands, the crown over a trunk.

Nothing hovers by itself. A cluster far above the floor, with nothing else around it, is held by the
thing next to it, however thin or badly captured what joins them is.
"""

from collections.abc import Iterator

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ...types import Vec3
from ..gaussians import GaussianScene
from .samples import SOLID

LARGER = 3.0  # times as many Gaussians has the thing that it belongs to, at least
NEAR = 0.25  # of that thing's size: so far away it may be
AROUND = 0.5  # of its own size: so far on every side
ALONE = 0.02  # of its count: so many others may be there
SOME = 4096  # Gaussians of either among which the nearest are looked for


def joined(scene: GaussianScene, h: Tensor, labels: Tensor) -> Tensor:
    """Labels ``(N,)`` of clusters, or -1, in which those that hover are what they belong to.

    ``h (N,)`` is the height over the floor. Labels are numbered anew.
    """
    rows = (labels >= 0).nonzero().squeeze(-1)
    if not len(rows):
        return labels
    count = torch.bincount(labels[rows])
    smallest_first = count.argsort()
    for one in smallest_first[_hover(h[rows], labels[rows])[smallest_first]].tolist():
        host = _host(scene, labels, (labels == one).nonzero().squeeze(-1), count)
        if host is not None:
            labels = labels.masked_fill(labels == one, host)
    kept = torch.bincount(labels[rows], minlength=len(count)) > 0
    renamed = torch.where(kept, kept.cumsum(0) - 1, -1)
    return torch.where(labels >= 0, renamed[labels], -1)


def _hover(h: Tensor, group: Tensor) -> Tensor:
    """Which groups ``(G,)`` have more room below them than they are high."""
    none = h.new_empty(int(group.max()) + 1)
    low = none.fill_(torch.inf).scatter_reduce(0, group, h, "amin")
    high = none.fill_(-torch.inf).scatter_reduce(0, group, h, "amax")
    return low > high - low


def _host(scene: GaussianScene, labels: Tensor, rows: Tensor, count: Tensor) -> int | None:
    """The nearest larger cluster, if it is near and nothing else is."""
    away = sorted(_larger_ones(scene, labels, rows, count))
    if not away or not _alone(scene, labels, rows, away[0][1]):
        return None
    return away[0][1]


def _larger_ones(
    scene: GaussianScene, labels: Tensor, rows: Tensor, count: Tensor
) -> Iterator[tuple[float, int]]:
    """Distances to clusters that are much larger and near, and which these are."""
    own = scene.means[rows]
    for other in (count > LARGER * len(rows)).nonzero().flatten().tolist():
        x = scene.means[labels == other]
        if len(x) and _gap(own, x) <= (limit := NEAR * float(_edges(x).amax())):
            distance = float(cKDTree(_some(x)).query(_some(own))[0].min())
            if distance <= limit:
                yield distance, other


def _alone(scene: GaussianScene, labels: Tensor, rows: Tensor, host: int) -> bool:
    """Whether nothing but ``host`` is around: no shelf, no wall, no lamp's cord."""
    own = scene.means[rows]
    room = AROUND * _edges(own).amax()
    low, high = own.amin(0) - room, own.amax(0) + room
    around = (scene.means > low).all(-1) & (scene.means < high).all(-1)
    others = around & (labels != host) & (labels != labels[rows[0]]) & (scene.opacities >= SOLID)
    return bool(others.sum() <= ALONE * len(rows))


def _gap(a: Vec3, b: Vec3) -> float:
    """Distance between the boxes around two sets of points ``(n, 3)``."""
    apart = torch.maximum(a.amin(0) - b.amax(0), b.amin(0) - a.amax(0))
    return float(torch.linalg.vector_norm(apart.clamp_min(0)))


def _edges(x: Vec3) -> Vec3:
    return x.amax(0) - x.amin(0)


def _some(x: Vec3) -> Tensor:
    return x[:: max(1, len(x) // SOME)].contiguous()

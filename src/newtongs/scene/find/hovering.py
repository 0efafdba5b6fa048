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
from .samples import SOLID, rows_in_box

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
    groups = _Groups(scene, labels.clone(), rows)
    smallest_first = groups.count.argsort()
    for one in smallest_first[_hover(h[rows], labels[rows])[smallest_first]].tolist():
        host = _host(groups, one)
        if host is not None:
            groups.join(one, host)
    return groups.renamed()


class _Groups:
    """Which Gaussians belong together, as ``labels (N,)`` and as indices of each group."""

    def __init__(self, scene: GaussianScene, labels: Tensor, rows: Tensor) -> None:
        self.scene, self.labels = scene, labels
        of_row = labels[rows]
        self.count = torch.bincount(of_row)
        """Gaussians of each before any were joined."""
        self.members = list(rows[of_row.argsort(stable=True)].split(self.count.tolist()))

    def means(self, one: int) -> Vec3:
        return self.scene.means[self.members[one]]

    def join(self, one: int, host: int) -> None:
        self.labels[self.members[one]] = host
        both = torch.cat([self.members[host], self.members[one]])
        self.members[host], self.members[one] = both.sort().values, both[:0]

    def renamed(self) -> Tensor:
        """Labels numbered without gaps."""
        kept = torch.tensor([len(x) > 0 for x in self.members])
        new = torch.where(kept, kept.cumsum(0) - 1, -1)
        return torch.where(self.labels >= 0, new[self.labels], -1)


def _hover(h: Tensor, group: Tensor) -> Tensor:
    """Which groups ``(G,)`` have more room below them than they are high."""
    none = h.new_empty(int(group.max()) + 1)
    low = none.fill_(torch.inf).scatter_reduce(0, group, h, "amin")
    high = none.fill_(-torch.inf).scatter_reduce(0, group, h, "amax")
    return low > high - low


def _host(groups: _Groups, one: int) -> int | None:
    """The nearest larger cluster, if it is near and nothing else is."""
    away = sorted(_larger_ones(groups, one))
    if not away or not _alone(groups, one, away[0][1]):
        return None
    return away[0][1]


def _larger_ones(groups: _Groups, one: int) -> Iterator[tuple[float, int]]:
    """Distances to clusters that are much larger and near, and which these are."""
    own = groups.means(one)
    for other in (groups.count > LARGER * len(own)).nonzero().flatten().tolist():
        x = groups.means(other)
        if len(x) and _gap(own, x) <= (limit := NEAR * float(_edges(x).amax())):
            distance = float(cKDTree(_some(x)).query(_some(own))[0].min())
            if distance <= limit:
                yield distance, other


def _alone(groups: _Groups, one: int, host: int) -> bool:
    """Whether nothing but ``host`` is around: no shelf, no wall, no lamp's cord."""
    own = groups.means(one)
    room = AROUND * _edges(own).amax()
    around = rows_in_box(groups.scene.means, own.amin(0) - room, own.amax(0) + room)
    label, opacity = groups.labels[around], groups.scene.opacities[around]
    others = (label != host) & (label != one) & (opacity >= SOLID)
    return bool(others.sum() <= ALONE * len(own))


def _gap(a: Vec3, b: Vec3) -> float:
    """Distance between the boxes around two sets of points ``(n, 3)``."""
    apart = torch.maximum(a.amin(0) - b.amax(0), b.amin(0) - a.amax(0))
    return float(torch.linalg.vector_norm(apart.clamp_min(0)))


def _edges(x: Vec3) -> Vec3:
    return x.amax(0) - x.amin(0)


def _some(x: Vec3) -> Tensor:
    return x[:: max(1, len(x) // SOME)].contiguous()

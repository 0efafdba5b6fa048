"""Finding the objects of a scene: connected components above the floor.

Opaque Gaussians above the floor fill a grid of voxels about as large as their spacing; connected
voxels form a cluster. Walls and other shells as wide as the floor are left out, and so are floaters
of a few Gaussians. Faint Gaussians join the cluster next to them, and Gaussians on the floor join
the object above them if they look more like it than like the floor.

A cluster that hovers beside a larger one is attached to it: a robot's hands, the crown above a
trunk. Nothing hovers by itself, so a cluster far above the floor with nothing else around is held
by its neighbour, however thin or badly captured the connection is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ...base.errors import InputError
from ...base.process import one_thread, sharing
from ...base.rotations import to_matrix
from ...base.types import Array, Vec3
from ...scene.gaussians import BACKGROUND, GaussianScene
from ..cutout.cache import last_of
from ..floor.finding import FloorPlane, plane_axes
from ..scene_sample import SOLID_OPACITY, middle_and_reach, rows_in_box
from ..sparse_voxels import FLAT, Voxels

if TYPE_CHECKING:
    from ..room import Room

PROBES, NEIGHBOURS = 40, 8  # Gaussians at which the spacing is measured, by which neighbour
LEAST_COUNT = 20  # Gaussians of a cluster; fewer are floaters
LEAST_SHARE = 0.002  # the same, as a share of the opaque Gaussians above the floor
SHELL = 0.65  # of the floor's spread: a cluster this wide is a wall or the surroundings
LARGEST = 0.3  # of the scene's reach: wider Gaussians connect nothing
UPRIGHT = 0.4  # height over width below which the score falls
LADEN = 0.3  # factor of the score of what carries other clusters
MOST_CLUSTERS = 200  # clusters returned
SEVERAL = 2  # things that stand on something from which it is furniture
WHOLE = 0.7  # of a thing: a component with less is a fragment of it
FURNITURE = 0.02  # of all clustered Gaussians: smaller components are not opened
ARCHITECTURE = 1 / 3  # of all opaque ones: what carries things and is larger is the room itself


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connected set of Gaussians."""

    id: int
    """Position in the list, best first."""
    rows: Tensor
    """Indices of its Gaussians, increasing."""
    total: int
    """Number of Gaussians of the scene."""
    center: Vec3
    """Centre of its bounding box ``(3,)``, scene axes."""
    size: Vec3
    """Edges of the bounding box of its means ``(3,)``, scene axes."""
    count: int
    """Number of Gaussians."""
    mass: float
    """Sum of opacities."""
    base: float
    """Height above the floor of what it stands on, scene units; 0 for the floor."""
    above: float
    """Height of its lowest part above that, scene units."""
    score: float
    """How object-like it is, 0 to 1."""
    host: int = -1
    """The cluster that carries it, such as a table; -1 for the floor or a wall's shelf."""

    @property
    def mask(self) -> Tensor:
        """Mask of its Gaussians ``(N,)``."""
        out = torch.zeros(self.total, dtype=torch.bool, device=self.rows.device)
        out[self.rows] = True
        return out


class _Setting(NamedTuple):
    """What the score of a cluster is relative to."""

    middle: Vec3
    reach: float
    spread: float
    """Of the floor: root mean square distance from its centre; infinite without a floor."""


def cluster(
    scene: GaussianScene, floor: FloorPlane, *, voxel: float | None = None, least: int | None = None
) -> list[Cluster]:
    """Object-like clusters above the floor, best first; computed on the CPU.

    The last result is cached while its scene and floor are alive.

    Args:
        scene: the Gaussians.
        floor: from :func:`find_floor`.
        voxel: Gaussians closer than this are connected, in scene units; default by their spacing.
        least: least number of opaque Gaussians of a cluster.
    """
    if voxel is not None and not voxel > 0:
        raise InputError(f"voxel: expected a length above zero, got {voxel}")
    if voxel is None and least is None:
        return list(_remembered(scene, floor))
    return _found(scene, floor, voxel, least)


@one_thread()
def _found(
    scene: GaussianScene, floor: FloorPlane, voxel: float | None = None, least: int | None = None
) -> list[Cluster]:
    there, scene = scene.device, scene.to("cpu").plain  # parts of it are copied
    h = floor.heights(scene.means)
    solid = (scene.opacities >= SOLID_OPACITY) & torch.isfinite(h)
    body = solid & (h > floor.thickness)
    if not body.any():
        return []
    around = _setting(scene, floor, h, solid)
    size = voxel or spacing(scene.means[body], around)
    labels = attached(scene, h, _labels(scene, body, size, least, around, floor))
    stands = _Stands.on_floor(int(labels.max()) + 1)
    if floor.kind == "found" and voxel is None and least is None:
        labels, stands = _with_things(scene, floor, labels, stands)
    found = _described(scene, h, labels, around, stands)
    if floor.kind == "found":
        ground = ((labels < 0) & (h.abs() <= floor.thickness)).nonzero().squeeze(-1)
        flat = scene.means[ground] @ plane_axes(floor.up).to(scene.means)
        with sharing() as share:
            found = share(
                lambda i: _with_foot(scene, floor, h, size, ground, flat, found[i]),
                range(len(found)),
            )
    return [replace(c, rows=c.rows.to(there)) for c in found]


class _Stands(NamedTuple):
    """On what each cluster stands; arrays over the labels ``(G,)``."""

    base: Tensor
    """Height above the floor of what carries it."""
    host: Tensor
    """Label of the cluster that carries it; -1 for none."""

    @classmethod
    def on_floor(cls, count: int) -> "_Stands":
        return cls(torch.zeros(count), torch.full((count,), -1))

    def and_(self, base: Tensor, host: Tensor) -> "_Stands":
        return _Stands(torch.cat([self.base, base]), torch.cat([self.host, host]))


def _with_things(
    scene: GaussianScene, floor: FloorPlane, labels: Tensor, stands: _Stands
) -> tuple[Tensor, _Stands]:
    """Labels ``(N,)`` with clusters of their own for what stands on furniture.

    A component on whose level planes several things stand is furniture, or the whole room, which is
    no object. Tables on a wide lawn are too small to be seen as planes of the whole scene, so large
    components are opened each.
    """
    from ..room import find_room  # numba takes a moment to import

    count = torch.bincount(labels[labels >= 0], minlength=len(stands.base))
    room = find_room(scene, floor.up.numpy())
    if room is not None:
        labels, stands = _opened(scene, floor, labels, stands, room, _architecture(scene))
    carrying = torch.isin(torch.arange(len(count)), stands.host)
    large = (count >= FURNITURE * int(count.sum())) & ~carrying
    for one in (large & torch.isin(torch.arange(len(count)), labels)).nonzero().flatten().tolist():
        rows = (labels == one).nonzero().squeeze(-1)
        inner = find_room(scene[rows], floor.up.numpy(), part=True)
        if inner is not None:
            alone, alike = torch.zeros(len(rows), dtype=torch.long), _Stands.on_floor(1)
            new, more = _opened(scene[rows], floor, alone, alike, inner, torch.tensor(torch.inf))
            labels[rows] = torch.where(new > 0, new - 1 + len(stands.base), one)
            stands = stands.and_(more.base[1:], torch.where(more.host[1:] == 0, one, -1))
    used, out = torch.unique(torch.cat([torch.tensor([-1]), labels]), return_inverse=True)
    position = torch.full((len(stands.base) + 1,), -1)
    position[used[1:]] = torch.arange(len(used) - 1)
    return out[1:] - 1, _Stands(stands.base[used[1:]], position[stands.host[used[1:]]])


def _opened(
    scene: GaussianScene, floor: FloorPlane, labels: Tensor, stands: _Stands, room: "Room",
    architecture: Tensor,
) -> tuple[Tensor, _Stands]:  # fmt: skip
    """Labels with further ones for the things that stand on furniture.

    What is left of an opened component loses its label if it is more than ``architecture``.
    """
    if not room.things:
        return labels, stands
    up, planes, count = floor.up.numpy(), room.structure.planes, len(stands.base)
    stance = room.stance(up)
    height = np.array([float(p.normal @ up) * p.height for p in planes]) - floor.height
    of_plane, of_loose = labels.numpy()[room.surface.rows], labels.numpy()[room.loose.rows]
    host = np.array([_most(of_plane[room.structure.of == k]) for k in range(len(planes))])
    own = np.array([_most(of_loose[thing.points]) for thing in room.things])
    raised = stance.free & (height[stance.plane] > floor.thickness + room.near)
    carries = np.bincount(host[stance.plane[raised]] + 1, minlength=count + 1)[1:] >= SEVERAL
    pieces = _fragments(room, of_loose, stance.free, count)
    opened = np.append(carries | pieces, True)  # what has no label, such as walls, is open too
    wanted = np.flatnonzero(stance.free & opened[own])
    new = torch.full((len(room.things) + 1,), -1)
    new[wanted] = torch.arange(len(wanted)) + count
    found = new[torch.from_numpy(room.label(scene))]
    size = torch.bincount(labels[(labels >= 0) & (found < 0)], minlength=count)
    lost = torch.from_numpy(opened) & ~torch.cat(
        [torch.from_numpy(carries & ~pieces) & (size <= architecture), torch.tensor([False])]
    )
    out = torch.where(torch.from_numpy(opened)[labels] & (found >= 0), found, labels)
    out = torch.where((out < count) & lost[labels], -1, out)
    carrier = torch.from_numpy(host[stance.plane[wanted]])
    carrier = torch.where(lost[carrier], -1, carrier)
    on = torch.from_numpy(height[stance.plane[wanted]]).float()
    return out, stands.and_(on, torch.where((carrier >= 0) & (on > 0), carrier, -1))


def _architecture(scene: GaussianScene) -> Tensor:
    """Number of Gaussians from which what carries things is the room itself."""
    return ARCHITECTURE * (scene.opacities >= SOLID_OPACITY).sum()


def _fragments(room: "Room", of_loose: Array, free: Array, count: int) -> Array:
    """Which components ``(count,)`` are mostly part of a free thing that none of them is alone."""
    thing = room.thing_of
    shared = np.zeros((len(room.things), count + 1), int)
    np.add.at(shared, (thing[thing >= 0], of_loose[thing >= 0]), 1)
    shared = shared[:, :-1]  # the last is no component
    size = np.bincount(of_loose[of_loose >= 0], minlength=count)
    broken = free & (shared.max(1) < WHOLE * shared.sum(1))
    return np.asarray((shared[broken] > WHOLE * size).any(0) & (size > 0))


def _most(labels: Array) -> int:
    """The most frequent label, or -1 for most of them having none."""
    return int(np.bincount(labels + 1).argmax()) - 1 if len(labels) else -1


_remembered = last_of(_found)


def label(scene: GaussianScene, clusters: Sequence[Cluster]) -> GaussianScene:
    """The scene with the clusters as objects 0, 1, 2, ... in order; the rest is background."""
    ids = torch.full_like(scene.ids, BACKGROUND)
    for index, found in reversed(list(enumerate(clusters))):
        ids[found.rows] = index
    return scene.replace(ids=ids)


@one_thread()
def without_floaters(scene: GaussianScene, *, voxel: float | None = None) -> Tensor:
    """Mask ``(N,)`` of the capture of one object without floaters."""
    there, scene = scene.device, scene.to("cpu")
    solid = (scene.opacities >= SOLID_OPACITY) & torch.isfinite(scene.means).all(-1)
    if not solid.any():
        return torch.ones_like(solid).to(there)
    around = _Setting(*middle_and_reach(scene.means[solid], scene.opacities[solid]), torch.inf)
    labels = _labels(scene, solid, voxel or spacing(scene.means[solid], around), None, around)
    return (labels >= 0).to(there)


def _setting(scene: GaussianScene, floor: FloorPlane, h: Tensor, solid: Tensor) -> _Setting:
    """Middle and reach of the scene, and the floor's spread."""
    middle, reach = middle_and_reach(scene.means[solid], scene.opacities[solid])
    on = solid & (h.abs() <= floor.thickness)
    if floor.kind == "virtual" or not on.any():
        return _Setting(middle, reach, torch.inf)
    flat = scene.means[on] @ plane_axes(floor.up).to(scene.means)
    return _Setting(middle, reach, float(_spreads(flat, torch.zeros_like(flat[:, 0]).long())))


def spacing(points: Vec3, around: _Setting) -> float:
    """Typical distance to the eighth neighbour of the Gaussians near the middle."""
    away = torch.linalg.vector_norm(points - around.middle.to(points), dim=-1)
    w = (1 + (away / around.reach) ** 2) ** -1.5
    random = torch.Generator(points.device).manual_seed(0)
    probes = points[torch.multinomial(w, min(PROBES, len(points)), generator=random)]
    k = min(NEIGHBOURS + 1, len(points))
    near = torch.cat(
        [torch.cdist(p, points).topk(k, largest=False).values for p in probes.split(8)]
    )
    return max(float(near[:, -1].quantile(0.7)), 1e-6 * around.reach, 1e-12)


def _labels(
    scene: GaussianScene,
    body: Tensor,
    voxel: float,
    least: int | None,
    around: _Setting,
    floor: FloorPlane | None = None,
) -> Tensor:
    """Cluster ``(N,)`` of each Gaussian of the ``body`` and of faint ones next to it; else -1."""
    points = scene.means[body]
    owner, ends = _ends(scene[body], voxel, LARGEST * around.reach)
    if floor is not None:
        owner, ends = (x[floor.heights(ends) > floor.thickness] for x in (owner, ends))
    voxels = Voxels.of(torch.cat([points, ends]), voxel)
    own, at = voxels.of_point[owner], voxels.of_point[len(points) :]
    of_voxel = voxels.components(torch.stack([own, at]))
    of_point = of_voxel[voxels.of_point[: len(points)]]
    count = torch.bincount(of_point)
    kept = count >= (least or max(LEAST_COUNT, int(LEAST_SHARE * len(points))))
    if floor is not None:
        spread = _spreads(points @ plane_axes(floor.up).to(points), of_point)
        objects = kept & (spread < SHELL * around.spread)
        kept = objects if objects.any() else kept  # a large object on a small patch of floor
    renamed = torch.where(kept, kept.cumsum(0) - 1, -1)
    labels = torch.full((len(scene),), -1, device=scene.device)
    labels[body] = renamed[of_point]
    faint = scene.opacities < SOLID_OPACITY
    labels[faint] = voxels.nearest(scene.means[faint], renamed[of_voxel])
    return labels


def _ends(part: GaussianScene, voxel: float, largest: float) -> tuple[Tensor, Vec3]:
    """Owners and ends ``(E, 3)`` of the long axes of Gaussians wider than a voxel.

    They connect surfaces that few large Gaussians cover. The largest Gaussians are sky and walls,
    which would connect everything.
    """
    sigma, order = part.scales.sort(dim=-1)
    rows = ((sigma[:, 2] > 0.5 * voxel) & (sigma[:, 2] < largest)).nonzero().squeeze(-1)
    axes = to_matrix(part.quats[rows]).gather(2, order[rows, None, 1:].expand(-1, 3, 2))
    arms = axes * sigma[rows, None, 1:]
    ends = part.means[rows, :, None] + torch.cat([arms, -arms], dim=-1)
    return rows.repeat_interleave(4), ends.mT.flatten(0, 1)


def _spreads(flat: Tensor, group: Tensor) -> Tensor:
    """Root mean square distance ``(G,)`` of the points ``(n, 2)`` of each group from its mean."""
    count = torch.bincount(group).clamp_min(1)
    flat = flat - flat.mean(0)
    mean = [torch.bincount(group, c) / count for c in flat.T]
    square = torch.bincount(group, (flat**2).sum(-1)) / count
    return (square - mean[0] ** 2 - mean[1] ** 2).clamp_min(0).sqrt()


def _boxes(x: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Corners ``(G, D)`` of the bounding boxes of the points ``(n, D)`` of each group."""
    index, shape = group[:, None].expand_as(x), (int(group.max()) + 1, x.shape[-1])
    low, high = x.new_full(shape, torch.inf), x.new_full(shape, -torch.inf)
    return low.scatter_reduce(0, index, x, "amin"), high.scatter_reduce(0, index, x, "amax")


def _described(
    scene: GaussianScene, h: Tensor, labels: Tensor, around: _Setting, stands: _Stands
) -> list[Cluster]:
    """A :class:`Cluster` per label, best first."""
    rows = (labels >= 0).nonzero().squeeze(-1)
    if not len(rows):
        return []
    of_row = labels[rows]
    low, high = _boxes(scene.means[rows], of_row)
    bottom, top = (x.squeeze(-1) for x in _boxes(h[rows, None], of_row))
    mass = torch.zeros_like(bottom).scatter_add(0, of_row, scene.opacities[rows])
    base, host = stands
    bottom, top = bottom - base, top - base
    score = _scores(0.5 * (low + high), high - low, mass, bottom.clamp_min(0), top, around)
    score[host[host >= 0]] *= LADEN
    count = torch.bincount(of_row)
    members = rows[of_row.argsort(stable=True)].split(count.tolist())
    best = score.argsort(descending=True, stable=True)
    rank = torch.full((len(best) + 1,), -1)
    rank[best[:MOST_CLUSTERS]] = torch.arange(len(best[:MOST_CLUSTERS]))
    return [
        Cluster(
            k, members[i], len(scene), 0.5 * (low[i] + high[i]), high[i] - low[i], int(count[i]),
            float(mass[i]), float(base[i]), float(bottom[i]), float(score[i]), int(rank[host[i]]),
        )
        for k, i in enumerate(best[:MOST_CLUSTERS].tolist())
    ]  # fmt: skip


def _scores(
    center: Vec3, size: Vec3, mass: Tensor, bottom: Tensor, top: Tensor, around: _Setting
) -> Tensor:
    """How object-like ``(G,)``: near the middle, massive, on the floor, upright, not wide.

    A cluster much wider than high is a patch of the ground: grass, a carpet, a stain.
    """
    away = torch.linalg.vector_norm(center - around.middle.to(center), dim=-1)
    near = 1 / (1 + (away / around.reach) ** 2)
    massive = (mass / mass.sum()).sqrt()
    resting = 0.3 + 0.7 * torch.exp(-bottom / (top - bottom).clamp_min(1e-12))
    narrow = (1 - size.amax(-1) / (5 * around.spread)).clamp_min(0.05)
    upright = ((top - bottom) / (UPRIGHT * size.amax(-1)).clamp_min(1e-12)).clamp(0.1, 1)
    return near * massive * resting * narrow * upright**2


def _with_foot(
    scene: GaussianScene,
    floor: FloorPlane,
    h: Tensor,
    voxel: float,
    ground: Tensor,
    flat: Tensor,
    c: Cluster,
) -> Cluster:
    """The cluster with those Gaussians of the ``ground`` (indices) under it that have its colours.

    ``flat`` are the coordinates of the ground's Gaussians in the plane.
    """
    if c.base or c.above > 2 * floor.thickness + voxel or not len(ground):
        return c
    across = plane_axes(floor.up).to(scene.means)
    body = c.rows
    cover = scene.means[body] @ across
    low, high = cover.amin(0), cover.amax(0)
    margin = 0.3 * (high - low).amax()
    near = rows_in_box(flat, low - margin, high + margin)
    ground, flat = ground[near], flat[near]
    under = _covered(flat, cover, voxel)
    foot, rest = ground[under], ground[~under]
    lower = body[h[body] < 0.5 * h[body].amax()]
    like_body = _color_distance(scene.colors[foot], scene.colors[lower])
    like_floor = _color_distance(scene.colors[foot], scene.colors[rest])
    rows = torch.cat([body, foot[like_body < like_floor]]).sort().values
    return replace(c, rows=rows, count=len(rows), mass=float(scene.opacities[rows].sum()))


def _covered(points: Tensor, cover: Tensor, size: float) -> Tensor:
    """Which points ``(n, 2)`` are in or next to a cell of ``cover (m, 2)``."""
    up = torch.nn.functional.pad
    filled = Voxels.of(up(cover, (0, 1)), size)
    return filled.nearest(up(points, (0, 1)), torch.zeros_like(filled.keys), FLAT) >= 0


def _color_distance(colors: Tensor, palette: Tensor) -> Tensor:
    """Distance ``(n,)`` to the fifth nearest colour of a palette; infinite if it is empty."""
    if not len(palette):
        return torch.full_like(colors[:, 0], torch.inf)
    some = palette[:: max(1, len(palette) // 500)].nan_to_num()
    away, _ = cKDTree(some).query(colors.nan_to_num(), k=[min(5, len(some))])
    return torch.from_numpy(away[:, 0]).to(colors)


# --- what hovers beside a larger object -----------------------------------------------------------


HOST_LARGER = 3.0  # times as many Gaussians as the attached cluster, at least
HOST_NEAR = 0.25  # of the host's size: largest distance to it
ALONE_WITHIN = 0.5  # of the cluster's size: the region around it that must be free
ALONE_SHARE = 0.02  # of its count: other Gaussians tolerated there
HOST_SAMPLE = 4096  # Gaussians of each with which the distance is measured


def attached(scene: GaussianScene, h: Tensor, labels: Tensor) -> Tensor:
    """Labels ``(N,)`` of clusters, or -1, with hovering clusters attached to their hosts.

    ``h (N,)`` is the height above the floor. Labels are renumbered.
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
    """Clusters as ``labels (N,)`` and as indices of each."""

    def __init__(self, scene: GaussianScene, labels: Tensor, rows: Tensor) -> None:
        self.scene, self.labels = scene, labels
        of_row = labels[rows]
        self.count = torch.bincount(of_row)
        """Gaussians of each before any were attached."""
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
    """Which groups ``(G,)`` have more space below them than they are high."""
    none = h.new_empty(int(group.max()) + 1)
    low = none.fill_(torch.inf).scatter_reduce(0, group, h, "amin")
    high = none.fill_(-torch.inf).scatter_reduce(0, group, h, "amax")
    return low > high - low


def _host(groups: _Groups, one: int) -> int | None:
    """The nearest larger cluster, if it is near and nothing else is around."""
    away = sorted(_larger_ones(groups, one))
    if not away or not _alone(groups, one, away[0][1]):
        return None
    return away[0][1]


def _larger_ones(groups: _Groups, one: int) -> Iterator[tuple[float, int]]:
    """Distances and labels of near clusters that are much larger."""
    own = groups.means(one)
    for other in (groups.count > HOST_LARGER * len(own)).nonzero().flatten().tolist():
        x = groups.means(other)
        if len(x) and _gap(own, x) <= (limit := HOST_NEAR * float(_edges(x).amax())):
            distance = float(cKDTree(_some(x)).query(_some(own))[0].min())
            if distance <= limit:
                yield distance, other


def _alone(groups: _Groups, one: int, host: int) -> bool:
    """Whether nothing but ``host`` is around: no shelf, no wall, no cord of a lamp."""
    own = groups.means(one)
    room = ALONE_WITHIN * _edges(own).amax()
    around = rows_in_box(groups.scene.means, own.amin(0) - room, own.amax(0) + room)
    label, opacity = groups.labels[around], groups.scene.opacities[around]
    others = (label != host) & (label != one) & (opacity >= SOLID_OPACITY)
    return bool(others.sum() <= ALONE_SHARE * len(own))


def _gap(a: Vec3, b: Vec3) -> float:
    """Distance between the bounding boxes of two sets of points ``(n, 3)``."""
    apart = torch.maximum(a.amin(0) - b.amax(0), b.amin(0) - a.amax(0))
    return float(torch.linalg.vector_norm(apart.clamp_min(0)))


def _edges(x: Vec3) -> Vec3:
    return x.amax(0) - x.amin(0)


def _some(x: Vec3) -> Tensor:
    return x[:: max(1, len(x) // HOST_SAMPLE)].contiguous()

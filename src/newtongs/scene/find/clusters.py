"""Objects of a scene found by themselves: what hangs together above the floor.

Opaque Gaussians above the floor fill a grid of voxels about as large as their spacing; voxels that
touch make a cluster. Walls and other shells as wide as the floor are left out, and so are floaters
of a few Gaussians. Faint Gaussians join the cluster next to them, and Gaussians on the floor join
the thing above when they look more like it than like the floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ...errors import InputError
from ...rotations import to_matrix
from ...threads import one_thread, sharing
from ...types import Vec3
from ..gaussians import BACKGROUND, GaussianScene
from .floor import Floor, plane_axes
from .hovering import joined
from .memory import last_of
from .samples import SOLID, middle_and_reach, rows_in_box
from .voxels import FLAT, Voxels

PROBES, NEIGHBOURS = 40, 8  # Gaussians at which the spacing is measured, and what counts as near
LEAST = 20  # Gaussians of a cluster; fewer are floaters
LEAST_SHARE = 0.002  # of the opaque Gaussians above the floor, likewise
SHELL = 0.65  # of the floor's spread: a cluster spread as far is a wall or the surroundings
LARGEST = 0.3  # of the scene's reach: Gaussians wider than this join nothing
UPRIGHT = 0.4  # height over width, below which a cluster is less and less of an object
MOST = 32  # clusters returned


@dataclass(frozen=True, eq=False)
class Cluster:
    """Gaussians that hang together."""

    id: int
    """Place in the list, the best first."""
    mask: Tensor
    """Which Gaussians ``(N,)``."""
    center: Vec3
    """Middle of the box ``(3,)``, scene axes."""
    size: Vec3
    """Edges of the box around the means ``(3,)``, scene axes."""
    count: int
    """Gaussians."""
    mass: float
    """Sum of opacities."""
    above: float
    """Height of the lowest part over the floor, scene units."""
    score: float
    """How much like an object, 0 to 1."""


class _Surroundings(NamedTuple):
    """What a cluster is judged against."""

    middle: Vec3
    reach: float
    spread: float
    """Of the floor: root mean square distance from its centre; infinite where there is none."""


def cluster(
    scene: GaussianScene, floor: Floor, *, voxel: float | None = None, least: int | None = None
) -> list[Cluster]:
    """Object-like clusters above the floor, the best first; found on the CPU.

    Those of the last scene and floor are remembered while both are in use.

    Args:
        scene: the Gaussians.
        floor: from :func:`find_floor`.
        voxel: things closer than this hang together, in scene units; default from the spacing.
        least: fewest opaque Gaussians of a cluster.
    """
    if voxel is not None and not voxel > 0:
        raise InputError(f"voxel: expected a length above zero, got {voxel}")
    if voxel is None and least is None:
        return list(_remembered(scene, floor))
    return _found(scene, floor, voxel, least)


@one_thread()
def _found(
    scene: GaussianScene, floor: Floor, voxel: float | None = None, least: int | None = None
) -> list[Cluster]:
    there, scene = scene.device, scene.to("cpu")
    h = floor.heights(scene.means)
    solid = (scene.opacities >= SOLID) & torch.isfinite(h)
    body = solid & (h > floor.thickness)
    if not body.any():
        return []
    around = _surroundings(scene, floor, h, solid)
    size = voxel or spacing(scene.means[body], around)
    labels = joined(scene, h, _labels(scene, body, size, least, around, floor))
    found = _described(scene, h, labels, around)[:MOST]
    if floor.kind == "found":
        ground = ((labels < 0) & (h.abs() <= floor.thickness)).nonzero().squeeze(-1)
        flat = scene.means[ground] @ plane_axes(floor.up).to(scene.means)
        with sharing() as share:
            found = share(
                lambda i: _with_foot(scene, floor, h, size, ground, flat, found[i]),
                range(len(found)),
            )
    return [replace(c, id=i, mask=c.mask.to(there)) for i, c in enumerate(found)]


_remembered = last_of(_found)


def label(scene: GaussianScene, clusters: Sequence[Cluster]) -> GaussianScene:
    """The scene with the clusters as objects 0, 1, 2, ... in their order; all else background."""
    ids = torch.full_like(scene.ids, BACKGROUND)
    for index, found in reversed(list(enumerate(clusters))):
        ids[found.mask] = index
    return scene.replace(ids=ids)


@one_thread()
def without_floaters(scene: GaussianScene, *, voxel: float | None = None) -> Tensor:
    """Mask ``(N,)`` of a capture of one object without the specks that float around it."""
    there, scene = scene.device, scene.to("cpu")
    solid = (scene.opacities >= SOLID) & torch.isfinite(scene.means).all(-1)
    if not solid.any():
        return torch.ones_like(solid).to(there)
    around = _Surroundings(*middle_and_reach(scene.means[solid], scene.opacities[solid]), torch.inf)
    labels = _labels(scene, solid, voxel or spacing(scene.means[solid], around), None, around)
    return (labels >= 0).to(there)


def _surroundings(scene: GaussianScene, floor: Floor, h: Tensor, solid: Tensor) -> _Surroundings:
    """Middle and reach of the scene, and the floor's spread."""
    middle, reach = middle_and_reach(scene.means[solid], scene.opacities[solid])
    on = solid & (h.abs() <= floor.thickness)
    if floor.kind == "virtual" or not on.any():
        return _Surroundings(middle, reach, torch.inf)
    flat = scene.means[on] @ plane_axes(floor.up).to(scene.means)
    return _Surroundings(middle, reach, float(_spreads(flat, torch.zeros_like(flat[:, 0]).long())))


def spacing(points: Vec3, around: _Surroundings) -> float:
    """Distance to the eighth neighbour, typical of the Gaussians near the middle."""
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
    around: _Surroundings,
    floor: Floor | None = None,
) -> Tensor:
    """Cluster ``(N,)`` of each Gaussian of the ``body`` and of the faint ones beside; else -1."""
    points = scene.means[body]
    owner, ends = _ends(scene[body], voxel, LARGEST * around.reach)
    if floor is not None:
        owner, ends = (x[floor.heights(ends) > floor.thickness] for x in (owner, ends))
    voxels = Voxels.of(torch.cat([points, ends]), voxel)
    own, at = voxels.of_point[owner], voxels.of_point[len(points) :]
    of_voxel = voxels.components(torch.stack([own, at]))
    of_point = of_voxel[voxels.of_point[: len(points)]]
    count = torch.bincount(of_point)
    kept = count >= (least or max(LEAST, int(LEAST_SHARE * len(points))))
    if floor is not None:
        spread = _spreads(points @ plane_axes(floor.up).to(points), of_point)
        objects = kept & (spread < SHELL * around.spread)
        kept = objects if objects.any() else kept  # a large thing on a small patch of floor
    renamed = torch.where(kept, kept.cumsum(0) - 1, -1)
    labels = torch.full((len(scene),), -1, device=scene.device)
    labels[body] = renamed[of_point]
    faint = scene.opacities < SOLID
    labels[faint] = voxels.nearest(scene.means[faint], renamed[of_voxel])
    return labels


def _ends(part: GaussianScene, voxel: float, largest: float) -> tuple[Tensor, Vec3]:
    """Ends of the long axes ``(E, 3)`` of Gaussians wider than a voxel, and whose they are.

    They join what is covered by few large Gaussians. The largest of all are sky and walls: these
    would join everything.
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
    """Corners ``(G, D)`` of the boxes around the points ``(n, D)`` of each group."""
    index, shape = group[:, None].expand_as(x), (int(group.max()) + 1, x.shape[-1])
    low, high = x.new_full(shape, torch.inf), x.new_full(shape, -torch.inf)
    return low.scatter_reduce(0, index, x, "amin"), high.scatter_reduce(0, index, x, "amax")


def _described(
    scene: GaussianScene, h: Tensor, labels: Tensor, around: _Surroundings
) -> list[Cluster]:
    """A :class:`Cluster` for each label, the best first."""
    rows = (labels >= 0).nonzero().squeeze(-1)
    if not len(rows):
        return []
    of_row = labels[rows]
    low, high = _boxes(scene.means[rows], of_row)
    bottom, top = (x.squeeze(-1) for x in _boxes(h[rows, None], of_row))
    mass = torch.zeros_like(bottom).scatter_add(0, of_row, scene.opacities[rows])
    score = _scores(0.5 * (low + high), high - low, mass, bottom.clamp_min(0), top, around)
    count = torch.bincount(of_row)
    return [
        Cluster(
            i, labels == i, 0.5 * (low[i] + high[i]), high[i] - low[i], int(count[i]),
            float(mass[i]), float(bottom[i]), float(score[i]),
        )
        for i in score.argsort(descending=True, stable=True)[:MOST].tolist()
    ]  # fmt: skip


def _scores(
    center: Vec3, size: Vec3, mass: Tensor, bottom: Tensor, top: Tensor, around: _Surroundings
) -> Tensor:
    """How much like an object ``(G,)``: near the middle, massive, on the floor, upright, not wide.

    What is much wider than high is a patch of the ground: grass, a carpet, a stain.
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
    floor: Floor,
    h: Tensor,
    voxel: float,
    ground: Tensor,
    flat: Tensor,
    c: Cluster,
) -> Cluster:
    """The cluster with those of the ``ground`` (indices) under it that have its colours.

    ``flat`` is where the ground's Gaussians lie in the plane.
    """
    if c.above > 2 * floor.thickness + voxel or not len(ground):
        return c
    across = plane_axes(floor.up).to(scene.means)
    body = c.mask.nonzero().squeeze(-1)
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
    mask = c.mask.clone()
    mask[foot[like_body < like_floor]] = True
    return replace(c, mask=mask, count=int(mask.sum()), mass=float(scene.opacities[mask].sum()))


def _covered(points: Tensor, cover: Tensor, size: float) -> Tensor:
    """Which points ``(n, 2)`` lie in a cell next to one of ``cover (m, 2)``."""
    up = torch.nn.functional.pad
    filled = Voxels.of(up(cover, (0, 1)), size)
    return filled.nearest(up(points, (0, 1)), torch.zeros_like(filled.keys), FLAT) >= 0


def _color_distance(colors: Tensor, palette: Tensor) -> Tensor:
    """Distance ``(n,)`` to the fifth nearest of a palette's colours; infinite if it is empty."""
    if not len(palette):
        return torch.full_like(colors[:, 0], torch.inf)
    some = palette[:: max(1, len(palette) // 500)].nan_to_num()
    away, _ = cKDTree(some).query(colors.nan_to_num(), k=[min(5, len(some))])
    return torch.from_numpy(away[:, 0]).to(colors)

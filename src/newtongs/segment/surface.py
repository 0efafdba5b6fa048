"""The surfaces of a scene as oriented points of even density.

Rooms are found in these points: planes first, then the things that remain. One opaque Gaussian
stands for all in its voxel, and a Gaussian much wider than a voxel for several, so that a wall made
of few large Gaussians counts by its area, as a pot made of many small ones does. The normal of a
point is the shortest axis of its Gaussian, averaged twice over its neighbours without regard to
sign; round Gaussians have none, there the neighbours' positions tell it.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..base.jit import compiled
from ..base.process import threads
from ..base.rotations import to_matrix
from ..base.types import Array, Quat, Vec3
from ..scene.gaussians import GaussianScene
from .scene_sample import SOLID_OPACITY, middle_and_reach
from .sparse_voxels import Voxels

MOST_POINTS, POINTS_EACH = 150_000, 2  # in all, and for each Gaussian
FINEST, COARSE = 1e-3, 1e-2  # edge of a voxel over the size of the scene: least, and first try
FAR = 4.0  # reaches from the middle beyond which there is only background
WIDEST = 0.08  # of the size: wider Gaussians are haze or sky
NEIGHBOURS = 12  # of a point, over which its normal is averaged
SPACING = 6  # the neighbour whose distance is the spacing
FLAT = 0.5  # thickness over width below which a Gaussian is a disc
LATTICE = 6  # half the points along a wide Gaussian, at most
POWERS = 12  # iterations for the main axis of a sum of normals


class SurfacePoints(NamedTuple):
    """Points on the surfaces of a scene; arrays of float64."""

    x: Array
    """``(n, 3)``, scene coordinates."""
    rows: Array
    """The Gaussian that each point stands for ``(n,)``."""
    normals: Array
    """``(n, 3)``, of unknown sign."""
    colors: Array
    """``(n, 3)``."""
    area: Array
    """Share of the surface that each covers ``(n,)``; sums to one."""
    near: Array
    """Indices of the nearest other points ``(n, NEIGHBOURS)``."""
    spacing: float
    """Median distance to the sixth neighbour."""
    size: float
    """Diagonal of the box around most points, scene units."""


def surface_points(scene: GaussianScene) -> SurfacePoints | None:
    """Oriented points on all surfaces; None if there are too few to have any."""
    rows = _nearby(scene)
    if len(rows) <= NEIGHBOURS:
        return None
    means, (sigma, axis) = scene.means[rows], scene.scales[rows].sort(dim=-1)
    some = means[:: max(1, len(means) // 200_000)]
    low, high = some.quantile(0.01, dim=0), some.quantile(0.99, dim=0)
    size = max(float(torch.linalg.vector_norm(high - low)), 1e-12)
    most = min(MOST_POINTS, POINTS_EACH * len(rows))
    edge = COARSE * size
    quats, order = scene.quats[rows], axis.byte()
    count = len(_covering(means, sigma, quats, order, edge)[0])
    edge = max(edge * (count / most) ** 0.5, FINEST * size)  # twice as fine, four times as many
    while len((found := _covering(means, sigma, quats, order, edge))[0]) > most:
        edge *= 1.1
    owner, x = found
    sigma, shortest = sigma[owner], _axes(quats[owner], order[owner])[:, :, 0]
    d, near = cKDTree(x).query(x, k=NEIGHBOURS + 1, workers=threads())
    spacing = max(float(np.median(d[:, SPACING])), 1e-12)
    flat = (1 - sigma[:, 0] / sigma[:, 1].clamp_min(1e-12)).double().numpy()
    normals = _normals(x, shortest.double().numpy(), flat, near)
    normals = _normals(x, normals, np.ones_like(flat), near)
    area = np.minimum(d[:, SPACING], 3 * spacing) ** 2
    return SurfacePoints(
        x, rows.numpy()[owner], normals, scene.colors[rows[owner]].double().numpy().clip(0, 1),
        area / max(float(area.sum()), 1e-300), near[:, 1:], spacing, size,
    )  # fmt: skip


def _nearby(scene: GaussianScene) -> Tensor:
    """Rows of the opaque Gaussians that are neither sky nor far background."""
    opaque = (scene.opacities >= SOLID_OPACITY) & torch.isfinite(scene.means).all(-1)
    rows = opaque.nonzero().squeeze(-1)
    if not len(rows):
        return rows
    middle, reach = middle_and_reach(scene.means[rows], scene.opacities[rows])
    away = torch.linalg.vector_norm(scene.means[rows] - middle.to(scene.means), dim=-1)
    return rows[(away < FAR * reach) & (scene.scales[rows].amax(-1) < WIDEST * FAR * reach)]


def _axes(quats: Quat, order: Tensor) -> Tensor:
    """Axes of Gaussians as columns ``(n, 3, 3)``, the shortest first."""
    return to_matrix(quats).gather(2, order.long()[:, None, :].expand(-1, 3, 3))


def _covering(
    means: Vec3, sigma: Tensor, quats: Quat, order: Tensor, edge: float
) -> tuple[Array, Array]:
    """Owners ``(n,)`` and points ``(n, 3)`` on all Gaussians, at most one in each voxel.

    A disc wider than a voxel has a lattice of points; a ball has none, which would be a disc.
    ``order (N, 3)`` sorts the axes of ``quats`` by their length ``sigma``.
    """
    voxels = Voxels.of(means, edge)
    by_width = sigma[:, 1].argsort(stable=True)
    rank = torch.empty_like(by_width)
    rank[by_width] = torch.arange(len(by_width))
    widest = torch.zeros(len(voxels.keys), dtype=torch.long)
    widest = widest.scatter_reduce(0, voxels.of_point, rank, "amax", include_self=False)
    first = by_width[widest]  # the widest of each voxel stands for it
    owners, x = [first], [means[first]]
    flat = sigma[first, 0] < FLAT * sigma[first, 1]
    steps = torch.where(flat, sigma[first, 1] / edge, 0.0).clamp_max(LATTICE)
    for k in range(1, LATTICE + 1):
        wide = first[(steps > k - 0.5) & ((steps <= k + 0.5) | (k == LATTICE))]
        line = torch.linspace(-1.5, 1.5, 2 * k + 1)
        place = torch.cartesian_prod(line, line).to(means)
        arms = _axes(quats[wide], order[wide])[..., 1:] * sigma[wide, None, 1:]
        x.append((means[wide, None] + place @ arms.mT).flatten(0, 1))
        owners.append(wide.repeat_interleave(len(place)))
    every, owner = torch.cat(x), torch.cat(owners)
    again = Voxels.of(every, edge)
    kept = torch.full((len(again.keys),), len(every))
    kept = kept.scatter_reduce(0, again.of_point, torch.arange(len(every)), "amin")
    return owner[kept].numpy(), every[kept].double().numpy()


@compiled()
def _normals(x: Array, normals: Array, flat: Array, near: Array) -> Array:
    """The main axis of the normals of the neighbours and of what lies across the way to them.

    A disc tells its normal. A ball tells only that the surface leads from it to its neighbours.
    """
    out = np.empty_like(normals)
    for i in range(len(normals)):
        a = b = c = d = e = f = 0.0
        for j in near[i]:
            w, p, q, r = flat[j], normals[j, 0], normals[j, 1], normals[j, 2]
            a, b, c = a + w * p * p, b + w * p * q, c + w * p * r
            d, e, f = d + w * q * q, e + w * q * r, f + w * r * r
            p, q, r = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            w = (1 - flat[j]) / max(p * p + q * q + r * r, 1e-300)
            a, b, c = a + w * (q * q + r * r), b - w * p * q, c - w * p * r
            d, e, f = d + w * (p * p + r * r), e - w * q * r, f + w * (p * p + q * q)
        p, q, r = normals[i]
        for _ in range(POWERS):
            u, v, t = a * p + b * q + c * r, b * p + d * q + e * r, c * p + e * q + f * r
            length = math.sqrt(u * u + v * v + t * t)
            if length < 1e-30:
                break
            p, q, r = u / length, v / length, t / length
        out[i, 0], out[i, 1], out[i, 2] = p, q, r
    return out

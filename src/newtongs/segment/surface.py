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
from ..base.types import Array, Vec3
from ..scene.gaussians import GaussianScene
from .scene_sample import SOLID_OPACITY, middle_and_reach
from .sparse_voxels import Voxels

MOST_POINTS = 160_000
FINEST = 1e-3  # edge of a voxel over the size of the scene, at least
FAR = 4.0  # reaches from the middle beyond which there is only background
LARGEST = 0.08  # of the size: wider Gaussians are haze or sky
NEIGHBOURS = 12  # of a point, over which its normal is averaged
SPACING, PROBES = 6, 4000  # the neighbour whose distance is the spacing; points that measure it
FLAT = 0.5  # thickness over width below which a Gaussian is a disc
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
    means, sigma = scene.means[rows], scene.scales[rows].sort(dim=-1)
    some = means[:: max(1, len(means) // 200_000)]
    low, high = some.quantile(0.01, dim=0), some.quantile(0.99, dim=0)
    size = max(float(torch.linalg.vector_norm(high - low)), 1e-12)
    edge = FINEST * size
    while len((first := _widest(means, sigma.values[:, 1], edge))) > MOST_POINTS:
        edge *= 1.2
    rows, means, sigmas, order = rows[first], means[first], sigma.values[first], sigma.indices[first]
    axes = to_matrix(scene.quats[rows]).gather(2, order[:, None, :].expand(-1, 3, 3))
    owner, x = _with_ends(means, sigmas, axes)
    d, near = cKDTree(x).query(x, k=NEIGHBOURS + 1, workers=threads())
    spacing = max(float(np.median(d[:, SPACING])), 1e-12)
    flat = (1 - sigmas[:, 0] / sigmas[:, 1].clamp_min(1e-12)).double().numpy()[owner]
    normals = _normals(x, axes[:, :, 0].double().numpy()[owner], flat, near)
    normals = _normals(x, normals, np.ones_like(flat), near)
    area = np.minimum(d[:, SPACING], 3 * spacing) ** 2
    return SurfacePoints(
        x, rows.numpy()[owner], normals, scene.colors[rows].double().numpy()[owner].clip(0, 1),
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
    return rows[(away < FAR * reach) & (scene.scales[rows].amax(-1) < LARGEST * FAR * reach)]


def _widest(means: Vec3, width: Tensor, edge: float) -> Tensor:
    """Index of the widest Gaussian in each voxel."""
    voxels = Voxels.of(means, edge)
    first = torch.zeros(len(voxels.keys), dtype=torch.long)
    by_width = width.argsort(stable=True)
    first[voxels.of_point[by_width]] = by_width
    return first


def _with_ends(means: Vec3, sigmas: Tensor, axes: Tensor) -> tuple[Array, Array]:
    """Owners ``(n,)`` and points ``(n, 3)``: the means, and the ends of wide Gaussians' axes."""
    some = means[:: max(1, len(means) // PROBES)].numpy()
    d, _ = cKDTree(means.numpy()).query(some, k=min(SPACING + 1, len(means)))
    spacing = float(np.median(d[:, -1]))
    # A ball has no long axes: its ends would make a disc of it.
    flat = sigmas[:, 0] < FLAT * sigmas[:, 1]
    wide = (flat & (sigmas[:, 1] > spacing)).nonzero().squeeze(-1)
    arms = axes[wide, :, 1:] * sigmas[wide, None, 1:]
    ends = (means[wide, :, None] + torch.cat([arms, -arms], dim=-1)).mT.flatten(0, 1)
    x, owner = torch.cat([means, ends]), torch.cat([torch.arange(len(means)), wide.repeat_interleave(4)])
    while len((first := _first(x, 0.5 * spacing))) > MOST_POINTS:
        spacing *= 1.2
    return owner[first].numpy(), x[first].double().numpy()


def _first(x: Vec3, edge: float) -> Tensor:
    """Index of the first point in each voxel: an end in a voxel that is filled adds nothing."""
    voxels = Voxels.of(x, edge)
    first = torch.full((len(voxels.keys),), len(x))
    return first.scatter_reduce(0, voxels.of_point, torch.arange(len(x)), "amin")


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

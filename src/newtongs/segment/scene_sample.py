"""A weighted sample of a scene's opaque Gaussians that favours its busy middle.

A plain floor is made of few large Gaussians, a toy on it of many small ones, so the weight is the
covered area, measured in voxels. Skies and far walls are made of huge Gaussians that would outweigh
everything else, so the area is capped and the weight falls with the distance from the middle.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.rotations import to_matrix
from ..base.types import Vec3
from ..scene.gaussians import GaussianScene
from .sparse_voxels import Voxels

SOLID_OPACITY = 0.3  # opacity above which a Gaussian is part of a surface
SMEARED = 1.6  # times the width of usual Gaussians, from which they are a smear that no camera saw
LARGE = 0.5  # of the scene's reach: larger Gaussians count as this large
FARTHEST = 1e12  # largest reach of a scene, whose square must fit into float32
SAMPLE, FITTING_SAMPLE = 20_000, 6_000  # Gaussians sampled, and used for fitting
MOST_SORTED = 400_000  # Gaussians sorted into voxels
FINEST = 0.03  # edge of a voxel over the scene's reach


class Sample(NamedTuple):
    """Opaque Gaussians that represent the scene."""

    x: Vec3
    """Means ``(n, 3)``, float64."""
    w: Tensor
    """Weights ``(n,)`` that sum to one: covered area, smaller far from the middle."""
    many: Tensor
    """Fraction of the opaque Gaussians that each represents ``(n,)``; sums to one."""
    normals: Vec3
    """Shortest axes ``(n, 3)``."""
    flat: Tensor
    """How flat ``(n,)``: 1 for a disc, 0 for a ball."""
    middle: Vec3
    """Centre of the scene ``(3,)``, robust to outliers."""
    reach: float
    """Distance from the middle within which half of the scene lies."""

    def first(self, k: int) -> "Sample":
        """The first ``k``; the order is random."""
        w = self.w[:k] / self.w[:k].sum()
        many, normals, flat = (each[:k] for each in (self.many, self.normals, self.flat))
        return Sample(self.x[:k], w, many, normals, flat, self.middle, self.reach)


def rows_in_box(points: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Indices of the points ``(n, d)`` in a box; one axis at a time, as each leaves few points."""
    x = points[:, 0]
    rows = ((x > low[0]) & (x < high[0])).nonzero().squeeze(-1)
    for k in range(1, points.shape[1]):
        x = points[rows, k]
        rows = rows[(x > low[k]) & (x < high[k])]
    return rows


def sample(scene: GaussianScene, random: torch.Generator) -> Sample:
    """At most ``SAMPLE`` opaque Gaussians, spread over the scene's surfaces.

    Each filled voxel is represented by its largest Gaussian, so that the result hardly depends on
    how finely a surface was captured or on the order of the file.
    """
    opacity = scene.logits.detach().cpu().sigmoid()
    rows = _opaque_rows(scene.means.detach().cpu(), opacity)
    x, opacity = scene.means.detach().cpu()[rows].double(), opacity[rows].double()
    middle, reach = middle_and_reach(x, opacity)
    if not reach < FARTHEST:
        raise InputError(f"the scene reaches {reach:.1e} units from its middle; scale it down")
    sigma = scene.log_scales.detach().cpu()[rows].exp().double().sort(dim=-1).values / reach
    area = opacity * (4 * sigma[:, 1] * sigma[:, 2]).clamp(1e-12, LARGE**2)
    near, w, count = _representatives((x - middle) / reach, area)
    order = torch.randperm(len(near), generator=random)
    rows, x, w, count = (each[near][order] for each in (rows, x, w, count))
    scales, longest = scene.log_scales.detach().cpu()[rows].double().exp().sort(dim=-1)
    axes = to_matrix(scene.quats.detach().cpu()[rows].double())
    normals = axes.gather(2, longest[:, None, :1].expand(-1, 3, 1)).squeeze(-1)
    flat = 1 - scales[:, 0] / scales[:, 1].clamp_min(1e-300)
    return Sample(x, w / w.sum(), count / count.sum(), normals, flat, middle, reach)


def _opaque_rows(means: Vec3, opacity: Tensor) -> Tensor:
    """Indices of opaque Gaussians, at most ``MOST_SORTED`` of them."""
    usable = torch.isfinite(means).all(-1) & (opacity > 0)
    rows = (usable & (opacity >= SOLID_OPACITY)).nonzero().squeeze(-1)
    if len(rows) < 10:  # nothing but haze: use what there is
        rows = usable.nonzero().squeeze(-1)
    if not len(rows):
        raise InputError("an empty scene: no Gaussian in it has an opacity above zero")
    return rows[:: -(-len(rows) // MOST_SORTED)]


def _representatives(x: Vec3, area: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The Gaussian ``(n,)`` that represents each voxel; weights and counts ``(N,)``, valid there.

    ``x (N, 3)``, measured from the middle, and ``area (N,)`` are in units of the reach. Space is
    contracted beyond one reach, so that voxels grow with the distance.
    """
    away = torch.linalg.vector_norm(x, dim=-1)
    near, size = contracted(x), FINEST
    while len((voxels := Voxels.of(near, size)).keys) > SAMPLE:
        size *= 1.2
    v, of = len(voxels.keys), voxels.of_point
    largest = torch.zeros(v).double().scatter_reduce(0, of, area, "amax")
    covered = torch.bincount(of, area, v)
    first = torch.full((v,), len(x)).scatter_reduce(
        0, of, torch.where(area >= largest[of], torch.arange(len(x)), len(x)), "amin"
    )
    face = (size * away.clamp_min(1)) ** 2
    weight = torch.minimum(covered[of], torch.maximum(face, largest[of]))
    return first, weight / (1 + away**2) ** 1.5, voxels.counts[of].double()


def contracted(x: Vec3) -> Vec3:
    """Points ``(N, 3)`` mapped into a ball of radius two; those within radius one stay."""
    away = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(1)
    return x * (2 - 1 / away) / away


def middle_and_reach(x: Vec3, w: Tensor) -> tuple[Vec3, float]:
    """Robust centre ``(3,)`` of the scene, and the distance within which about half of it lies.

    The centre is the geometric median (Weiszfeld) of points ``(n, 3)`` with weights ``(n,)``, which
    outliers do not move.
    """
    step = -(-len(x) // FITTING_SAMPLE)
    x, w = x[::step].double(), w[::step].double()
    at = (w[:, None] * x).sum(0) / w.sum()
    for _ in range(20):
        away = torch.linalg.vector_norm(x - at, dim=-1)
        pull = w / away.clamp_min(1e-9 * float(away.amax()) + 1e-300)
        at = (pull[:, None] * x).sum(0) / pull.sum()
    away = torch.linalg.vector_norm(x - at, dim=-1)
    half, core = (float(quantile(away, w, q)) for q in (0.5, 0.2))
    return at, max(min(half, 8 * core), 1e-12)  # do not count a distant shell of stars


def quantile(x: Tensor, w: Tensor, q: float) -> Tensor:
    """The weighted quantile ``q`` of ``x (n,)``, with weights ``w (n,)``."""
    values, order = x.sort()
    below = w[order].cumsum(0)
    at = torch.searchsorted(below, q * below[-1:]).clamp_max(len(x) - 1)
    return values[at].squeeze()

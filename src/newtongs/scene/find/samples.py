"""Some opaque Gaussians that stand for a scene, with weights that favour its busy middle."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import InputError
from ...rotations import to_matrix
from ...types import Vec3
from ..gaussians import GaussianScene

SOLID = 0.3  # opacity from which a Gaussian counts as part of a surface
LARGE = 0.2  # of the scene's reach: Gaussians count as no wider than this
AREA_POWER = 0.75
FARTHEST = 1e12  # reach of a scene; squares of it must fit into float32
SAMPLE, FEWER = 20_000, 6_000  # Gaussians looked at, and for what needs less


class Sample(NamedTuple):
    """Opaque Gaussians that stand for the scene."""

    x: Vec3
    """Means ``(n, 3)``, float64."""
    w: Tensor
    """Weights ``(n,)``, of sum one: covered area, less the farther from the middle."""
    normals: Vec3
    """Shortest axes ``(n, 3)``."""
    flat: Tensor
    """How flat ``(n,)``: 1 for a disc, 0 for a ball."""
    middle: Vec3
    """Where most of the scene is ``(3,)``."""
    reach: float
    """Distance from the middle within which half of the scene lies."""

    def first(self, k: int) -> "Sample":
        """Only ``k`` of them; their order is random."""
        w = self.w[:k] / self.w[:k].sum()
        return Sample(self.x[:k], w, self.normals[:k], self.flat[:k], self.middle, self.reach)


def sample(scene: GaussianScene, random: torch.Generator) -> Sample:
    """At most ``SAMPLE`` opaque Gaussians."""
    opacity = scene.logits.detach().cpu().sigmoid()
    usable = torch.isfinite(scene.means.detach().cpu()).all(-1) & (opacity > 0)
    rows = (usable & (opacity >= SOLID)).nonzero().squeeze(-1)
    if len(rows) < 10:  # a scene of haze: take what there is
        rows = usable.nonzero().squeeze(-1)
    if not len(rows):
        raise InputError("an empty scene: there is no Gaussian in it whose opacity is above zero")
    rows = rows[torch.randperm(len(rows), generator=random)[:SAMPLE]]
    x = scene.means.detach().cpu()[rows].double()
    scales, order = scene.log_scales.detach().cpu()[rows].double().exp().sort(dim=-1)
    axes = to_matrix(scene.quats.detach().cpu()[rows].double())
    normals = axes.gather(2, order[:, None, :1].expand(-1, 3, 1)).squeeze(-1)
    middle, reach = middle_and_reach(x, opacity[rows])
    if not reach < FARTHEST:
        raise InputError(f"the scene reaches {reach:.1e} from its middle; scale it down")
    away = torch.linalg.vector_norm(x - middle, dim=-1) / reach
    w = _weights(opacity[rows].double(), scales / reach, away)
    flat = 1 - scales[:, 0] / scales[:, 1].clamp_min(1e-300)
    return Sample(x, w, normals, flat, middle, reach)


def _weights(opacity: Tensor, scales: Tensor, away: Tensor) -> Tensor:
    """Weights ``(n,)`` of sum one, from scales ``(n, 3)``, rising, and distances over the reach.

    A plain floor is made of few large Gaussians, a toy on it of many small ones: so the covered
    area counts. Skies and far walls are made of huge ones, which would outweigh all else: so it is
    capped, and falls with the distance from the middle.
    """
    area = (scales[:, 1] * scales[:, 2]).clamp(1e-12, LARGE**2)
    w = opacity * area**AREA_POWER / (1 + away**2) ** 1.5
    return w / w.sum()


def middle_and_reach(x: Vec3, w: Tensor) -> tuple[Vec3, float]:
    """Where most of the scene is ``(3,)``, and how far from there about half of it lies.

    The geometric median (Weiszfeld) of points ``(n, 3)`` with weights ``(n,)``: whatever lies far
    outside does not move it.
    """
    step = -(-len(x) // FEWER)
    x, w = x[::step].double(), w[::step].double()
    at = (w[:, None] * x).sum(0) / w.sum()
    for _ in range(20):
        away = torch.linalg.vector_norm(x - at, dim=-1)
        pull = w / away.clamp_min(1e-9 * float(away.amax()) + 1e-300)
        at = (pull[:, None] * x).sum(0) / pull.sum()
    away = torch.linalg.vector_norm(x - at, dim=-1)
    half, core = (float(quantile(away, w, q)) for q in (0.5, 0.2))
    return at, max(min(half, 8 * core), 1e-12)  # a far shell of stars must not count as the scene


def quantile(x: Tensor, w: Tensor, q: float) -> Tensor:
    """The value of ``x (n,)`` below which the part ``q`` of the weights ``w (n,)`` lies."""
    values, order = x.sort()
    below = w[order].cumsum(0)
    at = torch.searchsorted(below, q * below[-1:]).clamp_max(len(x) - 1)
    return values[at].squeeze()

"""What a ray hits first: the Gaussian under a pointer, and the object it belongs to."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...base import rotations
from ...base.errors import InputError
from ...base.types import Vec3
from ...scene.cameras import Camera
from ...scene.gaussians import BACKGROUND, GaussianScene
from .clusters import Cluster

SIGMAS = 3.0  # beyond, a Gaussian is invisible
OPAQUE = 0.5  # part of the light that must be absorbed for a hit
MOSTLY = 0.5  # part of an object that a rectangle must contain


class Crossings(NamedTuple):
    """Gaussians that a ray passes through, unordered."""

    rows: Tensor
    """``(n,)``."""
    distances: Tensor
    """Where each is densest ``(n,)``, in units of the ray's direction; above zero."""
    alphas: Tensor
    """Part of the light that each absorbs ``(n,)``."""


def crossings(
    scene: GaussianScene, origin: Vec3 | Sequence[float], direction: Vec3 | Sequence[float]
) -> Crossings:
    """The Gaussians along the ray from ``origin (3,)`` in ``direction (3,)``."""
    o, d = _three("origin", origin).to(scene.means), _three("direction", direction).to(scene.means)
    if not d.norm() > 0:
        raise InputError("direction: expected three numbers that are not all zero")
    away = scene.means - o
    along = away @ d / (d @ d)
    aside = (away - along[:, None] * d).norm(dim=-1)
    near = (aside < SIGMAS * scene.scales.amax(-1)).nonzero().squeeze(-1)
    # In its own axes, in units of its standard deviations, each Gaussian is a ball.
    turn = rotations.to_matrix(scene.quats[near]).mT / scene.scales[near].unsqueeze(-1)
    start, way = -(turn @ away[near, :, None]).squeeze(-1), turn @ d
    length = (way * way).sum(-1).clamp_min(1e-30)
    t = -(start * way).sum(-1) / length
    gap = ((start + t[:, None] * way) ** 2).sum(-1)
    met = (t > 0) & (gap < SIGMAS**2)
    alpha = scene.opacities[near] * torch.exp(-0.5 * gap)
    return Crossings(near[met], t[met], alpha[met])


def first_opaque(distances: Tensor, alphas: Tensor) -> int | None:
    """Index of the Gaussian, of those at ``distances (n,)``, at which half the light is gone.

    So a few faint floaters in front of an object are ignored.
    """
    order = distances.argsort()
    left = (1 - alphas[order].clamp(0, 0.999)).cumprod(0)
    met = (left <= 1 - OPAQUE).nonzero()
    return int(order[met[0, 0]]) if len(met) else None


def struck(
    scene: GaussianScene, origin: Vec3 | Sequence[float], direction: Vec3 | Sequence[float]
) -> int | None:
    """Row of the Gaussian that a ray hits; None if it hits nothing opaque."""
    found = crossings(scene, origin, direction)
    index = first_opaque(found.distances, found.alphas)
    return None if index is None else int(found.rows[index])


def word_of(scene: GaussianScene, clusters: Sequence[Cluster], row: int) -> str | None:
    """The object that a Gaussian belongs to, as a selection names it; None if to none.

    Objects marked in the file take precedence over clusters.
    """
    if int(scene.ids[row]) != BACKGROUND:
        return f"id:{int(scene.ids[row])}"
    if (scene.ids != BACKGROUND).any():
        return None
    return next((f"cluster:{c.id}" for c in clusters if c.mask[row]), None)


def words_within(
    scene: GaussianScene,
    clusters: Sequence[Cluster],
    camera: Camera,
    low: Sequence[float],
    high: Sequence[float],
) -> list[str]:
    """Objects mostly inside a rectangle of a picture, from ``low`` to ``high`` in pixels."""
    pixels, depth = camera.project(scene.means)
    inside = ((pixels >= pixels.new_tensor(low)) & (pixels <= pixels.new_tensor(high))).all(-1)
    inside &= depth > 0
    marks = [i for i in scene.object_ids if i != BACKGROUND]
    masks = {f"id:{i}": scene.ids == i for i in marks}
    if not marks:
        masks = {f"cluster:{c.id}": c.mask for c in clusters}
    return [word for word, mask in masks.items() if inside[mask].float().mean() > MOSTLY]


def _three(name: str, x: Vec3 | Sequence[float]) -> Vec3:
    v = torch.as_tensor(x, dtype=torch.float64)
    if tuple(v.shape) != (3,) or not torch.isfinite(v).all():
        raise InputError(f"{name}: expected three finite numbers, got {x!r}")
    return v

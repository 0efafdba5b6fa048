"""Candidate planes for the floor of a scene: proposed, scored in bulk, fitted.

They are proposed (RANSAC) from single flat Gaussians, from triples of Gaussians, and along the axes
that file formats use. Each is scored with two widths, a thin one for boards and a thick one for
lawns.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ...base.types import Vec3
from ..scene_sample import FITTING_SAMPLE, Sample, quantile

JUDGING_SAMPLE = 2_000  # Gaussians with which the many proposals are scored
TRIPLES, DISCS, HEIGHTS = 500, 400, 64  # proposals of each kind; heights per known direction
FINALISTS = 12  # proposals per width that are refined
# Up in captures (COLMAP's axes), in glTF and LGM, in nerfstudio and Blender.
CONVENTIONS = ((0.0, -1.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
PREFERENCE = 0.15  # bonus of the first convention on a score; the others add a little less
NEAR_CONVENTION = math.cos(math.radians(15))
WIDTHS = (0.02, 0.06)  # thickness of a floor over the scene's reach, for proposals
THINNEST = 0.002  # the same, for the fitted floor


class Planes(NamedTuple):
    """``K`` planes ``n . x = d``."""

    n: Vec3
    """Unit normals ``(K, 3)``."""
    d: Tensor
    """``(K,)``."""
    tol: Tensor
    """Width ``(K,)`` within which Gaussians lie on them, in scene units."""

    def pick(self, index: Tensor) -> "Planes":
        """A subset, by index or mask."""
        return Planes(self.n[index], self.d[index], self.tol[index])


def candidates(s: Sample, up: Vec3 | None, random: torch.Generator) -> Planes:
    """Fitted planes with normals towards most of the scene; best first.

    With ``up`` all have that normal.
    """
    fixed, found = up is not None, []
    scores, guesses = _scores(s.first(JUDGING_SAMPLE), _guesses(s, up, random), fixed)
    for tol, score in zip(WIDTHS, scores, strict=True):
        wide = guesses._replace(tol=torch.full_like(guesses.d, tol * s.reach))
        found.append(_refined(s, wide, score, up))
    every = Planes(*(torch.cat(same) for same in zip(*found, strict=True)))
    scores, every = _scores(s.first(FITTING_SAMPLE), every, fixed)
    which = torch.arange(len(WIDTHS)).repeat_interleave(torch.tensor([len(f.d) for f in found]))
    score = scores[which, torch.arange(len(which))]
    order = score.argsort(descending=True, stable=True)
    every = every.pick(order[score[order] > 0])
    return every.pick(_distinct(s, every, FINALISTS))


def _guesses(s: Sample, up: Vec3 | None, random: torch.Generator) -> Planes:
    """Proposed planes ``(K,)``.

    Half of the triples are drawn farther out: a floor is wider than an object on it, which may have
    far more Gaussians.
    """
    if up is not None:
        return _through(s, up.expand(8 * HEIGHTS, 3), s.w, random)
    away = torch.linalg.vector_norm(s.x - s.middle, dim=-1) / s.reach
    drawn = [_draw(w, 3 * TRIPLES, random) for w in (s.w, s.w * (1 + away**2))]
    corners = s.x[torch.cat(drawn)].view(-1, 3, 3)
    n = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = torch.linalg.vector_norm(n, dim=-1)
    proper = length > 1e-6 * s.reach**2
    n, at = (n / length.clamp_min(1e-300)[:, None])[proper], corners[proper, 0]
    discs = _draw(s.w * s.flat + 1e-12, DISCS, random)
    known = torch.tensor(CONVENTIONS, dtype=torch.float64).repeat_interleave(HEIGHTS, 0)
    along = _through(s, known, s.w, random)
    n, at = torch.cat([n, s.normals[discs]]), torch.cat([at, s.x[discs]])
    return _planes(torch.cat([n, along.n]), torch.cat([(n * at).sum(-1), along.d]))


def _planes(n: Vec3, d: Tensor) -> Planes:
    return Planes(n, d, torch.zeros_like(d))


def _through(s: Sample, n: Vec3, w: Tensor, random: torch.Generator) -> Planes:
    """Planes of given normals ``(K, 3)``, each through a Gaussian drawn with weights ``w``."""
    return _planes(n, (n * s.x[_draw(w, len(n), random)]).sum(-1))


def _draw(w: Tensor, k: int, random: torch.Generator) -> Tensor:
    """``k`` indices drawn with replacement."""
    return torch.multinomial(w, k, replacement=True, generator=random)


def _scores(s: Sample, planes: Planes, fixed: bool) -> tuple[Tensor, Planes]:
    """Score of each plane at each width ``(W, K)``; the planes with normals pointing up.

    Computed in chunks that fit into the processor's cache.
    """
    pieces = [
        _scores_of_few(s, planes.pick(i), fixed) for i in torch.arange(len(planes.d)).split(128)
    ]
    score = torch.cat([score for score, _ in pieces], -1)
    turned = torch.cat([turned for _, turned in pieces])
    return score, Planes(planes.n * turned[:, None], planes.d * turned, planes.tol)


def _scores_of_few(s: Sample, planes: Planes, fixed: bool) -> tuple[Tensor, Tensor]:
    """Scores ``(W, K)``, and -1 for normals ``(K,)`` that point away from most of the scene."""
    x, w, n = ((s.x - s.middle) / s.reach).float(), s.w.float(), planes.n.float()
    h = x @ n.T - ((planes.d - planes.n @ s.middle) / s.reach).float()
    lying = w[:, None] * (1 - s.flat.float()[:, None] * (1 - (s.normals.float() @ n.T) ** 2))
    side = (h > 3 * WIDTHS[0]).float() - (h < -3 * WIDTHS[0]).float()
    turned = torch.where((w @ side < 0) & (not fixed), -1.0, 1.0)
    worth = bonus(planes.n * turned[:, None])
    scores = []
    for tol in WIDTHS:
        on = torch.exp(-((h / tol) ** 2))
        above, below = (w @ (turned * h * side > 3 * tol).float() for side in (1, -1))
        one_sided = (1 - 2 * below / (above + below).clamp_min(1e-9)).clamp_min(0)
        thin = math.sqrt(WIDTHS[0] / tol)  # a thick layer contains more by chance
        scores.append(thin * (on * lying).sum(0) * one_sided * _width(x, w, on) * worth)
    return torch.stack(scores), turned.double()


def _width(x: Vec3, w: Tensor, on: Tensor) -> Tensor:
    """Spread of what lies on each plane relative to that of everything, at most one ``(K,)``."""
    x = x - w @ x
    total = (w @ on).clamp_min(1e-12)
    moments = torch.cat([w * (x**2).sum(-1)[None], (w * x.T)]) @ on / total
    spread = moments[0] - (moments[1:] ** 2).sum(0)
    return (spread / (w @ (x**2).sum(-1)).clamp_min(1e-30)).clamp(0, 1).sqrt()


def bonus(n: Vec3) -> Tensor:
    """A small bonus factor for directions that are up in most files ``(K,)``."""
    c = n @ torch.tensor(CONVENTIONS, dtype=torch.float64).T
    close = torch.exp((c - 1) / (1 - NEAR_CONVENTION))
    worth = PREFERENCE * torch.tensor([1.0, 0.8, 0.7], dtype=torch.float64)
    return (1 + (worth * close).amax(-1)).float()


def _refined(s: Sample, planes: Planes, score: Tensor, up: Vec3 | None) -> Planes:
    """The best distinct planes, fitted to what lies within their width."""
    planes = planes.pick(score.argsort(descending=True, stable=True))
    planes = planes.pick(_distinct(s, planes, FINALISTS, apart=2.0))
    for wider in (3.0, 2.0, 1.4, 1.0):
        planes = fitted(s.first(FITTING_SAMPLE), planes, wider * planes.tol, up)
    return planes


def _distinct(s: Sample, planes: Planes, most: int, apart: float = 1.0) -> Tensor:
    """Indices of the first ``most`` planes that differ from all earlier ones."""
    kept: list[int] = []
    d = planes.d - planes.n @ s.middle
    left = torch.ones_like(d, dtype=torch.bool)
    near = 2 * apart * planes.tol.clamp_min(WIDTHS[0] * s.reach)
    while left.any() and len(kept) < most:
        i = int(left.int().argmax())
        kept.append(i)
        turned = planes.n @ planes.n[i] <= math.cos(math.radians(4 * apart))
        left &= turned | ((d - d[i]).abs() > torch.maximum(near, near[i]))
    return torch.tensor(kept, dtype=torch.long)


def fitted(s: Sample, planes: Planes, tol: float | Tensor, up: Vec3 | None) -> Planes:
    """Weighted least-squares fit of each plane to what is within ``tol`` of it."""
    h = s.x @ planes.n.T - planes.d
    on = s.w[:, None] * torch.exp(-((h / tol) ** 2))
    on = on / on.sum(0).clamp_min(1e-300)
    at = on.T @ s.x
    if up is not None:
        return planes._replace(d=(planes.n * at).sum(-1))
    middle = s.w @ s.x  # subtracted first: far from the origin the difference below would cancel
    x, c = s.x - middle, at - middle
    squares = (x[:, :, None] * x[:, None, :]).flatten(1)
    moments = (on.T @ squares).view(-1, 3, 3) - c[:, :, None] * c[:, None, :]
    n = torch.linalg.eigh(moments).eigenvectors[..., 0]
    n = n * torch.where((n * planes.n).sum(-1) < 0, -1.0, 1.0).double()[:, None]
    return planes._replace(n=n, d=(n * at).sum(-1))


def polished(s: Sample, plane: Planes, up: Vec3 | None) -> tuple[Vec3, float, float]:
    """Normal, offset and thickness of one plane, fitted to its thin core."""
    sigma = float(plane.tol[0])
    for _ in range(5):
        sigma = _thickness(s, plane, sigma)
        plane = fitted(s, plane, 2 * sigma, up)
    return plane.n[0], float(plane.d[0]), sigma


def _thickness(s: Sample, plane: Planes, sigma: float) -> float:
    """Standard deviation of what lies on one plane, at most the previous ``sigma``."""
    h = (s.x @ plane.n[0] - plane.d[0]).abs()
    on = h < 2 * sigma
    spread = 1.4826 * float(quantile(h[on], s.w[on], 0.5)) if on.any() else sigma
    return min(max(spread, THINNEST * s.reach), sigma)

"""The training objective (Appendix A)."""

import torch
from torch import Tensor

from ...base import rotations
from ...base.state import State
from ...base.types import StateTensor, Y
from .config import LossWeights

FLOOR = 0.0
SCALE_BENDS = 0.1  # weight of second differences of scale relative to those of position


def objective(
    predicted: StateTensor, target: StateTensor, weights: LossWeights
) -> dict[str, Tensor]:
    """Total and terms over all frames of ``(B, T, 22)``, each a mean over the batch.

    Means over equal batches average to the mean over their union, which is what micro-batches
    and ranks rely on.
    """
    a, b = State(predicted), State(target)
    terms = {
        name: (getattr(a, name) - getattr(b, name)).square().mean()
        for name in ("p", "v", "w", "s", "u")
    }
    terms["q"] = rotations.discrepancy(a.q, b.q).mean()
    terms["penetration"] = (FLOOR + a.s[..., Y].abs() - a.p[..., Y]).relu().square().mean()
    terms["smooth"] = _curvature(a.p) + SCALE_BENDS * _curvature(a.s)
    if weights.material:
        material = [(getattr(a, k) - getattr(b, k)) for k in ("m", "e", "mu")]
        terms["material"] = torch.cat(material, dim=-1).square().mean()
    terms["total"] = sum(
        (getattr(weights, name) * term for name, term in terms.items()),
        torch.zeros_like(terms["q"]),
    )
    return terms


def term_names(weights: LossWeights) -> list[str]:
    """Names of the terms that :func:`objective` returns, in its order."""
    material = ["material"] if weights.material else []
    return ["p", "v", "w", "s", "u", "q", "penetration", "smooth", *material, "total"]


def _curvature(x: Tensor) -> Tensor:
    """Mean squared second difference over time of ``(B, T, 3)``."""
    return (x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]).square().mean()

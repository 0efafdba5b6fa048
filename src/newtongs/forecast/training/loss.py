"""The objective of ContextNND: pull the best hypothesis to the truth, and the choice to it."""

import torch
from torch import Tensor
from torch.nn import functional

from ...base import rotations
from ...base.state import State
from ...base.types import StateTensor
from .config import ContextTrainConfig, ContextWeights

NEGLIGIBLE = {"p": 4e-3, "v": 5e-2, "w": 1e-2, "s": 2e-3, "u": 2e-2}  # errors that count as zero


def hypothesis_losses(
    states: StateTensor, target: StateTensor, weights: ContextWeights
) -> dict[str, Tensor]:
    """Loss terms of every hypothesis ``(B, K)``, unweighted, and their weighted sum."""
    a, b = State(states), State(target.unsqueeze(1))
    size = 1 + torch.linalg.vector_norm(b.w, dim=-1, keepdim=True)
    errors = {
        "p": a.p - b.p,
        "v": a.v - b.v,
        "w": (a.w - b.w) / size,
        "s": torch.log(a.s) - torch.log(b.s),
        "u": a.u - b.u,
    }
    terms = {
        name: torch.sqrt(x.square().sum(-1).mean(-1) + NEGLIGIBLE[name] ** 2)
        for name, x in errors.items()
    }
    terms["q"] = rotations.discrepancy(a.q, b.q).mean(-1)
    terms["total"] = torch.stack([getattr(weights, k) * x for k, x in terms.items()]).sum(0)
    return terms


def objective(
    states: StateTensor, logits: Tensor, target: StateTensor, config: ContextTrainConfig
) -> dict[str, Tensor]:
    """Total and terms, means over the batch.

    Args:
        states: of all hypotheses ``(B, K, T, 22)``.
        logits: of their probabilities ``(B, K)``.
        target: ``(B, T, 22)``.
        config: weights, temperature and spread.
    """
    losses = hypothesis_losses(states, target, config.loss)
    log_share = functional.log_softmax(logits, -1)
    with torch.no_grad():
        right = torch.softmax(log_share - losses["total"] / config.temperature, -1)
        learns = (1 - config.spread) * right + config.spread / right.shape[-1]
    blend = (log_share.exp()[..., None, None] * State(states).p).sum(1)
    terms = {name: (right * x).sum(-1).mean() for name, x in losses.items() if name != "total"}
    terms["choice"] = -(right * log_share).sum(-1).mean()
    terms["mean"] = (blend - State(target).p).square().sum(-1).mean()
    terms["total"] = (
        (learns * losses["total"]).sum(-1).mean()
        + config.loss.choice * terms["choice"]
        + config.loss.mean * terms["mean"]
    )
    return terms

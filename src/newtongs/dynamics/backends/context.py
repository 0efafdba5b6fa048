"""The quickest way to evaluate ContextNND on the machine at hand."""

from collections.abc import Callable
from importlib.util import find_spec

import torch

from ...types import StateTensor, Times
from ..context import ContextNND

ROWS = 4096  # sequences of a piece that is predicted at once by plain torch


def context_predictor(model: ContextNND) -> Callable[[StateTensor, Times], StateTensor]:
    """The mixture's mean ``(B, T, 22)`` of observed states ``(B, k, 22)``, without gradients.

    On CUDA by the fused kernel, whose products have half precision: measured, this moves a
    trajectory by about a millimetre.
    """
    if model.like.device.type == "cuda" and find_spec("triton"):
        from .fused_context import FusedContext

        if FusedContext.supports(model):
            fused = FusedContext(model)
            return lambda observed, times: fused(observed, times.to(observed)).mean()
    return lambda observed, times: plain(model, observed, times)


def likeliest_predictor(model: ContextNND) -> Callable[[StateTensor, Times], StateTensor]:
    """The likeliest future ``(B, T, 22)`` of observed states ``(B, k, 22)``, without gradients."""
    if model.like.device.type == "cuda" and find_spec("triton"):
        from .fused_context import FusedContext

        if FusedContext.supports(model):
            fused = FusedContext(model)
            return lambda observed, times: fused(
                observed, times.to(observed), likeliest=True
            ).states[:, 0]
    return torch.no_grad()(model.likeliest)


@torch.no_grad()
def plain(model: ContextNND, observed: StateTensor, times: Times) -> StateTensor:
    """The same by the model itself, in pieces that fit into the cache."""
    rows = ROWS if model.like.device.type == "cuda" else 256
    return torch.cat([model(part, times).mean() for part in observed.split(rows)])

"""The quickest way to evaluate ContextNND on the machine at hand."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from ...types import StateTensor, Times
from ..context import ContextNND
from ..context.model import prepared

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
            return lambda observed, times: whole(
                fused(observed, times.to(observed)).mean(),
                lambda rows: plain(model, observed[rows], times),
            )
    return lambda observed, times: plain(model, observed, times)


def likeliest_predictor(model: ContextNND) -> Callable[[StateTensor, Times], StateTensor]:
    """The likeliest future ``(B, T, 22)`` of observed states ``(B, k, 22)``, without gradients."""
    if model.like.device.type == "cuda" and find_spec("triton"):
        from .fused_context import FusedContext

        if FusedContext.supports(model):
            fused = FusedContext(model)
            return lambda observed, times: whole(
                fused(observed, times.to(observed), likeliest=True).states[:, 0],
                lambda rows: model.likeliest(observed[rows], times),
            )
    like = model.like
    if like.device.type == "cpu" and like.dtype == torch.float32 and find_spec("numba"):
        return _on_cpu(model)
    return torch.no_grad()(model.likeliest)


@torch.no_grad()
def whole(states: StateTensor, again: Callable[[Tensor], StateTensor]) -> StateTensor:
    """States ``(B, T, 22)``; rows that half precision could not hold as ``again`` makes them."""
    beyond = ~torch.isfinite(states.sum((1, 2)))
    if beyond.any():
        states[beyond] = again(beyond)
    return states


def _on_cpu(model: ContextNND) -> Callable[[StateTensor, Times], StateTensor]:
    """One object by compiled code, several by the model itself."""
    from .numba_context import OneObject

    one = OneObject(model)

    @torch.no_grad()
    def run(observed: StateTensor, times: Times) -> StateTensor:
        states, _ = prepared(observed, None) if observed.dim() != 3 else (observed, None)
        if len(states) == 1:
            return one(states if observed.dim() == 3 else states[:, :1], times)
        return model.likeliest(observed, times)

    return run


@torch.no_grad()
def plain(model: ContextNND, observed: StateTensor, times: Times) -> StateTensor:
    """The same by the model itself, in pieces that fit into the cache."""
    rows = ROWS if model.like.device.type == "cuda" else 256
    return torch.cat([model(part, times).mean() for part in observed.split(rows)])

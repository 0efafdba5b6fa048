"""ContextNND: a predictor from the first state and, if available, the states after it."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy
from .config import RATE, SEEN, ContextConfig

if TYPE_CHECKING:
    from .model import ContextNND, Mixture
    from .weights import load_context, load_pretrained_context

__all__ = [
    "RATE", "SEEN", "ContextConfig", "ContextNND", "Mixture", "load_context",
    "load_pretrained_context",
]  # fmt: skip

# The settings are needed for the command line's help, which must not import torch.
__getattr__ = lazy(__name__, {
    "ContextNND": "model", "Mixture": "model", "load_context": "weights",
    "load_pretrained_context": "weights",
})  # fmt: skip

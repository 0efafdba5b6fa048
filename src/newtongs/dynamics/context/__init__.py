"""ContextNND: a predictor that reads the first state and, where there are any, those after it."""

from typing import TYPE_CHECKING

from ...lazy import lazy
from .config import RATE, SEEN, ContextConfig

if TYPE_CHECKING:
    from .model import ContextNND, Mixture
    from .weights import load_context, load_pretrained_context

__all__ = [
    "RATE", "SEEN", "ContextConfig", "ContextNND", "Mixture", "load_context",
    "load_pretrained_context",
]  # fmt: skip

# The settings alone, which the command line's help shows, must not cost an import of torch.
__getattr__ = lazy(__name__, {
    "ContextNND": "model", "Mixture": "model", "load_context": "weights",
    "load_pretrained_context": "weights",
})  # fmt: skip

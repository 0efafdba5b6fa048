"""Training of ContextNND: ``train(ContextTrainConfig(out=...))``."""

from typing import TYPE_CHECKING

from ...lazy import lazy
from .config import ContextTrainConfig, ContextWeights, laptop

if TYPE_CHECKING:
    from .loop import train

__all__ = ["ContextTrainConfig", "ContextWeights", "laptop", "train"]

__getattr__ = lazy(__name__, {"train": "loop"})

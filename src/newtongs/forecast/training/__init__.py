"""Training of ContextNND: ``train(ContextTrainConfig(out=...))``."""

from typing import TYPE_CHECKING

from ...base.lazy import lazy
from .config import LAPTOP, ContextTrainConfig, ContextWeights

if TYPE_CHECKING:
    from .loop import train

__all__ = ["LAPTOP", "ContextTrainConfig", "ContextWeights", "train"]

__getattr__ = lazy(__name__, {"train": "loop"})

"""Training of Gaussian-NND: ``train(TrainConfig(data=..., out=...))``."""

from typing import TYPE_CHECKING

from ...base.errors import Interrupted
from ...base.lazy import lazy
from .config import LossWeights, TrainConfig

if TYPE_CHECKING:
    from .loop import train
    from .loss import objective

__all__ = ["Interrupted", "LossWeights", "TrainConfig", "objective", "train"]

__getattr__ = lazy(__name__, {"objective": "loss", "train": "loop"})

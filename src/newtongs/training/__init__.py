"""Training of Gaussian-NND: ``train(TrainConfig(data=..., out=...))``."""

from .config import LossWeights, TrainConfig
from .loop import Interrupted, train
from .loss import objective

__all__ = ["Interrupted", "LossWeights", "TrainConfig", "objective", "train"]

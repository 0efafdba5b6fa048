"""Everything that defines a training run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...base.errors import InputError
from ...dynamics.config import NNDConfig


@dataclass(frozen=True)
class LossWeights:
    """Weights of the objective (Appendix A)."""

    p: float = 1.0
    """Position."""
    q: float = 0.25
    """Orientation."""
    v: float = 0.5
    """Linear velocity."""
    w: float = 0.2
    """Angular velocity."""
    s: float = 0.2
    """Scale."""
    u: float = 0.1
    """Scale rate."""
    material: float = 0.0
    """Mass, restitution and attenuation."""
    penetration: float = 0.05
    """Floor penetration."""
    smooth: float = 0.01
    """Second differences of position and, weighted by a tenth, of scale."""


@dataclass(frozen=True)
class TrainConfig:
    """A run. The defaults are the paper's; only the speed settings below `device` are ours."""

    FREE: ClassVar[tuple[str, ...]] = (
        "out",
        "data",
        "device",
        "backend",
        "micro_batch",
        "tensorboard",
    )
    """Settings that change neither the data nor the requested arithmetic."""
    data: Path
    """State-32 folder with train.pt and val_id.pt."""
    out: Path
    """Folder of the run: checkpoints, metrics.jsonl. An unfinished run found there is resumed."""
    seed: int = 7301
    """Seed of the initial weights; epoch e is shuffled with seed + e."""
    epochs: int = 100
    """Passes over the training set; also the length of the cosine schedule."""
    updates_per_epoch: int = 16
    """Optimiser steps per epoch; the global batch is the training set divided by it."""
    lr: float = 1e-4
    """Initial learning rate of AdamW."""
    lr_min: float = 1e-6
    """Learning rate at the end of the cosine schedule."""
    weight_decay: float = 0.01
    """Decoupled weight decay of AdamW."""
    checkpoint_every: int = 5
    """Epochs between checkpoints: evaluate the full val_id objective and keep the weights (also at
    epoch 1)."""
    loss: LossWeights = field(default_factory=LossWeights)
    """Weights of the objective."""
    model: NNDConfig = field(default_factory=NNDConfig)
    """The model."""
    device: str = "cpu"
    """cpu or cuda. Under torchrun each rank takes its own CUDA device."""
    backend: Literal["auto", "reference", "compile", "cuda"] = "auto"
    """How a batch is computed: the plain implementation with autograd, the same through
    torch.compile (needs a C++ compiler), or CUDA kernels with gradients written by hand. auto takes
    cuda where it applies, and compile on the CPU in runs long enough for it."""
    micro_batch: int | None = None
    """Sequences differentiated at once; smaller needs less memory. Default: 256 on the CPU (512
    for the reference), as many as the card has room for on CUDA (8192 for the reference)."""

    tensorboard: bool = False
    """Also write the metrics of every epoch to OUT/tensorboard; needs the package tensorboard."""

    def __post_init__(self) -> None:
        for name in ("epochs", "updates_per_epoch", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.micro_batch is not None and self.micro_batch < 1:
            raise InputError(f"micro_batch must be at least 1, got {self.micro_batch}")
        if not self.lr > 0:
            raise InputError(f"lr must be positive, got {self.lr}")


# A run of about two minutes on two CPU cores: few small batches, so a higher learning rate.
LAPTOP: dict[str, Any] = {"epochs": 6, "lr": 2e-3, "lr_min": 1e-4}

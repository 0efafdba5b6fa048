"""Everything that defines a training run of ContextNND."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ...base.errors import InputError
from ..config import ContextConfig


@dataclass(frozen=True)
class ContextWeights:
    """Weights of the objective.

    The terms are root mean squares over a sequence, so that no family counts more than another
    because it moves farther.
    """

    p: float = 1.0
    """Position."""
    v: float = 0.05
    """Linear velocity; low, since ours is the derivative of the position and the data's is not
    always (an object rolls back while its stored velocity is zero)."""
    w: float = 0.1
    """Angular velocity, relative to one plus its magnitude."""
    q: float = 0.2
    """Orientation."""
    s: float = 0.5
    """Logarithm of the scale."""
    u: float = 0.02
    """Scale rate."""
    choice: float = 0.3
    """Cross-entropy of the probabilities against which hypothesis was right."""
    mean: float = 0.02
    """Mean squared position error of the blend, which the metric uses."""


@dataclass(frozen=True)
class ContextTrainConfig:
    """A run on newly generated sequences in State-32's training ranges, never the shifted ones."""

    FREE: ClassVar[tuple[str, ...]] = ("out", "device", "save_every")
    """Settings that may differ between parts of one run."""
    out: Path
    """Folder of the run: checkpoints, metrics.jsonl. An unfinished run found there is resumed."""
    seed: int = 7301
    """Seed of the initial weights and of all random draws."""
    updates: int = 9000
    """Optimiser steps; also the length of the schedule."""
    batch: int = 4096
    """Sequences per step."""
    frames: int = 16
    """Frames of each sequence that a step uses, spread over all 64."""
    pool: int = 65_536
    """Sequences per motion generated at a time."""
    rounds: int = 2
    """Number of such pools, one after another."""
    lr: float = 1e-3
    """Peak learning rate of AdamW."""
    lr_min: float = 1e-6
    """Learning rate at the end of the cosine schedule."""
    warm_up: int = 500
    """Steps of linear warm-up."""
    weight_decay: float = 0.1
    """Decoupled weight decay of AdamW."""
    average: float = 0.999
    """Decay of the exponential moving average of the weights, which is what is saved."""
    noise: float = 0.012
    """Largest noise on observed states, in standard deviations of each channel of Z_0. Half of the
    sequences have none."""
    misstated: float = 0.25
    """Fraction of the sequences whose velocity and spin are misstated to the reader, so that it
    does not mistake speed for a family of motion. The motion itself stays unchanged."""
    temperature: float = 0.1
    """Loss difference at which a hypothesis counts as clearly better."""
    spread: float = 0.05
    """Fraction of every sequence from which all hypotheses learn, so that none dies out."""
    save_every: int = 2000
    """Steps between checkpoints."""
    loss: ContextWeights = field(default_factory=ContextWeights)
    """Weights of the objective."""
    model: ContextConfig = field(default_factory=ContextConfig)
    """The model."""
    device: str = "cpu"
    """cpu or cuda."""

    def __post_init__(self) -> None:
        for name in ("updates", "batch", "pool", "rounds", "save_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 1 <= self.frames <= 64 or 64 % self.frames:
            raise InputError(f"frames must divide 64, got {self.frames}")
        if not self.lr > 0:
            raise InputError(f"lr must be positive, got {self.lr}")


# A few minutes on two CPU cores: a smaller model, small batches.
LAPTOP: dict[str, Any] = {
    "updates": 3000, "batch": 256, "frames": 8, "pool": 2048, "rounds": 1, "warm_up": 100,
    "average": 0.99, "model": ContextConfig(width=256, blocks=2, hidden=64, layers=2),
}  # fmt: skip

"""Everything that defines a training run of ContextNND."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from ...dynamics.context.config import ContextConfig
from ...errors import InputError


@dataclass(frozen=True)
class ContextWeights:
    """Weights of the objective.

    The terms are roots of mean squares over a sequence, so that no kind of motion counts for more
    than another because it goes farther.
    """

    p: float = 1.0
    """Position."""
    v: float = 0.05
    """Linear velocity; low, since it follows from the position and the data's own does not always
    (an object that rolls back while its velocity is stored as zero)."""
    w: float = 0.1
    """Angular velocity, relative to one plus its own size."""
    q: float = 0.2
    """Orientation."""
    s: float = 0.5
    """Logarithm of the scale."""
    u: float = 0.02
    """Scale rate."""
    choice: float = 0.3
    """Cross-entropy of the probabilities against which hypothesis was right."""
    mean: float = 0.02
    """Mean square of the blend's position error, which the metric counts."""


@dataclass(frozen=True)
class ContextTrainConfig:
    """A run: fresh sequences of State-32's ranges in distribution, never the shifted ones."""

    out: Path
    """Folder of the run: checkpoints, metrics.jsonl. An unfinished run found there goes on."""
    seed: int = 7301
    """Seed of the initial weights and of everything drawn."""
    updates: int = 9000
    """Optimiser steps; also the length of the schedule."""
    batch: int = 4096
    """Sequences a step."""
    frames: int = 16
    """Frames of each sequence that a step looks at, spread over all 64."""
    pool: int = 65_536
    """Sequences of each motion drawn at a time."""
    rounds: int = 2
    """How many such pools follow one another."""
    lr: float = 1e-3
    """Highest learning rate of AdamW."""
    lr_min: float = 1e-6
    """Learning rate at the end of the cosine schedule."""
    warm_up: int = 500
    """Steps in which the learning rate rises."""
    weight_decay: float = 0.1
    """Decoupled weight decay of AdamW."""
    average: float = 0.999
    """Of the weights that are kept: each step they move by one minus this to the current ones."""
    noise: float = 0.012
    """Highest noise on observed states, in standard deviations of each channel of Z_0. Half of the
    sequences are shown as they are."""
    misstated: float = 0.25
    """Share of the sequences whose velocity and spin the reader is told wrongly, so that it does
    not take speed for a kind of motion. The motion itself stays as it was drawn."""
    temperature: float = 0.1
    """Difference of loss at which a hypothesis counts as clearly the better one."""
    spread: float = 0.05
    """Share of every sequence from which all hypotheses learn, so that none is forgotten."""
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


# Some minutes on two CPU cores: a smaller model, small batches.
LAPTOP = {
    "updates": 3000, "batch": 256, "frames": 8, "pool": 2048, "rounds": 1, "warm_up": 100,
    "average": 0.99, "model": ContextConfig(width=256, blocks=2, hidden=64, layers=2),
}  # fmt: skip


def laptop(config: ContextTrainConfig) -> ContextTrainConfig:
    """The preset; a setting that differs from the full run's was chosen, and stays."""
    full = ContextTrainConfig(out=config.out)
    chosen = {k: v for k, v in LAPTOP.items() if getattr(config, k) == getattr(full, k)}
    return replace(config, **chosen)  # type: ignore[arg-type]

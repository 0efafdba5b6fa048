"""The configuration of ContextNND."""

from dataclasses import dataclass

from ..base.errors import InputError

SEEN = 16  # states that the model can see, at most
RATE = 24.0  # Hz: frame j is j / 24 s after the first


@dataclass(frozen=True)
class ContextConfig:
    """Sizes of the two networks."""

    width: int = 512
    """Width of the reader, which turns the observed states into a context."""
    blocks: int = 4
    """Residual blocks of the reader."""
    hidden: int = 128
    """Width of the decoder, which is evaluated once per time."""
    layers: int = 3
    """Hidden layers of the decoder."""
    hypotheses: int = 3
    """Number of futures that the model predicts."""

    def __post_init__(self) -> None:
        for name in ("width", "blocks", "hidden", "layers", "hypotheses"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")

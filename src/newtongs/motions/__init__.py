"""Motion families: State-32's 32 and your own. ``generate("free_fall", 100, seed=1).states``.

Ground truth for training and evaluation. Nothing here imports the dynamics model: targets made
with the model's own terms would make the evaluation circular.
"""

from . import closed_form, contact, expanded, flight  # noqa: F401  (registration)
from .generate import DT, FRAMES, Sequences, generate, generate_blocks
from .operators import (
    Events,
    Path,
    ballistic,
    centered,
    floor,
    forward,
    length,
    march,
    stop_floor,
    wall,
)
from .registry import STATE32, Family, families, family, get, names, unregister
from .sampling import IN_DISTRIBUTION, VELOCITY_SHIFT, Draw, Ranges

__all__ = [
    "DT",
    "FRAMES",
    "IN_DISTRIBUTION",
    "STATE32",
    "VELOCITY_SHIFT",
    "Draw",
    "Events",
    "Family",
    "Path",
    "Ranges",
    "Sequences",
    "ballistic",
    "centered",
    "families",
    "family",
    "floor",
    "forward",
    "generate",
    "generate_blocks",
    "get",
    "length",
    "march",
    "names",
    "stop_floor",
    "unregister",
    "wall",
]

"""State-32's 32 motion families: ``generate("free_fall", 100, seed=1).states``.

Ground truth for training and evaluation. Nothing here imports the dynamics model: targets made
with the model's own terms would make the evaluation circular.
"""

from . import closed_form, contact, expanded, flight  # noqa: F401  (registration)
from .generate import DT, FRAMES, Sequences, generate, generate_blocks
from .registry import Family, families, get, names
from .sampling import IN_DISTRIBUTION, VELOCITY_SHIFT, Ranges

__all__ = [
    "DT",
    "FRAMES",
    "IN_DISTRIBUTION",
    "VELOCITY_SHIFT",
    "Family",
    "Ranges",
    "Sequences",
    "families",
    "generate",
    "generate_blocks",
    "get",
    "names",
]

"""What a picture's labels are, whatever renderer makes them, and how a pixel is decided.

Numba's cache knows this file's own text alone: after changing what is compiled here, remove the
``__pycache__`` beside it.
"""

from typing import Any, NamedTuple

import numpy as np

from ..scene import Camera
from .ewa_records import Array, compiled

NOTHING = -1  # slot of a pixel that shows the background colour


class Labels(NamedTuple):
    """One picture's, each ``(H, W)``."""

    slot: Any
    """int16: which slot is seen, or -1."""
    depth: Array
    """Of the surface, along the camera's axis, in scene units; 0 where nothing is seen."""
    share: Array
    """Part of the pixel's light, 0 to 1: of an object that which comes from it; of the rest, or of
    nothing, all that does not come from objects, since neither of the two moves."""

    @classmethod
    def empty(cls, camera: Camera) -> "Labels":
        """Not filled yet."""
        size = camera.height, camera.width
        return cls(np.empty(size, np.int16), np.empty(size, np.float32), np.empty(size, np.float32))

    def copy(self) -> "Labels":
        """One that may be written to."""
        return Labels(*(x.copy() for x in self))


@compiled()
def decide(
    objects: int, left: Any, weight: Any, depth: Any, first: Any, step: Any
) -> tuple[int, Any, Any]:
    """Slot, depth and share of a pixel: the slot with the largest weight, the first of equal ones.

    ``left`` is the background colour's weight; that of slot ``s`` is at ``first + s * step``, and
    beside it in ``depth`` the sum of depths by weight.
    """
    zero = weight.dtype.type(0)
    best, most, at, moving, here = NOTHING, left, first, zero, first
    for s in range(objects + 1):
        if s < objects:
            moving += weight[here]
        if weight[here] > most:
            best, most, at = s, weight[here], here
        here += step
    share = most if 0 <= best < objects else weight.dtype.type(1) - moving
    return best, depth[at] / most if best >= 0 else zero, share

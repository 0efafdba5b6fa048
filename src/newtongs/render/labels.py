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
    flow_depth: Array
    """Of the point whose motion is the pixel's; 0 where nothing is seen.

    The mean by the square of the transmittance, where ``depth`` goes by the transmittance. Think of
    matter in grains of equal optical depth, each with a colour of its own: a grain shows as bright
    as the transmittance to it, and as it moves, its detail moves. One flow for all of them leaves
    the least squared difference, in the mean, if it weighs them by the square of that brightness.
    That Gaussians differ in optical depth is left aside.
    """

    @classmethod
    def empty(cls, camera: Camera) -> "Labels":
        """Not filled yet."""
        size = camera.height, camera.width
        kinds = np.int16, np.float32, np.float32, np.float32
        return cls(*(np.empty(size, kind) for kind in kinds))

    def copy(self) -> "Labels":
        """One that may be written to."""
        return Labels(*(x.copy() for x in self))


@compiled()
def decide(objects: int, left: Any, weight: Any, first: Any, step: Any) -> tuple[int, Any, Any]:
    """Slot of a pixel, where its weight is, and the share.

    It is the slot with the largest weight, the first of equal ones. ``left`` is the background
    colour's weight; that of slot ``s`` is at ``first + s * step``.
    """
    best, most, at, moving, here = NOTHING, left, first, weight.dtype.type(0), first
    for s in range(objects + 1):
        if s < objects:
            moving += weight[here]
        if weight[here] > most:
            best, most, at = s, weight[here], here
        here += step
    share = most if 0 <= best < objects else weight.dtype.type(1) - moving
    return best, at, share

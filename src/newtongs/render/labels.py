"""Labels, for every renderer: which object each pixel shows, and how far away it is.

Every Gaussian belongs to a slot: an object, or the rest. A pixel belongs to the slot with the
largest share of its light, or to none where most of its light is background colour. Its depth
is the mean over that slot alone, weighted as the colours are: at an edge it is the depth of what
the pixel shows, not of a place between two objects.
"""

from typing import Any, NamedTuple

import numpy as np

from ..base.jit import compiled
from ..base.types import Array
from ..scene import Camera

NOTHING = -1  # slot of a pixel that shows the background colour


class Labels(NamedTuple):
    """One picture's, each ``(H, W)``."""

    slot: Any
    """int16: the visible slot, or -1."""
    depth: Array
    """Of the surface, along the camera's axis, in scene units; 0 where nothing is visible."""
    share: Array
    """Fraction of the pixel's light, 0 to 1: for an object, the light that comes from it; for the
    rest or for nothing, all light that does not come from objects, since neither of them moves."""
    flow_depth: Array
    """Of the point whose motion the pixel has; 0 where nothing is visible.

    Its mean is weighted by the square of the transmittance, that of ``depth`` by the transmittance.
    Think of matter as grains of equal optical depth, each with its own colour: a grain appears as
    bright as the transmittance in front of it, and its detail moves with it. One flow for all
    grains has the least expected squared error if they are weighted by the square of their
    brightness. Differences in optical depth between Gaussians are neglected.
    """

    @classmethod
    def empty(cls, camera: Camera) -> "Labels":
        """Uninitialised arrays."""
        size = camera.height, camera.width
        kinds = np.int16, np.float32, np.float32, np.float32
        return cls(*(np.empty(size, kind) for kind in kinds))

    def copy(self) -> "Labels":
        """A copy that may be written to."""
        return Labels(*(x.copy() for x in self))


class Labelling(NamedTuple):
    """What the labels of a picture need, and where they are written."""

    slots: Any  # (n,) int16: slot of each record
    slopes: Array  # (n, 2): how its depth changes over the picture; (0, 2) for steady
    objects: int
    slot: Any  # this and the next three as in Labels
    depth: Array
    share: Array
    flow_depth: Array


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

"""Copies of the pushed objects, in layers above them."""

import math
import warnings
from dataclasses import replace as changed

import torch
from torch import Tensor

from ..base.errors import InputWarning, argument
from ..base.types import Vec3
from ..scene.gaussians import BACKGROUND, join
from ..scene.similarity import across, extent
from ..segment.drop_site import share_inside
from .pick import NEW, Layout, seen_later
from .place import INSIDE

APART = 0.1  # gap between copies over the largest extent of what is copied


def with_copies(layout: Layout, count: int) -> Layout:
    """Add copies of the pushed objects, so that there are ``count`` of each.

    Copy ``k`` of object ``i`` gets the id ``i + k * pushed``; loose objects follow as before. Frame
    0 shows the copies, and the repaired scene.
    """
    if count == 1:
        return layout
    layout = seen_later(layout)
    scene, pushed = layout.scene, layout.pushed
    ids = scene.ids.clone()
    ids[ids >= pushed] += (count - 1) * pushed
    originals = scene[(scene.ids != BACKGROUND) & (scene.ids < pushed)]
    up = layout.frame.up
    spans = [extent(originals, axis) for axis in (*across(up), up)]
    sizes = torch.tensor([high - low for low, high in spans])
    shifts = _shifts(count - 1, sizes + APART * sizes.max()) @ torch.stack([*across(up), up])
    copies = [
        originals.replace(
            means=originals.means + shift.to(originals.means),
            ids=originals.ids + (k + 1) * pushed,
        )
        for k, shift in enumerate(shifts)
    ]
    share = share_inside(join(*copies), scene[scene.ids == BACKGROUND], layout.frame)
    if share > INSIDE:
        message = f"{share:.0%} of the copies starts inside other objects; ask for fewer with "
        warnings.warn(InputWarning(message + argument("copies")), stacklevel=2)
    names = [f"copy of object {i}" for _ in range(count - 1) for i in range(pushed)]
    more = torch.full((sum(map(len, copies)),), NEW)
    return changed(
        layout, scene=join(scene.replace(ids=ids), *copies), rows=torch.cat([layout.rows, more]),
        pushed=count * pushed,
        names=(*layout.names[:pushed], *names, *layout.names[pushed:]),
    )  # fmt: skip


def _shifts(count: int, step: Tensor) -> Vec3:
    """Shifts ``(count, 3)`` along x, z and up: square layers, together about as high as wide."""
    side = next(m for m in range(1, count + 1) if math.ceil(count / m**2) <= m + 2)
    k = torch.arange(count)
    layer, place = k // side**2, k % side**2
    middle = (side - 1) / 2
    grid = torch.stack([place % side - middle, place // side - middle, layer + 1.0], -1)
    return (grid * step).double()

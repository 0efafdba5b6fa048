"""Taking an object out of a capture: cut at what it stands on, and the hole mended.

A selection is completed first (:mod:`newtongs.scene.find.completion`). Then it is cut at its
support. The object's **footprint** is where its body stands on it: the lowest three layers of
voxels above. What lies in the support around the footprint goes back to it, what is sunk in it is
dropped, Gaussians that reach into it are shortened, and the bottom that no camera saw is closed.

No camera saw the support under the object either. Seen from above it has a **hole** there, or dark
stains. These cells are emptied and filled with copies of others, mirrored at the hole's edge, as
far as the support goes. Where it is whole it stays as it is.

Nothing of the capture is changed: an :class:`Extraction` says what of it is to be seen no more once
the object has moved, and what is to be seen then.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...threads import one_thread
from ...types import Vec3
from ..gaussians import BACKGROUND, GaussianScene, join
from .completion import Around, look_around, shared
from .cutting import Copies, cut, surface_level
from .floor import Floor
from .mending import mend
from .support import Support, find_support

Array: TypeAlias = npt.NDArray[Any]


class Extraction(NamedTuple):
    """An object apart from its scene, and the scene apart from it."""

    mask: Tensor
    """The object as it is in the capture ``(N,)``; what goes back to the support is not in it."""
    hidden: Tensor
    """Gaussians ``(N,)`` that are to be seen no more once the object moves: floaters, what was
    sunk in the support or shortened, and stains under the object. None of them is in ``mask``."""
    own: GaussianScene
    """New Gaussians of the object: shortened ones and its bottom. They have its id, if it has."""
    fill: GaussianScene
    """New Gaussians of the support."""
    floaters: Tensor
    """Those of the ``hidden`` that belonged to nothing ``(N,)``."""
    returned: int = 0
    """Gaussians of the selection that went back to the support."""
    support: Support | None = None
    """What it stood on, in the frame of the floor; None if it hung in the air."""
    near: Tensor | None = None
    """Rows ``(n,)`` of all Gaussians that were looked at; None where none had to be."""


@one_thread()
def take_out(
    scene: GaussianScene,
    mask: Tensor,
    floor: Floor,
    *,
    taken: Tensor | None = None,
    points: Vec3 | None = None,
    object: int = 0,
) -> Extraction:
    """The object that ``mask`` selects most of, taken out.

    Args:
        scene: the capture, on the CPU.
        mask: the selection ``(N,)``.
        floor: from :func:`find_floor`; what the object stands on is found by itself.
        taken: what belongs to other objects ``(N,)``; it stays theirs.
        points: all middles in the floor's frame ``(N, 3)``, if they are known already: with many
            objects they need not be computed for each.
        object: id of the new Gaussians of the object.
    """
    nothing, none = torch.zeros_like(mask), scene[:0]
    found = look_around(scene, mask, floor, taken=taken, points=points)
    if found is None:
        return Extraction(mask, nothing, none, none, nothing)
    support = find_support(found)
    if support is not None:
        found = _plugged(found, support)
    joined, floaters = shared(found)
    if support is not None:  # it may be a table top, far above the floor: it keeps its own
        low = support.above(found.x) <= surface_level(found, support)
        joined, floaters = joined & ~low, floaters & ~low
    found = found._replace(own=found.own | joined)
    whole = _marked(mask, found.rows, joined)
    alone = _marked(nothing, found.rows, floaters)
    others = floaters | (False if taken is None else taken[found.rows].numpy())
    parts = None if support is None else cut(found, support, others)
    if support is None or parts is None:
        return Extraction(whole, alone, none, none, alone, support=support, near=found.rows)
    mended = mend(found, support, parts, others)
    gone = parts.sunk | parts.shortened | mended.removed
    whole[found.rows[parts.returned | parts.sunk | parts.shortened]] = False
    return Extraction(
        whole, _marked(alone, found.rows, gone),
        _as_full(scene, found, parts.own, object), _as_full(scene, found, mended.fill, BACKGROUND),
        alone, int(parts.returned.sum()), support, found.rows,
    )  # fmt: skip


def _plugged(found: Around, support: Support) -> Around:
    """The surroundings with the body filled that its support closes below."""
    from scipy import ndimage

    grid = found.grid
    x, y, z = (grid.low[a] + (np.arange(grid.shape[a]) + 0.5) * grid.h[a] for a in range(3))
    at = support.height + support.slope[0] * x[:, None] + support.slope[1] * z
    plug = abs(y[None, :, None] - at[:, None, :]) <= grid.h[1]
    closed = found.body | plug
    body = found.body | (ndimage.binary_fill_holes(closed) & ~closed)
    return found._replace(body=body, rest=found.rest & ~body)


def _marked(mask: Tensor, rows: Tensor, more: Array) -> Tensor:
    """A mask of the scene with some rows more, given among the near ones."""
    out = mask.clone()
    out[rows[torch.from_numpy(more)]] = True
    return out


def _as_full(scene: GaussianScene, found: Around, made: Copies, id: int) -> GaussianScene:
    """Copies of the scene's own Gaussians, with all their colour, and the further ones."""
    part = scene[found.rows[torch.from_numpy(made.rows)]]
    there = torch.from_numpy(made.x)
    unmoved = torch.from_numpy((found.x[made.rows] == made.x).all(-1))
    means = torch.where(unmoved[:, None], part.means, found.world.to_scene(there).to(part.means))
    factors = torch.from_numpy(made.factors).to(part.means)
    copies = part.replace(means=means, log_scales=part.log_scales + factors.log())
    out = join(copies, made.new) if len(made.new) else copies
    return out.replace(ids=torch.full_like(out.ids, id))

"""Extracting an object from a capture: cut it off its support and repair the hole.

A selection is completed first (:mod:`newtongs.segment.cutout.completion`), then cut at its support.
The object's **footprint** is where its body stands on the support: the three lowest layers of
voxels. Selected Gaussians in the support around the footprint stay with the support, those sunk
into it are dropped, those that reach into it are shortened, and the bottom, which no camera saw,
is closed.

No camera saw the support under the object either. Seen from above it has a **hole** there, or dark
stains. These cells are cleared and filled with copies of other cells, mirrored at the edge of the
hole, up to the outline of the support. An intact support is left alone.

The capture is not changed: an :class:`Extraction` lists what disappears once the object has moved,
and what appears instead.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...base.process import one_thread
from ...base.types import Array, Vec3
from ...scene.gaussians import BACKGROUND, GaussianScene, join
from ..floor.finding import FloorPlane
from ..floor.support import Support, find_support
from ..voxels import solid_body
from .backs import close_backs
from .completion import Around, look_around, shared
from .cutting import Copies, cut, no_copies, surface_level
from .mending import mend, smears
from .walls import behind, room_planes, walls_around


class Extraction(NamedTuple):
    """An object separated from its scene, and the scene without it."""

    mask: Tensor
    """The object as captured ``(N,)``, without what stays with the support."""
    hidden: Tensor
    """Gaussians ``(N,)`` that disappear once the object moves: floaters, Gaussians sunk in the
    support or shortened, and stains under the object. None of them is in ``mask``."""
    own: GaussianScene
    """New Gaussians of the object, with its id: shortened ones and its bottom."""
    fill: GaussianScene
    """New Gaussians of the support, where the hole was."""
    floaters: Tensor
    """Those of ``hidden`` that belonged to nothing ``(N,)``."""
    returned: int = 0
    """Number of selected Gaussians that stay with the support."""
    support: Support | None = None
    """What the object stood on, in the frame of the floor; None if nothing."""
    backs: GaussianScene | None = None
    """New Gaussians of the object, with its id, that close its unseen sides; None if there was
    nothing to do."""
    near: Tensor | None = None
    """Rows ``(n,)`` of all Gaussians considered; None if there was nothing to do."""


@one_thread()
def take_out(
    scene: GaussianScene,
    mask: Tensor,
    floor: FloorPlane,
    *,
    taken: Tensor | None = None,
    points: Vec3 | None = None,
    object: int = 0,
) -> Extraction:
    """Extract the object of which ``mask`` selects most.

    Args:
        scene: the capture, on the CPU.
        mask: the selection ``(N,)``.
        floor: from :func:`find_floor`; the support of the object is found from the capture.
        taken: Gaussians of other objects ``(N,)``, which are left alone.
        points: all centres in the frame of the floor ``(N, 3)``, to compute them only once for
            many objects.
        object: id for the new Gaussians of the object.
    """
    nothing, none = torch.zeros_like(mask), scene[:0]
    found = look_around(scene, mask, floor, taken=taken, points=points)
    if found is None:
        return Extraction(mask, nothing, none, none, nothing)
    support = find_support(found)
    if support is not None:
        found = _plugged(found, support)
    theirs = np.zeros(len(found.x), bool) if taken is None else taken[found.rows].numpy()
    walls = walls_around(found, mask, room_planes(scene, floor), support, theirs)
    joined, floaters = shared(found)
    before = np.ones(len(found.x), bool)
    for wall, _ in walls:
        before &= wall.before(found.x) > wall.level
    off = before.copy()  # what lies on a table top, far above the floor, is no part of the object
    if support is not None:
        off &= support.above(found.x) > surface_level(found, support)
    joined, floaters = joined & off, floaters & off
    found = found._replace(own=found.own | joined)
    whole = _marked(mask, found.rows, joined)
    alone = _marked(nothing, found.rows, floaters)
    others = floaters | theirs
    parts = None if support is None else cut(found, support, others)
    gone, fills, unseen = np.zeros(len(found.x), bool), [], None
    if support is not None and parts is not None:
        hidden = behind(found, parts.plan, [w for w, _ in walls])
        mended = mend(found, support, parts, others | ~before, hidden, off)
        unseen = parts.plan, hidden & mended.bare
        gone |= parts.sunk | parts.shortened | mended.removed
        gone |= off & ~found.own & ~others & smears(found, support, parts, hidden)
        fills.append(_as_full(scene, found, mended.fill, BACKGROUND))
        whole[found.rows[parts.returned | parts.sunk | parts.shortened]] = False
    for wall, shade in walls:
        if not wall.hides:
            continue
        wall = wall.of(found)
        mended = mend(wall.found, wall.support, shade, others | gone)
        gone |= mended.removed
        fills.append(_as_full(scene, wall.found, mended.fill, BACKGROUND))
    none_made = no_copies(found)
    own = _as_full(scene, found, none_made if parts is None else parts.own, object)
    kept = found.own & whole[found.rows].numpy()
    made = close_backs(
        found, kept, own.replace(sh=own.sh[:, :1]), support, [w for w, _ in walls], unseen
    )
    return Extraction(
        whole, _marked(alone, found.rows, gone), own, join(*fills) if fills else none, alone,
        0 if parts is None else int(parts.returned.sum()), support,
        _as_full(scene, found, none_made._replace(new=made), object), found.rows,
    )  # fmt: skip


def _plugged(found: Around, support: Support) -> Around:
    """The neighbourhood with the body filled that its support closes below."""
    grid = found.grid
    x, y, z = (grid.low[a] + (np.arange(grid.shape[a]) + 0.5) * grid.h[a] for a in range(3))
    at = support.height + support.slope[0] * x[:, None] + support.slope[1] * z
    plug = abs(y[None, :, None] - at[:, None, :]) <= grid.h[1]
    body = solid_body(found.body, 0, plug=lambda _: plug)
    return found._replace(body=body, rest=found.rest & ~body)


def _marked(mask: Tensor, rows: Tensor, more: Array) -> Tensor:
    """A mask of the scene with further rows, selected among the nearby ones."""
    out = mask.clone()
    out[rows[torch.from_numpy(more)]] = True
    return out


def _as_full(scene: GaussianScene, found: Around, made: Copies, id: int) -> GaussianScene:
    """The copies, with the full colour of their originals, and the new Gaussians."""
    part = scene[found.rows[torch.from_numpy(made.rows)]]
    there = torch.from_numpy(made.x)
    unmoved = torch.from_numpy((found.x[made.rows] == made.x).all(-1))
    means = torch.where(unmoved[:, None], part.means, found.world.to_scene(there).to(part.means))
    factors = torch.from_numpy(made.factors).to(part.means)
    copies = part.replace(means=means, log_scales=part.log_scales + factors.log())
    out = join(copies, made.new) if len(made.new) else copies
    return out.replace(ids=torch.full_like(out.ids, id))

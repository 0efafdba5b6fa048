"""The hole that an object leaves in its support, filled with copies of what is around.

Seen from above, the support's cells around the footprint say how opaque it is and of which colours.
Cells under the object that are neither are its hole: open, or stained by the dark crease where no
light came. The Gaussians in them give way to copies of those as far beyond the hole's edge.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ...threads import threads
from ..gaussians import GaussianScene
from .completion import Around
from .cutting import DEEP, Copies, Parts, colors_near, discs
from .plan import View, arms, seen_from_above
from .support import Support

Array: TypeAlias = npt.NDArray[Any]

STAINED = 6  # cells around the footprint that may be stained by the object
RING = 24  # cells around, with which these are compared
FEWEST = 12  # cells of the ring
EDGE = 3  # cells along the support's own edge, which looks otherwise
SEEN = 0.3  # opacity of a cell that has a colour
WHOLE = 0.8  # of the opacity around: less is a hole
RARE = 0.03  # share of the ring's cells that must have a colour before it is usual there
STRAYING = 0.9  # share of the ring whose colours say how far colours stray
TOLERANCE, LEAST_TOLERANCE = 1.3, 0.05  # of that, and in RGB: colours farther away are stains
FLAWED = 0.15  # share of the cells under an object that may differ more than those around
CLEAR = 6  # voxels above the support in which nothing stands where it is copied from
SHIFTS, SMALLEST = 16, 4  # patches that are shifted at most, and cells of one at least
PLAIN = 0.7  # share of the source that is plain enough for them: joints would make a pattern
WIDE = 3  # cells that a Gaussian may reach beyond the hole, and be taken away all the same
PATCH = 0.8  # of a cell: Gaussians where no copy covers


class Mended(NamedTuple):
    """The support after the object is gone."""

    removed: Array
    """Which of the Gaussians near it ``(n,)`` are taken away."""
    fill: Copies
    """What takes their place."""


class _Look(NamedTuple):
    """The support seen from above; fields of the plan."""

    view: View
    palette: Array
    """Colours of the cells around ``(m, 3)``."""
    off: Array
    """How far each cell's colour is from those, in RGB."""
    most: float
    """How far it may be."""
    whole: Array
    """Cells that are opaque and of a usual colour."""
    flaws: float
    """Share of the cells around that are not."""
    opaque: float
    """The usual opacity."""


def mend(found: Around, support: Support, parts: Parts, others: Array) -> Mended:
    """Fill the hole under an object; ``others (n,)`` belong neither to it nor to the support."""
    from scipy import ndimage

    r = support.above(found.x)
    still = (~found.own | parts.returned) & ~others
    slab = np.flatnonzero(still & (r > -DEEP * parts.plan.h) & (r <= parts.level))
    arm = arms(found.scene[torch.from_numpy(slab)], found.world)
    view = seen_from_above(found.scene[torch.from_numpy(slab)], found.x[slab], arm, parts.plan)
    standing = _standing(found, parts, r)
    look = _look(parts, view, standing)
    if look is None:
        return _closed(found, support, parts, slab, view)
    hole = _hole(parts, look)
    source = None if hole is None else _source(look, hole | standing)
    if hole is None or source is None:
        return Mended(np.zeros(len(r), bool), _copies_of_none(found))
    gone = _removed(found, parts, slab, arm, hole, look)
    of = _mirrored(hole, source, look.off <= np.quantile(look.off[source], PLAIN))
    fill = _copied(found, support, parts, slab[abs(r[slab]) <= parts.level], hole, of)
    thin = hole & (_opacity(found, parts, slab[~gone[slab]], fill) < WHOLE * look.opaque)
    _, nearest = ndimage.distance_transform_edt(~source, return_indices=True)
    colors = view.color[tuple(nearest[:, thin])]
    return Mended(gone, fill._replace(new=_patches(found, support, parts, thin, colors)))


def _copies_of_none(found: Around) -> Copies:
    return Copies(np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 3)), found.scene[:0])


def _closed(found: Around, support: Support, parts: Parts, slab: Array, view: View) -> Mended:
    """The hole in a support of which nothing else is left, closed with the colours of its rim."""
    hole = parts.footprint & parts.outline & (view.alpha < WHOLE)
    rim = np.zeros(len(found.x), bool)
    rim[slab] = True
    gone = np.zeros_like(rim)
    gone[slab[parts.plan.at(hole, found.x[slab])]] = True
    colors = colors_near(found, _middles(support, parts, hole), rim & ~gone)
    fill = _copies_of_none(found)._replace(new=_patches(found, support, parts, hole, colors))
    return Mended(gone, fill)


def _standing(found: Around, parts: Parts, r: Array) -> Array:
    """Cells on which something stands."""
    from scipy import ndimage

    up = (r > parts.level) & (r < CLEAR * parts.plan.h + parts.level)
    up &= found.scene.opacities.numpy() >= SEEN
    out = np.zeros(parts.plan.shape, bool)
    out[tuple(parts.plan.cells(found.x[up]).T)] = True
    return np.asarray(ndimage.binary_opening(out) | parts.footprint)


def _look(parts: Parts, view: View, standing: Array) -> _Look | None:
    """What is usual in the ring of support around the footprint."""
    from scipy import ndimage

    away = ndimage.distance_transform_edt(~parts.footprint)
    inner = ndimage.binary_erosion(parts.outline, iterations=EDGE)
    inner &= ~standing & (view.alpha > SEEN)
    ring = inner & (away > STAINED) & (away <= STAINED + RING)
    ring = ring if ring.sum() >= FEWEST else inner & (away > 2)
    if ring.sum() < FEWEST:
        return None
    palette = view.color[ring]
    opaque = float(np.median(view.alpha[ring]))
    whole = parts.outline & (view.alpha >= WHOLE * opaque)
    off = np.full(ring.shape, np.inf)
    off[ring | whole] = _strangeness(view.color[ring | whole], palette)
    most = max(TOLERANCE * float(np.quantile(off[ring], STRAYING)), LEAST_TOLERANCE)
    whole &= off <= most
    return _Look(view, palette, off, most, whole, float(1 - whole[ring].mean()), opaque)


def _strangeness(colors: Array, palette: Array) -> Array:
    """How far each colour ``(n, 3)`` is from those that a small part of the palette has."""
    from scipy.spatial import cKDTree

    k = max(round(RARE * len(palette)), 1)
    return np.asarray(cKDTree(palette).query(colors, k=[k], workers=threads())[0][:, 0])


def _hole(parts: Parts, look: _Look) -> Array | None:
    """Cells under the object and around it that are open or stained.

    None if the support is not much worse there than it is around: then it was whole.
    """
    from scipy import ndimage

    away = ndimage.distance_transform_edt(~parts.footprint)
    under = parts.footprint & parts.outline
    if (~look.whole[under]).mean() <= 2 * look.flaws + FLAWED:
        return None
    inner = ndimage.binary_erosion(parts.outline, iterations=EDGE)
    zone = ((away <= STAINED) & inner) | ((away <= 1) & parts.outline)
    bad = zone & ~look.whole
    label, _ = ndimage.label(bad | parts.footprint)
    bad &= np.isin(label, np.unique(label[parts.footprint]))
    hole = ndimage.binary_dilation(ndimage.binary_opening(bad), iterations=2) & zone
    return hole if hole.any() else None


def _source(look: _Look, used: Array) -> Array | None:
    """Cells that copies are made of, if there are any; their neighbours are whole too."""
    from scipy import ndimage

    free = look.whole & ~used
    inner = ndimage.binary_erosion(free)
    source = inner if inner.any() else free
    return source if source.any() else None


def _removed(
    found: Around, parts: Parts, slab: Array, arm: Array, hole: Array, look: _Look
) -> Array:
    """Gaussians in the hole ``(n,)``, but for wide ones that are part of what is around."""
    from scipy import ndimage

    plan, x = parts.plan, found.x[slab]
    near = ndimage.binary_dilation(hole, iterations=WIDE)
    reaches = np.zeros(len(slab), bool)
    for axis in range(3):
        for sign in (-1.5, 1.5):
            reaches |= ~plan.at(near, x + sign * arm[:, :, axis])
    inside = plan.at(hole, x)
    wide = np.flatnonzero(inside & reaches)
    colors = found.scene.colors.double().numpy()[slab[wide]]
    inside[wide] = _strangeness(colors, look.palette) > look.most
    out = np.zeros(len(found.x), bool)
    out[slab[inside]] = True
    return out


# --- what takes their place ----------------------------------------------------------------------


def _mirrored(hole: Array, source: Array, plain: Array) -> Array:
    """For every cell of the hole ``(m, 2)`` the cell of the source that mirrors it at the edge.

    Where the source is not so wide, plain patches of it are shifted as they are, the largest first.
    """
    from scipy import ndimage

    to = np.argwhere(hole)
    _, nearest = ndimage.distance_transform_edt(~source, return_indices=True)
    out = nearest[:, hole].T
    cell = (2 * out - to).clip(0, np.array(hole.shape) - 1)
    fits = source[tuple(cell.T)]
    out[fits] = cell[fits]
    open_, source = hole.copy(), source & plain
    open_[tuple(to[fits].T)] = False
    for _ in range(SHIFTS):
        shift = _best_shift(open_, source)
        cell = (to + shift).clip(0, np.array(hole.shape) - 1)
        fits = open_[tuple(to.T)] & source[tuple(cell.T)]
        if fits.sum() < SMALLEST:
            break
        out[fits] = cell[fits]
        open_[tuple(to[fits].T)] = False
    return np.asarray(out)


def _best_shift(hole: Array, source: Array) -> Array:
    """The step ``(2,)`` in cells that brings most of the hole onto the source."""
    from scipy.signal import fftconvolve

    match = fftconvolve(source.astype(float), hole[::-1, ::-1].astype(float))
    best = np.array(np.unravel_index(match.argmax(), match.shape))
    return np.asarray(best - np.array(hole.shape) + 1)


def _copied(
    found: Around, support: Support, parts: Parts, surface: Array, hole: Array, of: Array
) -> Copies:
    """The Gaussians of the cells ``of (m, 2)``, of those that make the surface, in the hole's."""
    first, count, order = _by_cell(parts, found.x[surface])
    at = of[:, 0] * parts.plan.shape[1] + of[:, 1]
    n = count[at]
    within = np.arange(n.sum()) - np.repeat(n.cumsum() - n, n)
    rows = surface[order[np.repeat(first[at], n) + within]]
    x = found.x[rows].astype(float)
    r = support.above(x)
    x[:, ::2] += parts.plan.h * np.repeat(np.argwhere(hole) - of, n, axis=0)
    x[:, 1] += r - support.above(x)
    return Copies(rows, x, _clipped(found, parts, rows, x), found.scene[:0])


def _by_cell(parts: Parts, x: Array) -> tuple[Array, Array, Array]:
    """Where the points of each cell begin, how many there are, and the points in that order."""
    i, k = parts.plan.cells(x).T
    cell = i * parts.plan.shape[1] + k
    count = np.bincount(cell, minlength=parts.plan.shape[0] * parts.plan.shape[1])
    return count.cumsum() - count, count, np.argsort(cell, kind="stable")


def _clipped(found: Around, parts: Parts, rows: Array, x: Array) -> Array:
    """Factors ``(m, 3)`` that keep copies within the outline of the support."""
    from scipy import ndimage

    room = ndimage.distance_transform_edt(np.pad(parts.outline, 1))[1:-1, 1:-1] * parts.plan.h
    arm = arms(found.scene[torch.from_numpy(rows)], found.world)
    sideways = 2 * np.linalg.norm(arm[:, ::2], axis=1)
    limit = parts.plan.at(room, x)[:, None]
    return np.asarray(np.minimum(1, limit / np.maximum(sideways, 1e-300)).clip(0.02, 1))


def _opacity(found: Around, parts: Parts, left: Array, fill: Copies) -> Array:
    """How opaque the support is, seen from above, with the copies in it."""
    rows = np.concatenate([left, fill.rows])
    scene = found.scene[torch.from_numpy(rows)]
    arm = arms(scene, found.world)
    arm[len(left) :] *= fill.factors[:, None, :]
    x = np.concatenate([found.x[left], fill.x])
    return seen_from_above(scene, x, arm, parts.plan).alpha


def _patches(
    found: Around, support: Support, parts: Parts, cells: Array, colors: Array
) -> GaussianScene:
    """Plain discs in cells that are still open, of the given colours ``(m, 3)``."""
    return discs(found, support, _middles(support, parts, cells), colors, PATCH * parts.plan.h)


def _middles(support: Support, parts: Parts, cells: Array) -> Array:
    """Points ``(m, 3)`` of the support in the middles of marked cells."""
    at = np.argwhere(cells)
    x = np.zeros((len(at), 3))
    x[:, ::2] = parts.plan.low + (at + 0.5) * parts.plan.h
    x[:, 1] = -support.above(x)
    return x

"""Filling the hole that an object leaves in its support with copies of the surroundings.

Seen from above, the cells of the support around the footprint tell its usual opacity and colours.
Cells under the object that deviate are its hole: open, or stained by the dark crease where no light
came. The Gaussians in them are replaced by copies of those mirrored at the edge of the hole.
"""

from typing import NamedTuple

import numpy as np
import torch

from ...base.process import threads
from ...base.types import Array
from ...scene.gaussians import GaussianScene
from ..floor.support import Support
from .completion import Around
from .cutting import (
    DEEP,
    SURFACE,
    Copies,
    Cut,
    TopView,
    arms,
    colors_near,
    discs,
    no_copies,
    seen_from_above,
    smeared,
)

STAINED = 6  # cells around the footprint that the object may have stained
RING = 24  # width in cells of the ring they are compared with
LEAST_RING = 12  # cells that the ring must have
EDGE = 3  # cells along the edge of the support, which looks different
WHOLE = 0.8  # of the opacity around: a cell below that is a hole
RARE = 0.03  # share of the ring that must have a colour before it counts as usual
STRAYING = 0.9  # quantile of the ring that defines the spread of colours
TOLERANCE, LEAST_TOLERANCE = 1.3, 0.05  # of that, and in RGB: colours farther off are stains
FLAWED, GAPS = 0.15, 0.03  # share under an object that may deviate beyond what does around, or open
SHIFTS, SMALLEST = 16, 4  # most patches that are shifted, and least cells of one
PLAIN = 0.7  # share of the source plain enough for them: seams would repeat as a pattern
WIDE = 3  # cells: a Gaussian may extend this far beyond the hole and still be removed
PATCH = 0.8  # of a cell: size of the discs where no copy covers


class Mended(NamedTuple):
    """Changes to the support after the object is gone."""

    removed: Array
    """Which Gaussians of the neighbourhood ``(n,)`` are removed."""
    fill: Copies
    """What replaces them."""
    bare: Array
    """Cells of the hole where there was nothing."""


class _Look(NamedTuple):
    """The appearance of the support from above, as fields over the cells."""

    view: TopView
    palette: Array
    """Colours of the ring around the footprint ``(m, 3)``."""
    off: Array
    """Distance of each cell's colour from those, in RGB."""
    most: float
    """Largest allowed distance."""
    whole: Array
    """Cells that are opaque and of a usual colour."""
    flaws: float
    """Share of the ring in patches that are not."""
    opaque: float
    """The usual opacity."""


def mend(
    found: Around, support: Support, parts: Cut, others: Array, behind: Array | None = None,
    hidden: Array | None = None,
) -> Mended:  # fmt: skip
    """Repair the support under an object.

    Args:
        found: the neighbourhood of the object.
        support: what is repaired.
        parts: how the object was cut off it.
        others: Gaussians ``(n,)`` that belong to neither of the two.
        behind: further cells that the object hid from the cameras; only under it by default.
        hidden: Gaussians ``(n,)`` of no plane, which go if they are above such cells of the hole.
    """
    from scipy import ndimage

    r = support.above(found.x)
    still = (~found.own | parts.returned) & ~others
    slab = np.flatnonzero(still & (r > -DEEP * parts.plan.h) & (r <= parts.level))
    arm = arms(found.scene[torch.from_numpy(slab)], found.world)
    view = seen_from_above(found.scene[torch.from_numpy(slab)], found.x[slab], arm, parts.plan)
    behind = np.zeros_like(parts.footprint) if behind is None else behind
    look = _look(parts, view, behind)
    if look is None:
        return _closed(found, support, parts, slab, view)
    hole = _hole(parts, look, behind & (~parts.standing | parts.footprint))
    source = None if hole is None else _source(parts, look, hole | parts.standing)
    if hole is None or source is None:
        return Mended(np.zeros(len(r), bool), no_copies(found), np.zeros_like(behind))
    gone = _removed(found, parts, slab, arm, hole, look)
    if hidden is not None:
        top = r[found.own].max(initial=0)
        over = parts.plan.at(hole & behind, found.x)
        gone |= hidden & still & (r > parts.level) & (r < top) & over
    of = _mirrored(hole, source, look.off <= np.quantile(look.off[source], PLAIN))
    fill = _copied(found, support, parts, slab[abs(r[slab]) <= parts.level], hole, of)
    thin = hole & (_opacity(found, parts, slab[~gone[slab]], fill) < WHOLE * look.opaque)
    _, nearest = ndimage.distance_transform_edt(~source, return_indices=True)
    colors = view.color[tuple(nearest[:, thin])]
    fill = fill._replace(new=_patches(found, support, parts, thin, colors))
    return Mended(gone, fill, hole & (view.alpha < WHOLE * look.opaque))


def smears(found: Around, support: Support, parts: Cut, behind: Array) -> Array:
    """Wide Gaussians ``(n,)`` above the cells that an object hid, and around these.

    What no camera saw is made of few of them: the unfinished back of the object.
    """
    from scipy import ndimage

    r = support.above(found.x)
    near = ndimage.binary_dilation(behind, iterations=STAINED) if behind.any() else behind
    low = (r > parts.level) & (r < r[found.own].max(initial=0))
    return np.asarray(smeared(found) & low & parts.plan.at(near, found.x))


def _closed(found: Around, support: Support, parts: Cut, slab: Array, view: TopView) -> Mended:
    """Close the hole in a support with nothing else left, in the colours of its rim."""
    hole = parts.footprint & parts.outline & (view.alpha < WHOLE)
    rim = np.zeros(len(found.x), bool)
    rim[slab] = True
    gone = np.zeros_like(rim)
    gone[slab[parts.plan.at(hole, found.x[slab])]] = True
    colors = colors_near(found, _middles(support, parts, hole), rim & ~gone)
    fill = no_copies(found)._replace(new=_patches(found, support, parts, hole, colors))
    return Mended(gone, fill, hole)


def _look(parts: Cut, view: TopView, behind: Array) -> _Look | None:
    """The usual appearance in the ring of support around the footprint."""
    from scipy import ndimage

    away = ndimage.distance_transform_edt(~parts.footprint)
    inner = ndimage.binary_erosion(parts.outline, iterations=EDGE)
    inner &= ~parts.standing & ~behind & (view.alpha > SURFACE)
    ring = inner & (away > STAINED) & (away <= STAINED + RING)
    ring = ring if ring.sum() >= LEAST_RING else inner & (away > 2)
    if ring.sum() < LEAST_RING:
        return None
    palette = view.color[ring]
    opaque = float(np.median(view.alpha[ring]))
    whole = parts.outline & (view.alpha >= WHOLE * opaque)
    off = np.full(ring.shape, np.inf)
    off[ring | whole] = _strangeness(view.color[ring | whole], palette)
    most = max(TOLERANCE * float(np.quantile(off[ring], STRAYING)), LEAST_TOLERANCE)
    whole &= off <= most
    flaws = float(ndimage.binary_opening(ring & ~whole).sum() / ring.sum())
    return _Look(view, palette, off, most, whole, flaws, opaque)


def _strangeness(colors: Array, palette: Array) -> Array:
    """Distance of each colour ``(n, 3)`` from the nearest few percent of the palette."""
    from scipy.spatial import cKDTree

    k = max(round(RARE * len(palette)), 1)
    return np.asarray(cKDTree(palette).query(colors, k=[k], workers=threads())[0][:, 0])


def _hole(parts: Cut, look: _Look, behind: Array) -> Array | None:
    """Cells under, behind and around the object that are open or stained.

    None if the support has hardly more such patches there than around: then it is intact.
    """
    from scipy import ndimage

    core = _touching(parts.footprint | (behind & ~look.whole), parts.footprint)
    away = ndimage.distance_transform_edt(~core)
    under = core & parts.outline
    inner = ndimage.binary_erosion(parts.outline, iterations=EDGE)
    zone = ((away <= STAINED) & inner) | ((away <= 1) & parts.outline)
    bad = zone & ~look.whole
    open_ = bad & (look.view.alpha < WHOLE * look.opaque)
    usual, area = 2 * look.flaws * zone.sum(), under.sum()
    patches, gaps = (ndimage.binary_opening(each).sum() - usual for each in (bad, open_))
    if patches <= FLAWED * area and gaps <= GAPS * area:
        return None
    bad &= _touching(bad | core, core)
    hole = ndimage.binary_dilation(ndimage.binary_opening(bad), iterations=2) & zone
    return hole if hole.any() else None


def _touching(marked: Array, core: Array) -> Array:
    """The marked cells that are connected with some in the core."""
    from scipy import ndimage

    label, _ = ndimage.label(marked)
    return np.asarray(marked & np.isin(label, np.unique(label[core & marked])))


def _source(parts: Cut, look: _Look, used: Array) -> Array | None:
    """Cells to copy from, preferably away from edges and flaws; None if there are none."""
    from scipy import ndimage

    free = look.whole & ~used
    within = free & ndimage.binary_erosion(parts.outline, iterations=EDGE)
    inner = ndimage.binary_erosion(within)
    return next((each for each in (inner, within, free) if each.any()), None)


def _removed(found: Around, parts: Cut, slab: Array, arm: Array, hole: Array, look: _Look) -> Array:
    """Mask ``(n,)`` of Gaussians in the hole, except wide ones that match the surroundings."""
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
    """For every cell of the hole ``(m, 2)``, the source cell mirrored at the edge.

    Where the source is too narrow, plain patches of it are shifted instead, the largest first.
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
    """The shift ``(2,)`` in cells that maps most of the hole onto the source."""
    from scipy.signal import fftconvolve

    match = fftconvolve(source.astype(float), hole[::-1, ::-1].astype(float))
    best = np.array(np.unravel_index(match.argmax(), match.shape))
    return np.asarray(best - np.array(hole.shape) + 1)


def _copied(
    found: Around, support: Support, parts: Cut, surface: Array, hole: Array, of: Array
) -> Copies:
    """The surface Gaussians of the cells ``of (m, 2)``, moved to the cells of the hole."""
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


def _by_cell(parts: Cut, x: Array) -> tuple[Array, Array, Array]:
    """Start and number of the points of each cell in an order sorted by cell, and that order."""
    i, k = parts.plan.cells(x).T
    cell = i * parts.plan.shape[1] + k
    count = np.bincount(cell, minlength=parts.plan.shape[0] * parts.plan.shape[1])
    return count.cumsum() - count, count, np.argsort(cell, kind="stable")


def _clipped(found: Around, parts: Cut, rows: Array, x: Array) -> Array:
    """Factors ``(m, 3)`` that keep copies within the outline of the support."""
    from scipy import ndimage

    room = ndimage.distance_transform_edt(np.pad(parts.outline, 1))[1:-1, 1:-1] * parts.plan.h
    arm = arms(found.scene[torch.from_numpy(rows)], found.world)
    sideways = 2 * np.linalg.norm(arm[:, ::2], axis=1)
    limit = parts.plan.at(room, x)[:, None]
    return np.asarray(np.minimum(1, limit / np.maximum(sideways, 1e-300)).clip(0.02, 1))


def _opacity(found: Around, parts: Cut, left: Array, fill: Copies) -> Array:
    """Opacity of the support with the copies, seen from above."""
    rows = np.concatenate([left, fill.rows])
    scene = found.scene[torch.from_numpy(rows)]
    arm = arms(scene, found.world)
    arm[len(left) :] *= fill.factors[:, None, :]
    x = np.concatenate([found.x[left], fill.x])
    return seen_from_above(scene, x, arm, parts.plan).alpha


def _patches(
    found: Around, support: Support, parts: Cut, cells: Array, colors: Array
) -> GaussianScene:
    """Plain discs in cells that are still open, in given colours ``(m, 3)``."""
    return discs(found, support, _middles(support, parts, cells), colors, PATCH * parts.plan.h)


def _middles(support: Support, parts: Cut, cells: Array) -> Array:
    """Points ``(m, 3)`` of the support at the centres of marked cells."""
    at = np.argwhere(cells)
    x = np.zeros((len(at), 3))
    x[:, ::2] = parts.plan.low + (at + 0.5) * parts.plan.h
    x[:, 1] = -support.above(x)
    return x

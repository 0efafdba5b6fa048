"""The hole that an object leaves in its support, filled with copies of what is around."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from .completion import Around
from .cutting import DEEP, Copies, Parts, discs
from .plan import View, arms, seen_from_above
from .support import Support

Array: TypeAlias = npt.NDArray[Any]

STAINED = 6  # cells around the footprint that may be stained by the object
RING = 24  # cells around, with which these are compared
WHOLE = 0.8  # of the opacity around: less is a hole
STRAYING = 0.9  # share of the ring whose colours say how far colours stray
TOLERANCE, LEAST_TOLERANCE = 1.3, 0.05  # of that, and in RGB: colours farther away are stains
CLEAR = 6  # voxels above the support in which nothing stands where it is copied from
TURNS = (0.0, 0.35, -0.35, 0.7, -0.7, 1.2, -1.2)  # radians: directions that copies come from
LENGTHS = (1.0, 0.7, 0.45, 0.2)  # of the way to the mirrored cell
WIDE = 3  # cells that a Gaussian may reach beyond the hole, and be taken away all the same
PATCH = 0.8  # of a cell: Gaussians where no copy covers


class Mended(NamedTuple):
    """The support after the object is gone."""

    removed: Array
    """Which of the Gaussians near it ``(n,)`` are taken away."""
    fill: Copies
    """What takes their place."""


def mend(found: Around, support: Support, parts: Parts, others: Array) -> Mended:
    """Fill the hole under an object; ``others (n,)`` belong neither to it nor to the support."""
    r = support.above(found.x)
    h = parts.plan.h
    still = (~found.own | parts.returned) & ~others
    slab = np.flatnonzero(still & (r > -DEEP * h) & (r <= parts.level))
    arm = arms(found.scene[torch.from_numpy(slab)], found.world)
    view = _view(found, parts, slab, arm)
    ring, ok = _whole(parts, view, _standing(found, support, parts, r))
    hole = _hole(parts, ok)
    if not ring.any() or not hole.any():
        return Mended(np.zeros(len(r), bool), _nothing(found))
    gone = _removed(found, parts, slab, arm, hole, view, ok)
    fill = _copied(found, support, parts, slab[abs(r[slab]) <= parts.level], hole, ok)
    return Mended(gone, _patched(found, support, parts, slab, gone, fill, hole, view, ok))


def _nothing(found: Around) -> Copies:
    return Copies(np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 3)), found.scene[:0])


def _view(found: Around, parts: Parts, rows: Array, arm: Array) -> View:
    return seen_from_above(found.scene[torch.from_numpy(rows)], found.x[rows], arm, parts.plan)


def _standing(found: Around, support: Support, parts: Parts, r: Array) -> Array:
    """Cells on which something stands."""
    from scipy import ndimage

    up = (r > parts.level) & (r < CLEAR * parts.plan.h + parts.level)
    up &= found.scene.opacities.numpy() >= 0.3
    out = np.zeros(parts.plan.shape, bool)
    out[tuple(parts.plan.cells(found.x[up]).T)] = True
    return np.asarray(ndimage.binary_opening(out) | parts.footprint)


def _whole(parts: Parts, view: View, standing: Array) -> tuple[Array, Array]:
    """The ring of support around the footprint, and cells that look as it does."""
    from scipy import ndimage

    away = ndimage.distance_transform_edt(~parts.footprint)
    inner = ndimage.binary_erosion(parts.outline, iterations=2)
    ring = inner & ~standing & (away > STAINED) & (away <= STAINED + RING) & (view.alpha > 0.3)
    if ring.sum() < 12:
        ring = inner & ~standing & (away > 2) & (view.alpha > 0.3)
    if not ring.any():
        return ring, ring
    middle = np.median(view.color[ring], axis=0)
    off = np.linalg.norm(view.color - middle, axis=-1)
    most = max(TOLERANCE * np.quantile(off[ring], STRAYING), LEAST_TOLERANCE)
    opaque = view.alpha >= WHOLE * np.median(view.alpha[ring])
    return ring, opaque & (off <= most) & parts.outline
    

def _hole(parts: Parts, ok: Array) -> Array:
    """Cells under the object and around it that are open or stained."""
    from scipy import ndimage

    away = ndimage.distance_transform_edt(~parts.footprint)
    zone = (away <= STAINED) & parts.outline
    bad = ndimage.binary_opening(zone & ~ok) | (zone & ~ok & parts.footprint)
    label, _ = ndimage.label(bad | parts.footprint)
    bad &= np.isin(label, np.unique(label[parts.footprint]))
    return np.asarray(ndimage.binary_dilation(bad) & zone)


def _removed(
    found: Around, parts: Parts, slab: Array, arm: Array, hole: Array, view: View, ok: Array
) -> Array:
    """Gaussians in the hole ``(n,)``, but for wide ones that are part of what is around."""
    from scipy import ndimage

    plan, x = parts.plan, found.x[slab]
    near = ndimage.binary_dilation(hole, iterations=WIDE)
    reaches = np.zeros(len(slab), bool)
    for axis in range(3):
        for sign in (-1.5, 1.5):
            reaches |= ~plan.at(near, x + sign * arm[:, :, axis])
    source = ok & ~hole
    middle = np.median(view.color[source], axis=0) if source.any() else np.full(3, 0.5)
    off = np.linalg.norm(found.scene.colors.numpy()[slab] - middle, axis=-1)
    fits = off <= np.linalg.norm(view.color[source] - middle, axis=-1).max(initial=0)
    out = np.zeros(len(found.x), bool)
    out[slab[plan.at(hole, x) & ~(reaches & fits)]] = True
    return out


# --- what takes their place ----------------------------------------------------------------------


def _copied(
    found: Around, support: Support, parts: Parts, surface: Array, hole: Array, ok: Array
) -> Copies:
    """For every cell of the hole the Gaussians of a cell beyond its edge, as far from it."""
    from scipy import ndimage

    source = ndimage.binary_erosion(ok & ~hole) & ~hole
    source = source if source.any() else ok & ~hole
    if not source.any():
        return _nothing(found)
    to = np.argwhere(hole)
    of = _mirrored(hole, source)
    first, count, order = _by_cell(parts, found.x[surface])
    at = of[:, 0] * parts.plan.shape[1] + of[:, 1]
    n = count[at]
    within = np.arange(n.sum()) - np.repeat(n.cumsum() - n, n)
    rows = surface[order[np.repeat(first[at], n) + within]]
    x = found.x[rows].astype(float)
    r = support.above(x)
    x[:, ::2] += parts.plan.h * np.repeat(to - of, n, axis=0)
    x[:, 1] += r - support.above(x)
    return Copies(rows, x, _clipped(found, parts, rows, x), found.scene[:0])


def _by_cell(parts: Parts, x: Array) -> tuple[Array, Array, Array]:
    """Where the points of each cell begin, how many there are, and the points in that order."""
    i, k = parts.plan.cells(x).T
    cell = i * parts.plan.shape[1] + k
    count = np.bincount(cell, minlength=parts.plan.shape[0] * parts.plan.shape[1])
    return count.cumsum() - count, count, np.argsort(cell, kind="stable")


def _mirrored(hole: Array, source: Array) -> Array:
    """For every cell of the hole ``(m, 2)`` the cell of the source that mirrors it at the edge.

    Where the source is not so wide, one nearer to the edge, or in another direction.
    """
    from scipy import ndimage

    to = np.argwhere(hole)
    _, nearest = ndimage.distance_transform_edt(~source, return_indices=True)
    edge = nearest[:, hole].T
    way, out = edge - to, edge.copy()
    open_ = np.ones(len(to), bool)
    for length in LENGTHS:
        for turn in TURNS:
            c, s = np.cos(turn), np.sin(turn)
            step = np.rint(length * way @ np.array([[c, s], [-s, c]])).astype(int)
            cell = (edge + step).clip(0, np.array(hole.shape) - 1)
            fits = open_ & source[tuple(cell.T)]
            out[fits] = cell[fits]
            open_ &= ~fits
    return out


def _clipped(found: Around, parts: Parts, rows: Array, x: Array) -> Array:
    """Factors ``(m, 3)`` that keep copies within the outline of the support."""
    from scipy import ndimage

    room = ndimage.distance_transform_edt(np.pad(parts.outline, 1))[1:-1, 1:-1] * parts.plan.h
    arm = arms(found.scene[torch.from_numpy(rows)], found.world)
    sideways = 2 * np.linalg.norm(arm[:, ::2], axis=1)
    limit = parts.plan.at(room, x)[:, None]
    return np.asarray(np.minimum(1, limit / np.maximum(sideways, 1e-300)).clip(0.02, 1))


def _patched(
    found: Around,
    support: Support,
    parts: Parts,
    slab: Array,
    gone: Array,
    fill: Copies,
    hole: Array,
    view: View,
    ok: Array,
) -> Copies:
    """The copies, with plain discs where they leave the hole open, of the colours around."""
    from scipy import ndimage

    left = slab[~gone[slab]]
    rows = np.concatenate([left, fill.rows])
    x = np.concatenate([found.x[left], fill.x])
    arm = arms(found.scene[torch.from_numpy(rows)], found.world)
    arm[len(left) :] *= fill.factors[:, None, :]
    now = seen_from_above(found.scene[torch.from_numpy(rows)], x, arm, parts.plan)
    source = ok & ~hole
    if not source.any():
        return fill
    thin = hole & (now.alpha < WHOLE * np.median(view.alpha[source]))
    _, nearest = ndimage.distance_transform_edt(~source, return_indices=True)
    cells = np.argwhere(thin)
    x = np.zeros((len(cells), 3))
    x[:, ::2] = parts.plan.low + (cells + 0.5) * parts.plan.h
    x[:, 1] = -support.above(x)
    colors = view.color[tuple(nearest[:, thin])]
    return fill._replace(new=discs(found, support, x, colors, PATCH * parts.plan.h))

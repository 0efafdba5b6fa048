"""An object cut at its support: what goes back, what is dropped, what is shortened, its bottom."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ... import rotations
from ..gaussians import GaussianScene
from ..world_frame import shortest_turn
from .completion import BEYOND, HALO, Around, filled, grown
from .plan import Plan, arms, seen_from_above
from .support import Support

Array: TypeAlias = npt.NDArray[Any]

LAYERS = 3  # voxels above the support that make the footprint
LEVEL = 1.5  # voxels above the support's plane that are its own, at least; at most twice as many
ROUGH = 2.5  # standard deviations of its surface, likewise
TOP, LEAST_CUT = 1.5, 0.5  # standard deviations, and voxels at least, above it: there it is cut
DEEP = 8  # voxels below its plane that belong to it
NEAR = 12  # cells from the footprint, within which there must be some of the support
SURFACE = 0.3  # opacity of it, seen from above
REACH = 2.0  # standard deviations that a Gaussian reaches
SHORTER = (0.75, 0.5, 0.35, 0.25)  # lengths that are tried for what sticks out of the body
LEAST = 0.02  # of its length is left to an axis
WIDE, THIN, OPAQUE = 0.7, 0.1, 0.95  # voxels, voxels, opacity: Gaussians that close the bottom
SKIN = 2.5  # voxels into the body, from which on Gaussians are inside
CLOSED = 0.9  # opacity of a bottom that is there already
NEIGHBOURS = 12  # of which they have the colour
VISIBLE = 0.3  # opacity of such a neighbour


class Copies(NamedTuple):
    """Gaussians made from others, and further ones."""

    rows: Array
    """Of those near the object, what these are copies of ``(m,)``."""
    x: Array
    """Where they lie in the physics frame ``(m, 3)``."""
    factors: Array
    """On the standard deviations ``(m, 3)``."""
    new: GaussianScene
    """Further ones, in scene coordinates."""


class Parts(NamedTuple):
    """What becomes of the object. Masks are of the Gaussians near it ``(n,)``, or of the plan."""

    plan: Plan
    footprint: Array
    """Cells on which it stands."""
    outline: Array
    """Cells that the support has, those under the object too."""
    level: float
    """Height up to which the support's own Gaussians reach above its plane."""
    returned: Array
    """Back to the support."""
    sunk: Array
    """Dropped."""
    shortened: Array
    """Replaced by shorter copies."""
    own: Copies
    """These, and the bottom."""


def cut(found: Around, support: Support, others: Array) -> Parts | None:
    """Cut the object at its support; None if it does not touch it.

    ``others (n,)`` are Gaussians that belong neither to the object nor to the support.
    """
    from scipy import ndimage

    h, plan = float(found.grid.h[0]), _plan(found)
    level = surface_level(found, support)
    lowest = _lowest(found, support, level)
    footprint = np.zeros(plan.shape, bool)
    footprint[BEYOND:-BEYOND, BEYOND:-BEYOND] = np.isfinite(lowest)
    if not footprint.any():
        return None
    r = support.above(found.x)
    outline = _outline(found, plan, footprint, ~others & (abs(r) <= level))
    here, stands = (plan.at(field, found.x) for field in (outline, footprint))
    low = found.own & here & (r > -DEEP * h)
    edge = plan.at(ndimage.binary_dilation(footprint, np.ones((3, 3))), found.x)
    returned = low & ~stands & (r < np.where(edge, 0.5 * level, level))
    depth = float(np.clip(TOP * support.spread, LEAST_CUT * h, level))
    sunk = low & stands & (r < depth)
    kept = found.own & ~returned & ~sunk
    factors = _factors(found, support, r - depth, here, kept)
    shortened = np.asarray((factors < 1).any(-1))
    rows = np.flatnonzero(shortened)
    bare = ~_closed(found, plan, kept & (r < level + h))
    lit = kept & (r > level + LAYERS * h) & _outside(found)
    at = (_inner(footprint) & bare)[BEYOND:-BEYOND, BEYOND:-BEYOND]
    cap = _cap(found, support, np.where(at, lowest, np.inf), depth, lit)
    own = Copies(rows, found.x[rows], factors[rows], cap)
    return Parts(plan, footprint, outline, level, returned, sunk, shortened, own)


def surface_level(found: Around, support: Support) -> float:
    """Height up to which the support's own Gaussians reach above its plane."""
    h = float(found.grid.h[0])
    return float(np.clip(ROUGH * support.spread, LEVEL * h, 2 * LEVEL * h))


def _plan(found: Around) -> Plan:
    """Columns of the grid, and of what lies beyond it."""
    grid, h = found.grid, float(found.grid.h[0])
    shape = grid.shape[0] + 2 * BEYOND, grid.shape[2] + 2 * BEYOND
    return Plan(grid.low[::2] - BEYOND * h, h, shape)


def _lowest(found: Around, support: Support, level: float) -> Array:
    """Height of the object's lowest voxel above the support, where it stands on it; else infinite.

    ``(nx, nz)`` of the grid. It stands where it fills one of the lowest layers; where it hangs over
    and the gap below was closed in its body, it does not.
    """
    from scipy import ndimage

    grid, h = found.grid, float(found.grid.h[0])
    above = found.own & (support.above(found.x) > level)
    cells = np.argwhere(filled(found.scene[torch.from_numpy(above)], found.world, grid))
    r = support.above(grid.middles(cells))
    low = (r > level) & (r <= level + LAYERS * h)
    out = np.full((grid.shape[0], grid.shape[2]), np.inf)
    np.minimum.at(out, tuple(cells[low][:, ::2].T), r[low])
    shell = np.isfinite(out)
    hollow = ndimage.binary_fill_holes(ndimage.binary_closing(shell)) & ~shell
    out[hollow] = level + 0.5 * h
    return out


def _outline(found: Around, plan: Plan, footprint: Array, surface: Array) -> Array:
    """The convex outline of the support, as far as it hangs together and is near the footprint."""
    from scipy import ndimage

    part = found.scene[torch.from_numpy(surface)]
    view = seen_from_above(part, found.x[surface], arms(part, found.world), plan)
    there = ndimage.binary_dilation(footprint | (view.alpha >= SURFACE), iterations=2)
    label, _ = ndimage.label(there)
    near = ndimage.distance_transform_edt(~footprint) <= NEAR
    kept = there & np.isin(label, np.unique(label[near & there]))
    return _hull(ndimage.binary_erosion(kept, iterations=2) | footprint)


def _hull(marked: Array) -> Array:
    """Cells in the convex hull of the marked ones."""
    from scipy.spatial import ConvexHull, QhullError

    cells = np.argwhere(marked)
    corners = np.concatenate([cells + offset for offset in ((0, 0), (0, 1), (1, 0), (1, 1))])
    try:
        planes = ConvexHull(corners).equations
    except QhullError:
        return marked
    middles = np.argwhere(np.ones_like(marked)) + 0.5
    inside = (middles @ planes[:, :2].T + planes[:, 2]).max(-1) <= 1e-9
    return np.asarray(inside.reshape(marked.shape))


# --- shorter Gaussians ---------------------------------------------------------------------------


def _factors(found: Around, support: Support, r: Array, here: Array, kept: Array) -> Array:
    """By how much the axes ``(n, 3)`` of the object's Gaussians are shortened; one where not."""
    out = np.ones((len(found.x), 3))
    rows = np.flatnonzero(kept)
    arm = arms(found.scene[torch.from_numpy(rows)], found.world)
    h = float(found.grid.h[0])
    down = REACH * abs(np.einsum("i,nij->nj", support.normal, arm))
    room = np.maximum(r[rows], 0)[:, None] + 0.5 * h
    deep = np.where(here[rows, None] & (down > room), room / np.maximum(down, 1e-300), 1.0)
    out[rows] = np.minimum(deep, _inside(found, rows, arm)).clip(LEAST, 1)
    return out


def _inside(found: Around, rows: Array, arm: Array) -> Array:
    """Lengths ``(m, 3)`` at which the axes end in the body, or not far from it."""
    near = grown(found.body, HALO)
    x = found.x[rows]
    out = np.ones(arm.shape[::2])
    within = _at(near, found, x)
    for axis in range(3):
        poking = within & ~_ends_in(near, found, x, REACH * arm[:, :, axis])
        at = np.flatnonzero(poking)
        out[at, axis] = SHORTER[-1]
        for factor in reversed(SHORTER):
            fits = _ends_in(near, found, x[at], factor * REACH * arm[at][:, :, axis])
            out[at[fits], axis] = factor
    return out


def _ends_in(near: Array, found: Around, x: Array, arm: Array) -> Array:
    """Whether both ends of an axis ``(m, 3)`` lie in marked voxels."""
    return _at(near, found, x + arm) & _at(near, found, x - arm)


def _at(marked: Array, found: Around, x: Array) -> Array:
    """What voxels hold at points ``(m, 3)``; outside of the grid nothing."""
    cells = found.grid.cells(x)
    inside = np.asarray(((cells >= 0) & (cells < marked.shape)).all(-1))
    i, j, k = np.where(inside[:, None], cells, 0).T
    return np.asarray(inside & marked[i, j, k])


# --- the bottom ----------------------------------------------------------------------------------


def _closed(found: Around, plan: Plan, low: Array) -> Array:
    """Cells in which the object's lowest Gaussians ``(n,)`` close it, seen from below."""
    rows = np.flatnonzero(low)
    scene = found.scene[torch.from_numpy(rows)]
    x = found.x[rows] * np.array([1, -1, 1])
    return seen_from_above(scene, x, arms(scene, found.world), plan).alpha >= CLOSED


def _cap(found: Around, support: Support, lowest: Array, depth: float, lit: Array) -> GaussianScene:
    """Flat Gaussians that close the body below, of the colours of those around."""
    h = float(found.grid.h[0])
    stands = np.isfinite(lowest)
    if not stands.any():
        return found.scene[:0]
    cells = np.argwhere(stands)
    x = np.zeros((len(cells), 3))
    x[:, ::2] = found.grid.low[::2] + (cells + 0.5) * h
    x[:, 1] = np.maximum(lowest[tuple(cells.T)] - 0.5 * h, depth) - support.above(x)
    return discs(found, support, x, colors_near(found, x, lit), WIDE * h)


def _inner(footprint: Array) -> Array:
    """The footprint without its rim, where the bottom would be seen from the side."""
    from scipy import ndimage

    for n in (2, 1):
        inner = ndimage.binary_erosion(footprint, iterations=n)
        if inner.any():
            return np.asarray(inner)
    return footprint


def _outside(found: Around) -> Array:
    """Gaussians ``(n,)`` that are not inside the body, where it is dark."""
    from scipy import ndimage

    return ~_at(ndimage.distance_transform_edt(found.body) > SKIN, found, found.x)


def colors_near(found: Around, x: Array, of: Array) -> Array:
    """At each point ``(m, 3)`` the median colour of the nearest Gaussians of a kind ``(n,)``."""
    from scipy.spatial import cKDTree

    opaque = of & (found.scene.opacities.numpy() >= VISIBLE)
    rows = np.flatnonzero(opaque if opaque.any() else of)
    if not len(rows) or not len(x):
        return np.full((len(x), 3), 0.5)
    _, at = cKDTree(found.x[rows]).query(x, k=min(NEIGHBOURS, len(rows)))
    colors = found.scene.colors.numpy()[rows]
    return np.asarray(np.median(colors[at.reshape(len(x), -1)], axis=1))


def discs(found: Around, support: Support, x: Array, colors: Array, sigma: float) -> GaussianScene:
    """Flat Gaussians that lie as the support does, at ``x (m, 3)``."""
    n = len(x)
    turn = shortest_turn(torch.tensor([0.0, 1.0, 0.0]).double(), torch.from_numpy(support.normal))
    turn = rotations.multiply(rotations.conjugate(found.world.rotation), turn)
    flat = torch.tensor([sigma, THIN / WIDE * sigma, sigma])
    return GaussianScene.make(
        means=found.world.to_scene(torch.from_numpy(x)).float(),
        scales=flat.expand(n, 3), quats=turn.float().expand(n, 4),
        opacities=torch.full((n,), OPAQUE), colors=torch.from_numpy(colors).float(),
    )  # fmt: skip

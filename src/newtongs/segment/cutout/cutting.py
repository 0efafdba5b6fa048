"""Cutting an object off its support: what stays there, is dropped or shortened, and the bottom."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ...base import rotations
from ...base.jit import njit
from ...base.rotations import to_matrix
from ...base.types import Array
from ...scene.gaussians import GaussianScene
from ...scene.world_frame import WorldFrame, shortest_turn
from ..floor.support import Support
from ..scene_sample import SMEARED, SOLID_OPACITY
from ..voxels import grown
from .completion import BEYOND, HALO, Around, filled

LAYERS = 3  # layers of voxels above the support that form the footprint
LEVEL = 1.5  # voxels above its plane that belong to the support: at least this, at most twice that
ROUGH = 2.5  # the same in standard deviations of its surface
TOP, LEAST_CUT = 1.5, 0.5  # height of the cut above it: standard deviations, and voxels at least
DEEP = 8  # voxels below its plane that belong to the support
SUPPORT_NEAR = 12  # cells: the support must begin within this distance of the footprint
CLEAR = 6  # voxels above the support that must be free where it is copied from
SURFACE = 0.3  # opacity of the support, seen from above
REACH = 2.0  # standard deviations to which a Gaussian extends
SHORTER = (0.75, 0.5, 0.35, 0.25)  # lengths tried for Gaussians that stick out of the body
SHORTEST = 0.02  # of its length that an axis keeps at least
WIDE, THIN, OPAQUE = 0.7, 0.1, 0.95  # of the discs that close the bottom, the first two in voxels
SKIN = 2.5  # voxels: Gaussians deeper in the body are inside
CLOSED = 0.9  # opacity above which a bottom exists already
NEIGHBOURS = 12  # neighbours whose median colour they take
FAINTEST_COVER = 0.01  # contribution below which a cell is out of reach of a Gaussian
MOST_COVER = 0.99


# --- surfaces seen from straight above ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TopGrid:
    """Square cells seen from above."""

    low: Array
    """Lowest x and z ``(2,)``."""
    h: float
    """Edge of a cell."""
    shape: tuple[int, int]

    def cells(self, x: Array) -> Array:
        """The cell ``(N, 2)`` of each point ``(N, 3)``, clamped to the grid."""
        at = np.floor((x[:, ::2] - self.low) / self.h).astype(int)
        return np.asarray(at.clip(0, np.array(self.shape) - 1))

    def inside(self, x: Array) -> Array:
        """Which points ``(N, 3)`` are above the grid."""
        at = np.floor((x[:, ::2] - self.low) / self.h)
        return np.asarray(((at >= 0) & (at < self.shape)).all(-1))

    def at(self, marked: Array, x: Array) -> Array:
        """Values of a field on the grid at points ``(N, 3)``."""
        i, k = self.cells(x).T
        return np.asarray(marked[i, k])


class TopView(NamedTuple):
    """What each cell looks like."""

    alpha: Array
    """Opacity, of the shape of the grid."""
    color: Array
    """RGB divided by that opacity; one more dimension of 3."""


def arms(scene: GaussianScene, world: WorldFrame) -> Array:
    """Half axes of the Gaussians, one standard deviation long, as columns ``(N, 3, 3)``."""
    turn = to_matrix(world.rotation).numpy()
    axes = turn @ to_matrix(scene.quats.double()).numpy()
    return np.asarray(axes * (world.scale * scene.scales.double().numpy())[:, None, :])


def seen_from_above(scene: GaussianScene, x: Array, arm: Array, plan: TopGrid) -> TopView:
    """The Gaussians at ``x (N, 3)`` with half axes ``arm (N, 3, 3)``, seen from straight above."""
    order = np.argsort(-x[:, 1], kind="stable")
    light = np.ones(plan.shape)
    color = np.zeros((*plan.shape, 3))
    flat = arm[order][:, ::2]
    _lay(
        (x[order, ::2] - plan.low) / plan.h, flat @ flat.transpose(0, 2, 1) / plan.h**2,
        scene.opacities.double().numpy()[order], scene.colors.double().numpy()[order], light, color,
    )  # fmt: skip
    alpha = 1 - light
    return TopView(alpha, color / np.maximum(alpha, 1e-6)[..., None])


@njit(nogil=True, error_model="numpy")
def _lay(x: Array, c: Array, alphas: Array, colors: Array, light: Array, color: Array) -> None:
    """Composite the Gaussians onto the cells, front to back."""
    for n in range(len(x)):
        alpha = min(alphas[n], MOST_COVER)
        if alpha <= FAINTEST_COVER:
            continue
        a, b, d = c[n, 0, 0] + 0.25, c[n, 0, 1], c[n, 1, 1] + 0.25  # no narrower than half a cell
        det = a * d - b * b
        reach = 2 * math.log(alpha / FAINTEST_COVER)
        u, v = math.sqrt(reach * a), math.sqrt(reach * d)
        for i in range(max(math.ceil(x[n, 0] - u - 0.5), 0), light.shape[0]):
            p = i + 0.5 - x[n, 0]
            if p > u:
                break
            for k in range(max(math.ceil(x[n, 1] - v - 0.5), 0), light.shape[1]):
                q = k + 0.5 - x[n, 1]
                if q > v:
                    break
                far = (d * p * p - 2 * b * p * q + a * q * q) / det
                if far < reach:
                    w = light[i, k] * alpha * math.exp(-0.5 * far)
                    light[i, k] -= w
                    for m in range(3):
                        color[i, k, m] += w * colors[n, m]


# --- the cut -----------------------------------------------------------------------------------


class Copies(NamedTuple):
    """Modified copies of Gaussians, and entirely new ones."""

    rows: Array
    """Originals of the copies, as rows of the neighbourhood ``(m,)``."""
    x: Array
    """Centres of the copies in the physics frame ``(m, 3)``."""
    factors: Array
    """Factors on their standard deviations ``(m, 3)``."""
    new: GaussianScene
    """The new Gaussians, in scene coordinates."""


def no_copies(found: Around) -> Copies:
    """Nothing copied and nothing new."""
    return Copies(np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 3)), found.scene[:0])


class Cut(NamedTuple):
    """How the object is cut. Masks are over the neighbourhood ``(n,)`` or the cells of ``plan``."""

    plan: TopGrid
    footprint: Array
    """Cells on which the object stands."""
    outline: Array
    """Cells of the support, including those under the object."""
    standing: Array
    """Cells on which something stands, the object or another thing."""
    level: float
    """Height above its plane up to which Gaussians belong to the support."""
    returned: Array
    """Left with the support."""
    sunk: Array
    """Dropped."""
    shortened: Array
    """Replaced by shorter copies."""
    own: Copies
    """The shortened copies, and the bottom."""


def cut(found: Around, support: Support, others: Array) -> Cut | None:
    """Cut the object off its support; None if they do not touch.

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
    outline = outline_of(footprint, surface_seen(found, plan, ~others & (abs(r) <= level)))
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
    standing = _standing(found, plan, r, level) | footprint
    return Cut(plan, footprint, outline, standing, level, returned, sunk, shortened, own)


def _standing(found: Around, plan: TopGrid, r: Array, level: float) -> Array:
    """Cells just above which there is something."""
    from scipy import ndimage

    up = (r > level) & (r < CLEAR * plan.h + level)
    up &= (found.scene.opacities.numpy() >= SOLID_OPACITY) & ~smeared(found)
    out = np.zeros(plan.shape, bool)
    out[tuple(plan.cells(found.x[up]).T)] = True
    return np.asarray(ndimage.binary_opening(out))


def smeared(found: Around) -> Array:
    """Gaussians ``(n,)`` that are wide compared with those of the object."""
    wide = found.scene.scales.median(-1).values.numpy()
    return np.asarray(wide > SMEARED * np.median(wide[found.own]))


def surface_level(found: Around, support: Support) -> float:
    """Height above its plane up to which Gaussians belong to the support."""
    h = float(found.grid.h[0])
    return float(np.clip(ROUGH * support.spread, LEVEL * h, 2 * LEVEL * h))


def _plan(found: Around) -> TopGrid:
    """The columns of the grid, and ``BEYOND`` more on every side."""
    grid, h = found.grid, float(found.grid.h[0])
    shape = grid.shape[0] + 2 * BEYOND, grid.shape[2] + 2 * BEYOND
    return TopGrid(grid.low[::2] - BEYOND * h, h, shape)


def _lowest(found: Around, support: Support, level: float) -> Array:
    """Height ``(nx, nz)`` of the object's lowest voxel above the support; infinite without contact.

    The object stands where it fills one of the lowest layers, but not where it overhangs and the
    gap below was closed in its body.
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


def outline_of(footprint: Array, seen: Array) -> Array:
    """The convex outline of the support: of its connected part near the footprint."""
    from scipy import ndimage

    there = ndimage.binary_dilation(footprint | seen, iterations=2)
    label, _ = ndimage.label(there)
    near = ndimage.distance_transform_edt(~footprint) <= SUPPORT_NEAR
    kept = there & np.isin(label, np.unique(label[near & there]))
    return _hull(ndimage.binary_erosion(kept, iterations=2) | footprint)


def surface_seen(found: Around, plan: TopGrid, surface: Array) -> Array:
    """Cells that the Gaussians ``(n,)`` of a surface cover."""
    part = found.scene[torch.from_numpy(surface)]
    view = seen_from_above(part, found.x[surface], arms(part, found.world), plan)
    return np.asarray(view.alpha >= SURFACE)


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
    """Factors ``(n, 3)`` by which the axes of the object's Gaussians are shortened; one if not."""
    out = np.ones((len(found.x), 3))
    rows = np.flatnonzero(kept)
    arm = arms(found.scene[torch.from_numpy(rows)], found.world)
    h = float(found.grid.h[0])
    down = REACH * abs(np.einsum("i,nij->nj", support.normal, arm))
    room = np.maximum(r[rows], 0)[:, None] + 0.5 * h
    deep = np.where(here[rows, None] & (down > room), room / np.maximum(down, 1e-300), 1.0)
    out[rows] = np.minimum(deep, _inside(found, rows, arm)).clip(SHORTEST, 1)
    return out


def _inside(found: Around, rows: Array, arm: Array) -> Array:
    """Factors ``(m, 3)`` with which the axes end in the body, or near it."""
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
    """Whether both ends of an axis ``(m, 3)`` are in marked voxels."""
    return _at(near, found, x + arm) & _at(near, found, x - arm)


def _at(marked: Array, found: Around, x: Array) -> Array:
    """Whether points ``(m, 3)`` are in marked voxels; false outside the grid."""
    cells = found.grid.cells(x)
    inside = np.asarray(((cells >= 0) & (cells < marked.shape)).all(-1))
    i, j, k = np.where(inside[:, None], cells, 0).T
    return np.asarray(inside & marked[i, j, k])


# --- the bottom ----------------------------------------------------------------------------------


def _closed(found: Around, plan: TopGrid, low: Array) -> Array:
    """Cells that the object's lowest Gaussians ``(n,)`` close when seen from below."""
    rows = np.flatnonzero(low)
    scene = found.scene[torch.from_numpy(rows)]
    x = found.x[rows] * np.array([1, -1, 1])
    return seen_from_above(scene, x, arms(scene, found.world), plan).alpha >= CLOSED


def _cap(found: Around, support: Support, lowest: Array, depth: float, lit: Array) -> GaussianScene:
    """Flat Gaussians that close the bottom of the body in the colours of its surroundings."""
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
    """The footprint without its rim, where the bottom would show from the side."""
    from scipy import ndimage

    for n in (2, 1):
        inner = ndimage.binary_erosion(footprint, iterations=n)
        if inner.any():
            return np.asarray(inner)
    return footprint


def _outside(found: Around) -> Array:
    """Mask ``(n,)`` of Gaussians that are not deep inside the body, where it is dark."""
    n = int(SKIN)
    steps = np.argwhere(np.ones((2 * n + 1,) * 3)) - n
    steps = steps[np.linalg.norm(steps, axis=1) <= SKIN]
    rows = np.flatnonzero(_at(found.body, found, found.x))
    cells = n + found.grid.cells(found.x[rows])[:, None] + steps
    out = np.ones(len(found.x), bool)
    out[rows] = ~np.pad(found.body, n, constant_values=True)[tuple(cells.T)].all(0)
    return out


def colors_near(found: Around, x: Array, of: Array) -> Array:
    """Median colour, at each point ``(m, 3)``, of the nearest Gaussians in a mask ``(n,)``."""
    from scipy.spatial import cKDTree

    opaque = of & (found.scene.opacities.numpy() >= SOLID_OPACITY)
    rows = np.flatnonzero(opaque if opaque.any() else of)
    if not len(rows) or not len(x):
        return np.full((len(x), 3), 0.5)
    _, at = cKDTree(found.x[rows]).query(x, k=min(NEIGHBOURS, len(rows)))
    colors = found.scene.colors.numpy()[rows]
    return np.asarray(np.median(colors[at.reshape(len(x), -1)], axis=1))


def discs(found: Around, support: Support, x: Array, colors: Array, sigma: float) -> GaussianScene:
    """Flat Gaussians parallel to the support, at ``x (m, 3)``."""
    n = len(x)
    turn = shortest_turn(torch.tensor([0.0, 1.0, 0.0]).double(), torch.from_numpy(support.normal))
    turn = rotations.multiply(rotations.conjugate(found.world.rotation), turn)
    flat = torch.tensor([sigma, THIN / WIDE * sigma, sigma])
    return GaussianScene.make(
        means=found.world.to_scene(torch.from_numpy(x)).float(),
        scales=flat.expand(n, 3), quats=turn.float().expand(n, 4),
        opacities=torch.full((n,), OPAQUE), colors=torch.from_numpy(colors).float(),
    )  # fmt: skip

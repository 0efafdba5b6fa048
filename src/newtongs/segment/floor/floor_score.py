"""How floor-like a plane of a scene is, from 0 to 1.

A floor is a surface, thin or rough, densest at its centre. Little lies below it. It carries what is
above: objects rest on it, within its outline and away from walls. And it is open: beside the
objects there is floor with nothing above. The back of a chair, the top of a plinth, the base of a
box, walls and ceilings each violate one of these. The factors are multiplied, so that one missing
property is decisive.

All lengths are in units of the scene's reach, all areas are what the Gaussians cover.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...base.types import Vec3
from ..scene_sample import FINEST, Sample, contracted
from ..sparse_voxels import Voxels
from .planes import WIDTHS

LEAST_SHARE, LEAST_SHARE_SHARP = 0.04, 0.01  # of the weight: with less, a floor is unlikely
SLICE = 2.0  # a slice through a body weighs less than this times the layers beside it
CORE = 0.3  # share within 0.5 sigma of what is within 1.5: less is a two-sided plate
SLAB = 0.1  # thickness over width from which it is a slab and no surface
GRID = 24  # cells along each side of the floor in which open floor is searched
LOADED = 0.25  # weight standing on a cell over the floor's own, above which it is occupied
OPEN_RIM = 0.35  # free share of the rim from which the score is one half
OPEN_SHARE, STANDING = 0.25, 0.03  # free share of the floor; weight away from its rim
BUSY = 2.5  # reaches from the middle: objects farther out need not stand on this floor
CELL, FAR = 0.25, 4.0  # reaches: cells in which areas are counted, and up to which distance
WIDE, SHARP = 0.25, 0.05  # area over the widest plane's and thickness over the reach of a wall
LEVEL, SMALLER = 0.97, 0.5  # cosine between level planes; area over the floor's of an object's top
SAME = 0.5  # part of a layer on a better one, above which it is not a surface of its own
JOIN = 2.5 * FINEST  # reaches across which parts count as connected
SMALL = 0.003  # of the weight: smaller objects are floaters
ENOUGH_WEIGHT = 0.03  # of the weight: so much on a floor is sufficient evidence
ELSEWHERE = 0.2  # part of an object above a floor, below which it stands elsewhere
LEANING = 0.15  # weight of an object that touches a wall as well
BARE = 0.5  # score of a plane with hardly anything on either side


class Layer(NamedTuple):
    """A plane ``n . x = d`` and the Gaussians on it."""

    n: Vec3
    """Unit normal ``(3,)``, towards most of the scene."""
    d: float
    top: float
    """Distance from it up to which Gaussians lie on it, in scene units."""

    def heights(self, s: Sample) -> Tensor:
        """Heights of the sample ``(n,)`` above the plane."""
        return s.x @ self.n - self.d

    def on(self, s: Sample) -> Tensor:
        """Which of the sample ``(n,)`` lie on it."""
        return self.heights(s).abs() <= self.top


class Things(NamedTuple):
    """The connected parts that remain once all wide planes are removed."""

    of: Tensor
    """Object ``(n,)`` of each Gaussian of the sample; -1 for walls, floors and floaters."""
    touches: Tensor
    """Whether each object touches each of the layers ``(K, L)``."""
    wide: Tensor
    """Which layers ``(L,)`` were removed."""

    def leaning(self, index: int) -> Tensor:
        """Which objects ``(K,)`` touch another wide layer than this one."""
        others = self.wide.clone()
        others[index] = False
        return (self.touches & others).any(-1)


# --- surfaces and objects ---------------------------------------------------------------------


def separate(s: Sample, layers: Sequence[Layer], first: int = 0) -> list[Layer]:
    """The layers, best surfaces first, without those that mostly belong to better ones.

    The first ``first`` precede all others.
    """
    kept: list[Layer] = []
    taken = torch.zeros(len(s.x), dtype=torch.bool)
    ranks = [(i >= first, -_surface(s, layer), i) for i, layer in enumerate(layers)]
    for *_, i in sorted(ranks):
        layer = layers[i]
        on = layer.on(s)
        if float(s.w[on & taken].sum()) < SAME * float(s.w[on].sum()):
            kept.append(layer)
            taken |= on
    return kept


def things(s: Sample, layers: Sequence[Layer], index: int) -> Things:
    """What is neither floor, wall, ceiling nor floater if layer ``index`` is the floor.

    Smaller level surfaces belong to objects: the top of a table, a board of a shelf.
    """
    on = torch.stack([layer.on(s) for layer in layers])
    area = torch.tensor([_area(s, layer, each) for layer, each in zip(layers, on, strict=True)])
    sharp = torch.tensor([layer.top < SHARP * s.reach for layer in layers])
    level = torch.stack([layer.n @ layers[index].n for layer in layers]).abs() > LEVEL
    wide = (area >= WIDE * area.amax()) & sharp & ~(level & (area < SMALLER * area[index]))
    rows = (~on[wide].any(0)).nonzero().squeeze(-1)
    of = torch.full((len(s.x),), -1)
    if not len(rows):
        return Things(of, torch.zeros(0, len(layers), dtype=torch.bool), wide)
    voxels = Voxels.of(contracted((s.x[rows] - s.middle) / s.reach), JOIN)
    part = voxels.components()[voxels.of_point]
    large = torch.bincount(part, s.w[rows]) >= SMALL
    of[rows] = torch.where(large, large.cumsum(0) - 1, -1)[part]
    return Things(of, _touches(s, layers, of, int(large.sum())), wide)


def _area(s: Sample, layer: Layer, on: Tensor) -> int:
    """Number of cells that a layer fills."""
    flat = (s.x[on] - s.middle) @ plane_axes(layer.n) / s.reach
    cells = (flat[flat.abs().amax(-1) < FAR] / CELL).floor().long()
    return len(torch.unique(cells[:, 0] * round(4 * FAR / CELL) + cells[:, 1]))


def _touches(s: Sample, layers: Sequence[Layer], of: Tensor, k: int) -> Tensor:
    """Whether each of ``k`` objects comes near each layer ``(k, L)``."""
    rows = (of >= 0).nonzero().squeeze(-1)
    near = [layer.heights(s)[rows].abs() <= layer.top + JOIN * s.reach for layer in layers]
    return torch.stack([torch.bincount(of[rows], each.double(), k) > 0 for each in near], -1)


# --- the factors of the score ------------------------------------------------------------------


class Judged(NamedTuple):
    """How floor-like a layer is, 0 to 1 each."""

    worth: float
    """Whether it is one layer with little below."""
    open_: float
    """Whether there is free floor beside the objects."""
    carries: float
    """Share of the objects above that stand on it."""


def judge(s: Sample, layers: Sequence[Layer], index: int, found: Things) -> Judged:
    """How floor-like layer ``index`` is."""
    layer = layers[index]
    worth = _surface(s, layer) * _one_sided(s, layer)
    if not worth:
        return Judged(0.0, 0.0, 0.0)
    board = _Board.of(s, layer)
    walls = found.wide.sum() > found.wide[index].int()
    load = _load(s, board, found.of >= 0 if walls else None)
    return Judged(worth, _open(board, load), _carries(s, board, found, index))


def _surface(s: Sample, layer: Layer) -> float:
    """Whether enough lies on it, in one layer, and more than beside it; sharp ones need less.

    One as thick as a part of its width is a slice through a body.
    """
    h = layer.heights(s).abs()
    on, beside, core, most = (float(s.w[h <= k * layer.top].sum()) for k in (1.0, 3.0, 1 / 6, 0.5))
    blur = layer.top / (3 * WIDTHS[0] * s.reach)
    needed = blur * max(LEAST_SHARE, SLICE * (beside - on)) + LEAST_SHARE_SHARP
    layer_like = min(1.0, max(0.0, 2 - 2 * layer.top / (SLAB * _narrow(s, layer))))
    return layer_like * min(1.0, on / (2 * needed)) * min(1.0, core / max(CORE * most, 1e-12))


def _narrow(s: Sample, layer: Layer) -> float:
    """Width of the layer in its narrower direction, if it is filled evenly, in scene units."""
    on = layer.on(s)
    flat, w = s.x[on] @ plane_axes(layer.n), s.w[on] / s.w[on].sum().clamp_min(1e-300)
    away = flat - w @ flat
    least = torch.linalg.eigvalsh((w[:, None] * away).mT @ away)[0].clamp_min(0)
    return max(float((12 * least).sqrt()), 1e-12 * s.reach)


def _one_sided(s: Sample, layer: Layer) -> float:
    """Whether there is little below."""
    h = layer.heights(s)
    above, below = (float(s.w[side > layer.top].sum()) for side in (h, -h))
    return max(0.0, 1 - 2 * below / max(above + below, ENOUGH_WEIGHT))


class _Board(NamedTuple):
    """A layer seen from above, as cells."""

    layer: Layer
    cells: Tensor
    """Cell of each Gaussian of the sample ``(n, 2)``."""
    inside: Tensor
    """Which of the sample ``(n,)`` lie above or below the grid."""
    size: float
    """Edge of a cell, in scene units."""
    ground: Tensor
    """Weight of the layer in each cell ``(GRID, GRID)``."""
    floor: Tensor
    """Cells that the layer covers, with the gaps between samples closed."""

    @classmethod
    def of(cls, s: Sample, layer: Layer) -> "_Board":
        on = layer.on(s)
        cells, size = _cells(s, layer.n, on)
        inside = ((cells >= 0) & (cells < GRID)).all(-1)
        ground = _filled(s, cells, on & inside)
        return cls(layer, cells, inside, size, ground, ~_dilated(~_dilated(ground > 0)))


class _Load(NamedTuple):
    """What stands on a layer, as cells ``(GRID, GRID)``."""

    weight: Tensor
    heavy: Tensor
    """Cells on which something stands."""
    free: Tensor
    """Cells of floor with nothing on them or next to them."""


def _load(s: Sample, board: _Board, chosen: Tensor | None) -> _Load:
    """What stands on a layer; only the ``chosen (n,)``, if given, count."""
    h = board.layer.heights(s)
    above = h > board.layer.top + JOIN * s.reach  # a carpet does not count
    standing = board.inside & above & (h < 0.5 * GRID * board.size)
    weight = _filled(s, board.cells, standing if chosen is None else standing & chosen)
    heavy = weight > LOADED * board.ground
    return _Load(weight, heavy, board.floor & ~_dilated(heavy))


def _open(board: _Board, load: _Load) -> float:
    """Whether there is free floor beside the objects on it.

    The base of an object has the object's sides along its rim. A floor has a free rim, or objects
    on it away from the rim.
    """
    floor = board.floor
    rim = floor & (_dilated(~floor) | _border())
    alone = float(load.weight[_untouched(load.heavy, _dilated(rim | ~floor))].sum())
    share = float(load.free.sum()) / max(float(floor.sum()), 1.0)
    round_about = float((load.free & rim).sum()) / max(float(rim.sum()), 1.0)
    room = min(1.0, share / (2 * OPEN_SHARE)) ** 2
    return room * min(1.0, max(round_about / OPEN_RIM, alone / STANDING) / 2)


def open_part(s: Sample, layer: Layer) -> Tensor:
    """Mask ``(n,)`` of the sample where nothing stands on the layer; of all if that is too little.

    There its height is measured without the feet of objects.
    """
    board = _Board.of(s, layer)
    free = _load(s, board, None).free
    x, y = board.cells.clamp(0, GRID - 1).T
    seen = ~board.inside | free[x, y]
    enough = float(s.w[seen & layer.on(s)].sum()) >= OPEN_SHARE * float(s.w[layer.on(s)].sum())
    return seen if enough else torch.ones_like(seen)


def _carries(s: Sample, board: _Board, found: Things, index: int) -> float:
    """Fraction of the objects above that rest on it and are taller than it is rough.

    What hangs in the air counts less the higher it hangs, relative to its own height.
    """
    h, top = board.layer.heights(s), board.layer.top
    near = ((s.x - s.middle) @ plane_axes(board.layer.n)).abs().amax(-1) < BUSY * s.reach
    rows = ((found.of >= 0) & (h > top) & near).nonzero().squeeze(-1)
    least = BARE if float(s.w[h.abs() > top].sum()) < ENOUGH_WEIGHT else 0.0
    if not len(rows):
        return least
    of, w, k = found.of[rows], s.w[rows], len(found.touches)
    weight = torch.bincount(of, w, k)
    low, high = (
        h.new_zeros(k).scatter_reduce(0, of, h[rows], way, include_self=False)
        for way in ("amin", "amax")
    )
    tall = (high - low).clamp_min(1e-12 * s.reach)
    hanging = torch.exp(-2 * (low - top - JOIN * s.reach).clamp_min(0) / tall)
    x, y = board.cells[rows].clamp(0, GRID - 1).T
    over = torch.bincount(of, w * (_dilated(board.floor)[x, y] & board.inside[rows]), k)
    weight = torch.where(over < ELSEWHERE * weight, 0.0, weight)
    carried = over * hanging * (tall / (2 * top)).clamp_max(1) * (weight > 0)
    return max(least, _carried_share(carried, weight, found, index))


def _carried_share(carried: Tensor, weight: Tensor, found: Things, index: int) -> float:
    """Fraction of the objects' ``weight (K,)`` that is ``carried (K,)``, by the conclusive ones.

    An object that touches this floor and a wall could stand on either: it counts little as long as
    others touch only one of the two.
    """
    leaning = found.leaning(index)
    carried = carried * torch.where(leaning, LEANING, 1.0)
    both = found.touches[:, index] & leaning
    clear, unclear = (
        float(carried[part].sum()) / max(float(weight[part].sum()), 1e-12) for part in (~both, both)
    )
    known = min(1.0, float(weight[~both].sum()) / ENOUGH_WEIGHT)
    return min(1.0, float(weight.sum()) / ENOUGH_WEIGHT) * (known * clear + (1 - known) * unclear)


# --- cells ------------------------------------------------------------------------------------


def plane_axes(n: Vec3) -> Tensor:
    """Two unit vectors perpendicular to ``n``, as columns ``(3, 2)``."""
    helper = torch.eye(3).to(n)[int(n.abs().argmin())]
    a = torch.linalg.cross(n, helper)
    a = a / torch.linalg.vector_norm(a)
    return torch.stack([a, torch.linalg.cross(n, a)], dim=-1)


def _cells(s: Sample, n: Vec3, on: Tensor) -> tuple[Tensor, float]:
    """Cells ``(n, 2)`` of Gaussians seen along ``n``, and the size of a cell.

    The grid covers what lies on the plane, up to the busy part of the scene.
    """
    flat = (s.x - s.middle) @ plane_axes(n)
    low, high = flat[on].quantile(0.02, dim=0), flat[on].quantile(0.98, dim=0)
    width = min(float((high - low).amax()) * GRID / (GRID - 4), 2 * BUSY * s.reach)
    middle = 0.5 * (low + high) if width < 2 * BUSY * s.reach else torch.zeros(2).to(flat)
    size = max(width / GRID, 1e-12 * s.reach)
    return ((flat - middle) / size + 0.5 * GRID).floor().long(), size


def _filled(s: Sample, cells: Tensor, chosen: Tensor) -> Tensor:
    """Weight of the chosen Gaussians in each cell ``(GRID, GRID)``."""
    x, y = cells[chosen].T
    grid = torch.zeros(GRID * GRID, dtype=torch.float64)
    return grid.index_add(0, x * GRID + y, s.w[chosen]).view(GRID, GRID)


def _border() -> Tensor:
    """The outermost cells: a floor that reaches them continues beyond."""
    grid = torch.ones(GRID, GRID, dtype=torch.bool)
    grid[1:-1, 1:-1] = False
    return grid


def _dilated(grid: Tensor) -> Tensor:
    """Marked cells and their eight neighbours."""
    return torch.nn.functional.max_pool2d(grid[None].float(), 3, 1, 1)[0] > 0


def _untouched(things: Tensor, edge: Tensor) -> Tensor:
    """The marked cells that are not connected with any on the edge."""
    reached = things & edge
    while not torch.equal(reached, wider := things & _dilated(reached)):
        reached = wider
    return things & ~reached


# --- no floor ---------------------------------------------------------------------------------

STEEP = 20.0  # degrees an object can be tipped before it falls, from which it surely stands
FOOT = 0.03  # of the reach: what is this low touches the ground
WAYS = 64  # directions in which an object is tipped


def stands(s: Sample, kept: Tensor, up: Vec3, low: float) -> float:
    """How surely the ``kept (n,)`` Gaussians would stand on a floor at height ``low``, 0 to 1.

    Measured by the angle at which the centre of mass passes over the nearest edge of the base.
    """
    x, w = s.x[kept], s.w[kept]
    h, flat = x @ up - low, x @ plane_axes(up)
    centre = (w @ flat) / w.sum()
    foot = flat[h < FOOT * s.reach] - centre
    if len(foot) < 3:
        return 0.0
    angle = torch.arange(WAYS, dtype=torch.float64) * (2 * torch.pi / WAYS)
    edge = float((foot @ torch.stack([angle.cos(), angle.sin()])).amax(0).amin())
    rise = float(w @ h / w.sum())
    tip = torch.rad2deg(torch.atan2(torch.tensor(edge), torch.tensor(max(rise, 1e-12))))
    return min(1.0, max(0.0, float(tip)) / STEEP)

"""Which way is up in a captured scene, and where its floor lies.

Planes are guessed from single flat Gaussians, from triples of Gaussians and along the axes that
file formats use, and judged all at once (RANSAC). A floor is a plane on which much of the scene
lies, wide, with nearly everything else on one side, made of Gaussians that lie flat in it. So is
the base of a box that was captured without its surroundings. What tells the two apart is open
floor: somewhere beside the things that stand on it there must be floor with nothing above.

A capture without a floor gets a virtual one under its lowest point. Its up is the convention's,
``(0, -1, 0)``, unless a flat base speaks for another.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ...errors import InputError
from ...threads import one_thread
from ...types import Vec3
from ..gaussians import GaussianScene
from .samples import FEWER, Sample, quantile, sample
from .voxels import Voxels

FEWEST = 3_000  # Gaussians looked at to judge the many guesses
TRIPLES, DISCS, HEIGHTS = 700, 500, 64  # guesses of each kind; heights for each known direction
FINALISTS = 16  # guesses that are refined
# Up in captures (COLMAP's axes), in glTF and LGM, in nerfstudio and Blender.
CONVENTIONS = ((0.0, -1.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
PREFERENCE = 0.15  # how much the first convention adds to a score; the others a little less
NEAR_CONVENTION = math.cos(math.radians(15))
TOLERANCE = 0.02  # thickness of a floor over the scene's reach, when guessing
LEAST_SHARE, LEAST_SHARE_SHARP = 0.04, 0.01  # of the weight: less is no floor
GRID = 24  # cells along each side of the floor, to look for open floor
LOADED = 0.25  # weight standing on a cell over the floor's own, from which it is not free
OPEN_RIM = 0.35  # free share of the floor's rim from which it is a floor
OPEN_SHARE, STANDING = 0.25, 0.03  # free share of it all; weight of things away from the rim
SLICE = 2.0  # a slice through a body has less weight than so many times the layers beside it
FLOATERS = 0.01  # weight of what hangs together, below which it floats
LOWEST = 0.001  # quantile of heights that a virtual floor lies under


@dataclass(frozen=True, eq=False)
class Floor:
    """A plane ``up . x = height`` that things stand on."""

    up: Vec3
    """Unit vector ``(3,)``, float64."""
    height: float
    """Along ``up`` from the scene's origin, in scene units."""
    share: float
    """Part of the opaque Gaussians that lie on it, 0 to 1."""
    kind: Literal["found", "virtual"]
    """``virtual`` when the scene has none."""
    thickness: float
    """How far its Gaussians stray from the plane to either side, in scene units; 0 if virtual."""
    description: str
    """One line for people."""

    def heights(self, points: Vec3) -> Tensor:
        """Heights ``(...)`` of points ``(..., 3)`` above the floor."""
        return points @ self.up.to(points) - self.height


class _Planes(NamedTuple):
    """``K`` planes ``n . x = d``."""

    n: Vec3
    """Unit normals ``(K, 3)``."""
    d: Tensor
    """``(K,)``."""

    def pick(self, index: Tensor) -> "_Planes":
        return _Planes(self.n[index], self.d[index])


@one_thread()
def find_floor(
    scene: GaussianScene, *, up: Sequence[float] | Tensor | None = None, seed: int = 0
) -> Floor:
    """The floor of a scene, or a virtual one under it.

    Args:
        scene: the Gaussians.
        up: the direction away from the floor where it is known; then only the height is sought.
        seed: of the guesses.
    """
    fixed = None if up is None else unit_vector(up)
    random = torch.Generator().manual_seed(seed)
    s = sample(scene, random)
    planes = _refined(s, _guesses(s, fixed, random), fixed)
    for n, d in zip(planes.n, planes.d, strict=True):
        if floor := _open_floor(s, *_polished(s, n, d, fixed)):
            return floor
    return _virtual(s, fixed)


def unit_vector(up: Sequence[float] | Tensor) -> Vec3:
    """A direction ``(3,)`` of length one, float64."""
    try:
        x = torch.as_tensor(up, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"up: expected three numbers such as 0,-1,0, got {up!r}") from error
    length = torch.linalg.vector_norm(x)
    if tuple(x.shape) != (3,) or not (torch.isfinite(length) and length > 0):
        raise InputError(f"up: expected three numbers that are not all zero, got {up}")
    return x / length


# --- guessing and judging planes --------------------------------------------------------------


def _guesses(s: Sample, up: Vec3 | None, random: torch.Generator) -> _Planes:
    """Planes ``(K,)`` worth a look."""
    if up is not None:
        return _through(s, up.expand(8 * HEIGHTS, 3), s.w, random)
    corners = s.x[_draw(s.w, 3 * TRIPLES, random)].view(TRIPLES, 3, 3)
    n = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = torch.linalg.vector_norm(n, dim=-1)
    proper = length > 1e-6 * s.reach**2
    n, at = (n / length.clamp_min(1e-300)[:, None])[proper], corners[proper, 0]
    discs = _draw(s.w * s.flat + 1e-12, DISCS, random)
    known = torch.tensor(CONVENTIONS, dtype=torch.float64).repeat_interleave(HEIGHTS, 0)
    along = _through(s, known, s.w, random)
    n, at = torch.cat([n, s.normals[discs]]), torch.cat([at, s.x[discs]])
    return _Planes(torch.cat([n, along.n]), torch.cat([(n * at).sum(-1), along.d]))


def _through(s: Sample, n: Vec3, w: Tensor, random: torch.Generator) -> _Planes:
    """Planes of given normals ``(K, 3)``, each through a Gaussian drawn with weights ``w``."""
    return _Planes(n, (n * s.x[_draw(w, len(n), random)]).sum(-1))


def _draw(w: Tensor, k: int, random: torch.Generator) -> Tensor:
    """``k`` indices drawn with replacement."""
    return torch.multinomial(w, k, replacement=True, generator=random)


def _score(s: Sample, planes: _Planes, fixed: bool) -> tuple[Tensor, _Planes]:
    """How much like a floor each plane is, and the planes with normals turned up."""
    tol = TOLERANCE * s.reach
    x, w, n = s.x.float(), s.w.float(), planes.n.float()
    h = x @ n.T - planes.d.float()
    on = w[:, None] * torch.exp(-((h / tol) ** 2))
    above = w @ (h > 3 * tol).float()
    below = w @ (h < -3 * tol).float()
    if not fixed:
        turned = torch.where(below > above, -1.0, 1.0).double()
        planes = _Planes(planes.n * turned[:, None], planes.d * turned)
        above, below = torch.maximum(above, below), torch.minimum(above, below)
    lying = 1 - s.flat.float()[:, None] * (1 - (s.normals.float() @ n.T) ** 2)
    one_sided = (1 - 2 * below / (above + below).clamp_min(1e-9)).clamp_min(0)
    return (on * lying).sum(0) * one_sided * _width(x, w, on) * _bonus(planes.n), planes


def _width(x: Vec3, w: Tensor, on: Tensor) -> Tensor:
    """Spread of what lies on each plane over that of the whole, at most one ``(K,)``."""
    x = x - w @ x
    square = (x**2).sum(-1)
    total = on.sum(0).clamp_min(1e-12)
    spread = (square @ on) / total - ((x.T @ on / total) ** 2).sum(0)
    return (spread / (w @ square).clamp_min(1e-30)).clamp(0, 1).sqrt()


def _bonus(n: Vec3) -> Tensor:
    """A little more for the directions that are up in most files ``(K,)``."""
    c = n @ torch.tensor(CONVENTIONS, dtype=torch.float64).T
    close = torch.exp((c - 1) / (1 - NEAR_CONVENTION))
    worth = PREFERENCE * torch.tensor([1.0, 0.8, 0.7], dtype=torch.float64)
    return (1 + (worth * close).amax(-1)).float()


def _refined(s: Sample, guesses: _Planes, up: Vec3 | None) -> _Planes:
    """The best guesses fitted to what lies on them, the best first."""
    score, turned = _score(s.first(FEWEST), guesses, up is not None)
    planes = turned.pick(score.topk(min(FINALISTS, len(score))).indices)
    for width in (3.0, 2.0, 1.4, 1.0):
        planes = _fitted(s.first(FEWER), planes, width * TOLERANCE * s.reach, up)
    score, planes = _score(s, planes, up is not None)
    order = score.argsort(descending=True)
    return _distinct(s, planes.pick(order[score[order] > 0]))


def _distinct(s: Sample, planes: _Planes) -> _Planes:
    """The planes without those that lie where a better one does."""
    d = planes.d - planes.n @ s.middle
    same = (planes.n @ planes.n.T > math.cos(math.radians(4))) & (
        (d[:, None] - d).abs() < 2 * TOLERANCE * s.reach
    )
    return planes.pick((~same.tril(-1).any(-1)).nonzero().squeeze(-1))


def _fitted(s: Sample, planes: _Planes, tol: float | Tensor, up: Vec3 | None) -> _Planes:
    """Each plane moved to the weighted least-squares fit of what is within ``tol`` of it."""
    h = s.x @ planes.n.T - planes.d
    on = s.w[:, None] * torch.exp(-((h / tol) ** 2))
    on = on / on.sum(0).clamp_min(1e-300)
    at = on.T @ s.x
    if up is not None:
        return _Planes(planes.n, (planes.n * at).sum(-1))
    middle = s.w @ s.x  # taken off first: far from the origin the difference below would cancel
    x, c = s.x - middle, at - middle
    squares = (x[:, :, None] * x[:, None, :]).flatten(1)
    moments = (on.T @ squares).view(-1, 3, 3) - c[:, :, None] * c[:, None, :]
    n = torch.linalg.eigh(moments).eigenvectors[..., 0]
    n = n * torch.where((n * planes.n).sum(-1) < 0, -1.0, 1.0).double()[:, None]
    return _Planes(n, (n * at).sum(-1))


def _polished(s: Sample, n: Vec3, d: Tensor, up: Vec3 | None) -> tuple[Vec3, float, float]:
    """Normal, offset and thickness of one plane, fitted to its thin core."""
    plane, sigma = _Planes(n[None], d[None]), TOLERANCE * s.reach
    for _ in range(5):
        sigma = _thickness(s, plane, sigma)
        plane = _fitted(s, plane, 2 * sigma, up)
    return plane.n[0], float(plane.d[0]), sigma


def _thickness(s: Sample, plane: _Planes, sigma: float) -> float:
    """Standard deviation of what lies on one plane, at most the ``sigma`` known before."""
    h = (s.x @ plane.n[0] - plane.d[0]).abs()
    on = h < 2 * sigma
    spread = 1.4826 * float(quantile(h[on], s.w[on], 0.5)) if on.any() else sigma
    return min(max(spread, 0.1 * TOLERANCE * s.reach), sigma)


# --- is it a floor? ---------------------------------------------------------------------------


def _open_floor(s: Sample, n: Vec3, d: float, sigma: float) -> Floor | None:
    """The floor that a plane is, if it is one."""
    h, top = s.x @ n - d, 3 * sigma
    on = h.abs() <= top
    share, beside = float(s.w[on].sum()), float(s.w[~on & (h.abs() <= 3 * top)].sum())
    blur = sigma / (TOLERANCE * s.reach)  # a sharp plane needs less to be believed
    if share < blur * max(LEAST_SHARE, SLICE * beside) + LEAST_SHARE_SHARP or not _is_open(
        s, n, h, on, top
    ):
        return None
    count = float(on.double().mean())
    words = f"floor found: up {_words(n)}, {count:.0%} of the opaque Gaussians lie on it"
    return Floor(n, d, count, "found", top, words)


def _is_open(s: Sample, n: Vec3, h: Tensor, on: Tensor, top: float) -> bool:
    """Whether there is floor with nothing above it, beside what stands on it.

    The base of an object has the object's sides along its rim. A floor has a free rim; or, in a
    room, walls along its rim and things that stand on it away from them.
    """
    cells, size = _cells(s, n, on)
    inside = ((cells >= 0) & (cells < GRID)).all(-1)
    standing = inside & (h > 2 * top) & (h < 0.5 * GRID * size)
    ground, load = _filled(s, cells, on & inside), _filled(s, cells, standing)
    floor = ~_dilated(~_dilated(ground > 0))  # without the holes between samples
    things = load > LOADED * ground
    rim = floor & (_dilated(~floor) | _border())
    free = floor & ~_dilated(things)
    if float(ground[free].sum()) < OPEN_SHARE * float(ground.sum()):
        return False
    alone = _untouched(things, _dilated(rim | ~floor))
    open_rim = float((free & rim).sum()) >= OPEN_RIM * float(rim.sum())
    return open_rim or float(load[alone].sum()) >= STANDING


def plane_axes(n: Vec3) -> Tensor:
    """Two unit vectors across ``n``, as columns ``(3, 2)``."""
    helper = torch.eye(3).to(n)[int(n.abs().argmin())]
    a = torch.linalg.cross(n, helper)
    a = a / torch.linalg.vector_norm(a)
    return torch.stack([a, torch.linalg.cross(n, a)], dim=-1)


def _cells(s: Sample, n: Vec3, on: Tensor) -> tuple[Tensor, float]:
    """Cells ``(n, 2)`` of Gaussians seen along ``n``, and their size.

    The grid covers what lies on the plane, but goes no farther out than the scene's busy part.
    """
    flat = (s.x - s.middle) @ plane_axes(n)
    low, high = flat[on].quantile(0.02, dim=0), flat[on].quantile(0.98, dim=0)
    width = min(float((high - low).amax()) * GRID / (GRID - 4), 5 * s.reach)
    middle = 0.5 * (low + high) if width < 5 * s.reach else torch.zeros(2).to(flat)
    size = max(width / GRID, 1e-12)
    return ((flat - middle) / size + 0.5 * GRID).floor().long(), size


def _filled(s: Sample, cells: Tensor, chosen: Tensor) -> Tensor:
    """Weight of the chosen Gaussians in each cell ``(GRID, GRID)``."""
    x, y = cells[chosen].T
    grid = torch.zeros(GRID * GRID, dtype=torch.float64)
    return grid.index_add(0, x * GRID + y, s.w[chosen]).view(GRID, GRID)


def _border() -> Tensor:
    """The outermost cells: a floor that reaches them goes on beyond."""
    grid = torch.ones(GRID, GRID, dtype=torch.bool)
    grid[1:-1, 1:-1] = False
    return grid


def _dilated(grid: Tensor) -> Tensor:
    """Marked cells and their eight neighbours."""
    return torch.nn.functional.max_pool2d(grid[None].float(), 3, 1, 1)[0] > 0


def _untouched(things: Tensor, edge: Tensor) -> Tensor:
    """The marked cells that do not hang together with any on the edge."""
    reached = things & edge
    while not torch.equal(reached, wider := things & _dilated(reached)):
        reached = wider
    return things & ~reached


# --- no floor ---------------------------------------------------------------------------------


def _virtual(s: Sample, up: Vec3 | None) -> Floor:
    """A floor under the scene's lowest point."""
    kept = _body(s)
    if up is None:
        up, why = _guessed_up(s, kept)
    else:
        why = "as given"
    height = _lowest(s, kept, up)
    words = f"no floor in the scene: a virtual one lies under it; up {_words(up)}, {why}"
    return Floor(up, height, 0.0, "virtual", 0.0, words)


def _body(s: Sample) -> Tensor:
    """Mask ``(n,)`` of what is no floater: Gaussians that hang together with many others."""
    voxels = Voxels.of(s.x, 0.15 * s.reach)
    part = voxels.components()[voxels.of_point]
    size = torch.bincount(part, s.w)
    return size[part] >= min(FLOATERS, float(size.amax()))


def _lowest(s: Sample, kept: Tensor, up: Vec3) -> float:
    """Height along ``up`` under which hardly anything lies."""
    return float(quantile((s.x @ up)[kept], s.w[kept], LOWEST))


def _guessed_up(s: Sample, kept: Tensor) -> tuple[Vec3, str]:
    """The convention's up, unless the thing has a flat base in another usual direction."""
    axes = torch.tensor(CONVENTIONS, dtype=torch.float64)
    base = torch.stack([_base(s, kept, up) for up in axes])
    best = int(base.argmax())
    if best and base[best] > 2 * base[0] and base[best] > 2 * LEAST_SHARE:
        return axes[best], "where its flat base points"
    return axes[0], "the convention of captures; use --up to change it"


def _base(s: Sample, kept: Tensor, up: Vec3) -> Tensor:
    """Weight of what lies within a thin layer at the bottom."""
    h = s.x @ up - _lowest(s, kept, up)
    return s.w[kept & (h < 1.5 * TOLERANCE * s.reach)].sum()


def _words(up: Vec3) -> str:
    """A direction for people: an axis where it is one to a degree, else three numbers."""
    axis = int(up.abs().argmax())
    if abs(float(up[axis])) > math.cos(math.radians(1)):
        return f"{'-' if up[axis] < 0 else '+'}{'xyz'[axis]}"
    return "(" + ", ".join(f"{c:.2f}" for c in up.tolist()) + ")"

"""Finding the up direction and the floor of a captured scene.

Several planes are candidates for the floor. Each is scored (:mod:`.floor_score`) and the best one
is chosen; if none is good enough, the scene has no floor, and a virtual one is put under its lowest
point. Its up direction is one of the axes that file formats use: the one with which the object
would stand, or the convention of captures, ``(0, -1, 0)``, if that is ambiguous. If the second best
scores nearly as well as the best, the floor carries a doubt that says how to choose the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ...base.errors import InputError
from ...base.process import one_thread
from ...base.types import Vec3
from ...scene.gaussians import GaussianScene
from ..scene_sample import Sample, quantile, sample
from ..sparse_voxels import Voxels
from .floor_score import (
    LEVEL,
    Judged,
    Layer,
    judge,
    open_part,
    plane_axes,
    separate,
    stands,
    things,
)
from .planes import Planes, bonus, candidates, polished

__all__ = ["FloorPlane", "find_floor", "find_floors", "plane_axes", "unit_vector"]

# Prior that an axis is up in a file of which nothing else is known. Captures have COLMAP's axes,
# glTF and LGM +y up, nerfstudio and Blender +z.
PRIORS = {
    (0.0, -1.0, 0.0): 1.0, (0.0, 1.0, 0.0): 0.8, (0.0, 0.0, 1.0): 0.5, (0.0, 0.0, -1.0): 0.3,
    (1.0, 0.0, 0.0): 0.2, (-1.0, 0.0, 0.0): 0.2,
}  # fmt: skip
FOUND = 0.25  # score from which a plane counts as a floor: above that of no floor at all
VIRTUAL = 0.2  # score of no floor, with the usual up and an object that surely stands
UNSTEADY = 0.25  # of that, if the object would fall
SURE = 0.6  # score from which a floor needs no further evidence
CONCLUSIVE = 0.5  # share of things that rest on level planes, from which that alone decides
NEARLY = 0.5  # of the best score: an alternative this good raises doubt
FAINT = 0.08  # a best score below this is a guess
WORTH_TELLING = 0.02  # alternatives with lower scores are not listed
TURNED = 10.0  # degrees from which two up directions differ
FLOATERS = 0.01  # weight of a connected part, below which it is a floater
LOWEST = 0.001  # quantile of heights at which a virtual floor is put
SIGMAS = 3  # standard deviations from the plane that belong to a floor


class Doubt(NamedTuple):
    """Why up or the floor may be wrong, and what to set then."""

    about: Literal["up", "floor"]
    text: str
    advice: str
    """With the flag of the command line."""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}"


@dataclass(frozen=True, eq=False)
class FloorPlane:
    """A plane ``up . x = height`` on which objects stand."""

    up: Vec3
    """Unit vector ``(3,)``, float64."""
    height: float
    """Along ``up`` from the scene's origin, in scene units."""
    share: float
    """Fraction of the opaque Gaussians that lie on it."""
    kind: Literal["found", "virtual"]
    """``virtual`` if the scene has no floor."""
    thickness: float
    """Distance of its Gaussians from the plane to either side, in scene units; 0 if virtual."""
    description: str
    """One line for people."""
    score: float = 1.0
    """How floor-like it is, 0 to 1; virtual floors reach 0.2, a given floor has 1."""
    alternatives: tuple["FloorPlane", ...] = ()
    """Other candidates, best first."""
    doubt: Doubt | None = None
    """Why it may be wrong; None if it is clear."""
    plinth: "FloorPlane | None" = None
    """The top of the plinth on which a lone object was captured, if any."""

    @property
    def carrying(self) -> "FloorPlane":
        """What carries the objects: the plinth if there is one."""
        return self.plinth or self

    def heights(self, points: Vec3) -> Tensor:
        """Heights ``(...)`` of points ``(..., 3)`` above the floor."""
        return points @ self.up.to(points) - self.height


def find_floor(
    scene: GaussianScene, *, up: Sequence[float] | Tensor | None = None, seed: int = 0
) -> FloorPlane:
    """The floor of a scene, or a virtual one below it, with ``alternatives`` and ``doubt``.

    Args:
        scene: the Gaussians.
        up: the direction away from the floor, if known; then only the height is searched.
        seed: of the random candidates; the result hardly depends on it.
    """
    best, *others = find_floors(scene, up=up, seed=seed)
    return replace(best, alternatives=tuple(others), doubt=_doubt(best, others))


@one_thread()
def find_floors(
    scene: GaussianScene, *, up: Sequence[float] | Tensor | None = None, seed: int = 0
) -> list[FloorPlane]:
    """All candidates for the floor, best first; at least one, which may be virtual.

    The arguments are those of :func:`find_floor`.
    """
    fixed = None if up is None else unit_vector(up)
    random = torch.Generator().manual_seed(seed)
    s = sample(scene, random)
    found = _judged(scene, s, _layers(s, None, random), fixed, random)
    found += _virtual(s, fixed)
    found.sort(key=lambda floor: (_faint(floor), -floor.score))
    others = [f for f in found[1:] if f.score >= WORTH_TELLING and _differs(f, found[0], s.reach)]
    return [found[0], *others]


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


# --- candidates in the scene -------------------------------------------------------------------


def _judged(
    scene: GaussianScene, s: Sample, planes: list[Layer], up: Vec3 | None, random: torch.Generator
) -> list[FloorPlane]:
    """Planes of the scene with their scores. With ``up`` given, other planes can only be walls."""
    layers, count = planes, len(planes)
    if up is not None:
        level = _layers(s, up, random)
        layers = separate(s, [*level, *planes], first=len(level))
        layers.sort(key=lambda layer: not _aligned(layer, up))
        count = sum(_aligned(layer, up) for layer in layers)
    judged = [judge(s, layers, i, things(s, layers, i)) for i in range(count)]
    scores = [
        min(1.0, score * float(bonus(layer.n[None])))
        for layer, score in zip(layers, _scores(scene, layers[:count], judged), strict=False)
    ]
    return [
        _floor(s, _settled(s, layer, up), score)
        for layer, score in zip(layers, scores, strict=False)
        if score >= WORTH_TELLING
    ]


def _scores(scene: GaussianScene, layers: Sequence[Layer], judged: Sequence[Judged]) -> list[float]:
    """How floor-like each layer is.

    In a room hardly anything stands on the floor itself, furniture leaves little of it open, and
    shelves stand out of a wall as things do from a floor. So where the best floor is not clear, the
    share of all things that rest on planes parallel to it decides.
    """
    scores = [j.worth * j.open_ * j.carries for j in judged]
    surfaces = [n.n for n, j in zip(layers, judged, strict=True) if j.worth * j.open_ > FOUND]
    if max(scores, default=0.0) >= SURE and all(
        abs(float(n @ surfaces[0])) > LEVEL for n in surfaces
    ):
        return scores
    from ..room import ENOUGH, find_room  # numba takes a moment to import

    room = find_room(scene)
    if room is None or room.apart < ENOUGH:
        return scores
    shares = [room.support(layer.n.numpy()) for layer in layers]
    most = max(shares, default=0.0)
    if most < CONCLUSIVE:
        return [
            j.worth * j.open_ * max(j.carries, share)
            for j, share in zip(judged, shares, strict=True)
        ]
    return [
        j.worth * j.open_**0.5 * (share / most) ** 2 * max(share, j.carries)
        for j, share in zip(judged, shares, strict=True)
    ]


def _settled(s: Sample, layer: Layer, up: Vec3 | None) -> Layer:
    """A layer fitted again to the part on which nothing stands."""
    seen = open_part(s, layer)
    part = s._replace(x=s.x[seen], w=s.w[seen] / s.w[seen].sum())
    sigma = torch.tensor([layer.top / SIGMAS], dtype=torch.float64)
    plane = Planes(layer.n[None], torch.tensor([layer.d], dtype=torch.float64), sigma)
    n, d, thin = polished(part, plane, up)
    return Layer(n, d, SIGMAS * thin)


def _aligned(layer: Layer, up: Vec3) -> bool:
    return bool(layer.n @ up > 1 - 1e-9)


def _layers(s: Sample, up: Vec3 | None, random: torch.Generator) -> list[Layer]:
    """Distinct surfaces, fitted to their thin cores."""
    planes = candidates(s, up, random)
    each = (polished(s, planes.pick(torch.tensor([i])), up) for i in range(len(planes.d)))
    return separate(s, [Layer(n, d, SIGMAS * sigma) for n, d, sigma in each])


def _floor(s: Sample, layer: Layer, score: float) -> FloorPlane:
    """The floor on a layer."""
    count = float(s.many[layer.on(s)].sum())
    words = f"floor found: up {_words(layer.n)}, {count:.0%} of the opaque Gaussians lie on it"
    return FloorPlane(layer.n, layer.d, count, "found", layer.top, words, score)


# --- no floor ---------------------------------------------------------------------------------


def _virtual(s: Sample, up: Vec3 | None) -> list[FloorPlane]:
    """Floors below the scene's lowest point, one per possible up direction."""
    kept = _body(s)
    if up is not None:
        return [_under(s, kept, up, VIRTUAL, "as given")]
    floors = []
    for axis, prior in PRIORS.items():
        way = torch.tensor(axis, dtype=torch.float64)
        steady = stands(s, kept, way, _lowest(s, kept, way))
        score = VIRTUAL * prior * (UNSTEADY + (1 - UNSTEADY) * steady)
        usual = prior == max(PRIORS.values())
        why = "the convention of captures" if usual else "by which it stands best"
        floors.append(_under(s, kept, way, score, f"{why}; use --up to change it"))
    return floors


def _under(s: Sample, kept: Tensor, up: Vec3, score: float, why: str) -> FloorPlane:
    words = f"no floor in the scene: a virtual one lies under it; up {_words(up)}, {why}"
    return FloorPlane(up, _lowest(s, kept, up), 0.0, "virtual", 0.0, words, score)


def _body(s: Sample) -> Tensor:
    """Mask ``(n,)`` of Gaussians that are connected with many others: no floaters."""
    voxels = Voxels.of(s.x, 0.15 * s.reach)
    part = voxels.components()[voxels.of_point]
    size = torch.bincount(part, s.w)
    return size[part] >= min(FLOATERS, float(size.amax()))


def _lowest(s: Sample, kept: Tensor, up: Vec3) -> float:
    """Height along ``up`` below which there is hardly anything."""
    return float(quantile((s.x @ up)[kept], s.w[kept], LOWEST))


# --- doubt ------------------------------------------------------------------------------------


def _faint(floor: FloorPlane) -> bool:
    """Whether a plane of the scene scores too low to be taken for a floor."""
    return floor.kind == "found" and floor.score < FOUND


def _parallel(a: FloorPlane, b: FloorPlane) -> bool:
    return float(a.up @ b.up) > math.cos(math.radians(TURNED))


def _differs(a: FloorPlane, b: FloorPlane, reach: float) -> bool:
    """Whether two floors differ noticeably."""
    apart = max(a.thickness, b.thickness, 0.05 * reach)
    return not _parallel(a, b) or abs(a.height - b.height) > apart


def _doubt(best: FloorPlane, others: Sequence[FloorPlane]) -> Doubt | None:
    """The doubt if an alternative is nearly as likely, else None."""
    near = [f for f in others if f.score >= NEARLY * best.score]
    if near:
        other = near[0]
        if _parallel(other, best):
            words = f"the floor is at {best.height:.4g} ({best.score:.2f}) or {other.height:.4g}"
            advice = f"give --floor {other.height:.4g}"
            return Doubt("floor", f"{words} ({other.score:.2f}): not sure", advice)
        words = f"up is {_words(best.up)} ({best.score:.2f}) or {_words(other.up)}"
        return Doubt("up", f"{words} ({other.score:.2f}): not sure", f"give --up {_flag(other.up)}")
    if best.score < FAINT:
        words = f"nothing says which way is up, {_words(best.up)} is a guess"
        return Doubt("up", words, "give --up X Y Z")
    return None


def _flag(up: Vec3) -> str:
    """A direction as the command line accepts it."""
    return " ".join(f"{round(c, 3) + 0:g}" for c in up.tolist())


def _words(up: Vec3) -> str:
    """A direction in words: an axis if it is one within a degree, else three numbers."""
    axis = int(up.abs().argmax())
    if abs(float(up[axis])) > math.cos(math.radians(1)):
        return f"{'-' if up[axis] < 0 else '+'}{'xyz'[axis]}"
    return "(" + ", ".join(f"{c:.2f}" for c in up.tolist()) + ")"

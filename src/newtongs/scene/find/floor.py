"""Which way is up in a captured scene, and where its floor lies.

Several planes may be the floor. Each is judged (:mod:`.evidence`) and the best is taken; if none is
good, the scene has no floor, and a virtual one lies under its lowest point. Its up is one of the
axes that file formats use: the one by which the thing would stand, the convention of captures,
``(0, -1, 0)``, where that leaves a choice. Where the second best comes near to the best, the floor
says so, and names what to give to have the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ...errors import InputError
from ...threads import one_thread
from ...types import Vec3
from ..gaussians import GaussianScene
from .evidence import Layer, judge, open_part, plane_axes, separate, stands, things
from .planes import Planes, bonus, candidates, polished
from .samples import Sample, quantile, sample
from .voxels import Voxels

__all__ = ["Floor", "find_floor", "find_floors", "plane_axes", "unit_vector"]

# How likely an axis is to be up in a file of which nothing else is known. Captures have COLMAP's
# axes, glTF and LGM +y up, nerfstudio and Blender +z.
PRIORS = {
    (0.0, -1.0, 0.0): 1.0, (0.0, 1.0, 0.0): 0.8, (0.0, 0.0, 1.0): 0.5, (0.0, 0.0, -1.0): 0.3,
    (1.0, 0.0, 0.0): 0.2, (-1.0, 0.0, 0.0): 0.2,
}  # fmt: skip
FOUND = 0.25  # score from which a plane is taken for a floor: more than that of no floor at all
VIRTUAL = 0.2  # score of no floor at all, with the usual up and a thing that surely stands
UNSTEADY = 0.25  # of that, for one that would fall
NEARLY = 0.6  # of the best score: another as good as that makes us doubt
FAINT = 0.08  # a best score below that is no better than a guess
WORTH_TELLING = 0.02  # scores of further floors, below which they are not listed
TURNED = 10.0  # degrees between two ups that differ
FLOATERS = 0.01  # weight of what hangs together, below which it floats
LOWEST = 0.001  # quantile of heights that a virtual floor lies under
SIGMAS = 3  # of a floor's heights within which its Gaussians lie


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
    score: float = 1.0
    """How much like a floor it is, 0 to 1; virtual ones reach 0.2; one if it was given."""
    alternatives: tuple["Floor", ...] = ()
    """Other answers, the best first."""
    doubt: str = ""
    """One line on what else it might be and what to give then; empty where it is clear."""
    plinth: "Floor | None" = None
    """The top of what a lone thing stands on, where it was captured with it."""

    @property
    def carrying(self) -> "Floor":
        """What carries the objects: the plinth where there is one."""
        return self.plinth or self

    def heights(self, points: Vec3) -> Tensor:
        """Heights ``(...)`` of points ``(..., 3)`` above the floor."""
        return points @ self.up.to(points) - self.height


def find_floor(
    scene: GaussianScene, *, up: Sequence[float] | Tensor | None = None, seed: int = 0
) -> Floor:
    """The floor of a scene, or a virtual one under it, with its ``alternatives`` and ``doubt``.

    Args:
        scene: the Gaussians.
        up: the direction away from the floor where it is known; then only the height is sought.
        seed: of the guesses, on which the answer hardly depends.
    """
    best, *others = find_floors(scene, up=up, seed=seed)
    return replace(best, alternatives=tuple(others), doubt=_doubt(best, others))


@one_thread()
def find_floors(
    scene: GaussianScene, *, up: Sequence[float] | Tensor | None = None, seed: int = 0
) -> list[Floor]:
    """All that may be the floor, the best first; at least one, which may be virtual.

    The arguments are those of :func:`find_floor`.
    """
    fixed = None if up is None else unit_vector(up)
    random = torch.Generator().manual_seed(seed)
    s = sample(scene, random)
    planes = _layers(s, None, random)
    found = _judged(s, planes, fixed, random) + _virtual(s, fixed)
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


# --- floors that are there --------------------------------------------------------------------


def _judged(
    s: Sample, planes: list[Layer], up: Vec3 | None, random: torch.Generator
) -> list[Floor]:
    """Planes of the scene with their scores. With ``up`` the others are walls at most."""
    layers, count = planes, len(planes)
    if up is not None:
        level = _layers(s, up, random)
        layers = separate(s, [*level, *planes], first=len(level))
        layers.sort(key=lambda layer: not _aligned(layer, up))
        count = sum(_aligned(layer, up) for layer in layers)
    if not count:
        return []
    floors = []
    for i, layer in enumerate(layers[:count]):
        score = judge(s, layers, i, things(s, layers, i)) * float(bonus(layer.n[None]))
        if score >= WORTH_TELLING:
            floors.append(_floor(s, _settled(s, layer, up), min(score, 1.0)))
    return floors


def _settled(s: Sample, layer: Layer, up: Vec3 | None) -> Layer:
    """A layer fitted once more, to where nothing stands on it."""
    seen = open_part(s, layer)
    part = s._replace(x=s.x[seen], w=s.w[seen] / s.w[seen].sum())
    sigma = torch.tensor([layer.top / SIGMAS], dtype=torch.float64)
    plane = Planes(layer.n[None], torch.tensor([layer.d], dtype=torch.float64), sigma)
    n, d, thin = polished(part, plane, up)
    return Layer(n, d, SIGMAS * thin)


def _aligned(layer: Layer, up: Vec3) -> bool:
    return bool(layer.n @ up > 1 - 1e-9)


def _layers(s: Sample, up: Vec3 | None, random: torch.Generator) -> list[Layer]:
    """Surfaces that differ, fitted to their thin cores."""
    planes = candidates(s, up, random)
    each = (polished(s, planes.pick(torch.tensor([i])), up) for i in range(len(planes.d)))
    return separate(s, [Layer(n, d, SIGMAS * sigma) for n, d, sigma in each])


def _floor(s: Sample, layer: Layer, score: float) -> Floor:
    """A layer as a floor."""
    count = float(s.many[layer.on(s)].sum())
    words = f"floor found: up {_words(layer.n)}, {count:.0%} of the opaque Gaussians lie on it"
    return Floor(layer.n, layer.d, count, "found", layer.top, words, score)


# --- no floor ---------------------------------------------------------------------------------


def _virtual(s: Sample, up: Vec3 | None) -> list[Floor]:
    """Floors under the scene's lowest point, one for each way that may be up."""
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


def _under(s: Sample, kept: Tensor, up: Vec3, score: float, why: str) -> Floor:
    words = f"no floor in the scene: a virtual one lies under it; up {_words(up)}, {why}"
    return Floor(up, _lowest(s, kept, up), 0.0, "virtual", 0.0, words, score)


def _body(s: Sample) -> Tensor:
    """Mask ``(n,)`` of what is no floater: Gaussians that hang together with many others."""
    voxels = Voxels.of(s.x, 0.15 * s.reach)
    part = voxels.components()[voxels.of_point]
    size = torch.bincount(part, s.w)
    return size[part] >= min(FLOATERS, float(size.amax()))


def _lowest(s: Sample, kept: Tensor, up: Vec3) -> float:
    """Height along ``up`` under which hardly anything lies."""
    return float(quantile((s.x @ up)[kept], s.w[kept], LOWEST))


# --- doubt ------------------------------------------------------------------------------------


def _faint(floor: Floor) -> bool:
    """Whether a plane of the scene is too little of a floor to be taken for it."""
    return floor.kind == "found" and floor.score < FOUND


def _parallel(a: Floor, b: Floor) -> bool:
    return float(a.up @ b.up) > math.cos(math.radians(TURNED))


def _differs(a: Floor, b: Floor, reach: float) -> bool:
    """Whether two floors are different answers."""
    apart = max(a.thickness, b.thickness, 0.05 * reach)
    return not _parallel(a, b) or abs(a.height - b.height) > apart


def _doubt(best: Floor, others: Sequence[Floor]) -> str:
    """What else it might be, in one line; nothing where that is far less likely."""
    near = [f for f in others if f.score >= NEARLY * best.score]
    if near:
        other = near[0]
        if _parallel(other, best):
            return (
                f"the floor is at {best.height:.4g} ({best.score:.2f}) or {other.height:.4g} "
                f"({other.score:.2f}): not sure; give --floor {other.height:.4g}"
            )
        return (
            f"up is {_words(best.up)} ({best.score:.2f}) or {_words(other.up)} "
            f"({other.score:.2f}): not sure; give --up {_flag(other.up)}"
        )
    if best.score < FAINT:
        return f"nothing says which way is up; {_words(best.up)} is a guess: give --up X Y Z"
    return ""


def _flag(up: Vec3) -> str:
    """A direction as the command line takes it."""
    return " ".join(f"{round(c, 3) + 0:g}" for c in up.tolist())


def _words(up: Vec3) -> str:
    """A direction for people: an axis where it is one to a degree, else three numbers."""
    axis = int(up.abs().argmax())
    if abs(float(up[axis])) > math.cos(math.radians(1)):
        return f"{'-' if up[axis] < 0 else '+'}{'xyz'[axis]}"
    return "(" + ", ".join(f"{c:.2f}" for c in up.tolist()) + ")"

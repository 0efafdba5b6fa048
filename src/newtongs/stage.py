"""A scene with its moving objects marked, and where up and the floor are."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .errors import InputError, unknown_name
from .pushes import Push, Vector
from .scene.cameras import Camera
from .scene.find.clusters import cluster
from .scene.find.extraction import Extraction
from .scene.find.floor import Floor, find_floor, plane_axes
from .scene.find.grouping import assign, remove
from .scene.find.memory import Memory
from .scene.find.plinth import find_plinth
from .scene.find.selection import Selection, select
from .scene.frames import ALWAYS, FIRST, LATER
from .scene.gaussians import BACKGROUND, GaussianScene, join
from .scene.io.formats import load
from .scene.lifting import lift
from .scene.world_frame import WorldFrame
from .state import State
from .templates import SCENES, named_scene
from .types import Vec3

Told: TypeAlias = Callable[[str, int, int], None]  # what, done, in all

NEARLY_ALL = 0.9  # of a capture selected: what is left belongs to the object too
MOST_LOOSE = 40  # objects that wait to be hit
SURE = 0.6  # score of a floor from which it is no plinth's top
UPRIGHT = 0.99  # cosine between two ups that are the same
SAME = 0.5  # overlap over union from which two selections are the same object
OVERLAP = 0.1  # share of an object that may belong to another: more of it is the same object
FLAT = 0.4  # height over width of a cluster, below which it is a patch of the ground
UP: Vector = (0.0, 1.0, 0.0)  # in our own scenes


class Opened(NamedTuple):
    """A scene, and what is known of it."""

    scene: GaussianScene
    source: str | None
    ours: bool
    """Whether it is one of our own, with y up and the floor at zero."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A scene with its moving objects marked 0, 1, ... and where its floor is."""

    scene: GaussianScene
    count: int
    """Objects that are pushed; further ones are loose."""
    world: WorldFrame
    floor: Floor
    floor_is: str = "found"
    """found, known, as given, or assumed."""
    endless: bool = False
    """Whether the floor goes on for ever, beyond what is to be seen of it."""
    moved: bool = False
    """Whether the objects were set into another scene."""
    reference: float | None = None
    """Lifted scale of the scene's main object, scene units; None where that is object 0."""
    names: tuple[str, ...] = ()
    """How each object was selected."""
    source: str | None = None
    ghosts: int = 0
    """Gaussians left out: floaters and copies of an object."""
    presence: Tensor | None = None
    """When each Gaussian is to be seen ``(N,)``, as an :class:`Animation` has it. Those of frame 0
    alone belong to no object."""
    owners: Tensor | None = None
    """The object for whose taking out a Gaussian comes or goes ``(N,)``; -1 for all others."""

    @property
    def ever_after(self) -> Tensor:
        """Mask ``(N,)`` of what is to be seen once the objects have moved."""
        if self.presence is None:
            return torch.ones(len(self.scene), dtype=torch.bool)
        return self.presence != FIRST

    @property
    def indices(self) -> range:
        """Ids of all objects."""
        return range(len(self.names))

    @property
    def alone(self) -> bool:
        """Whether nothing is to be seen but the objects."""
        return bool((self.scene.ids[self.ever_after] != BACKGROUND).all())


# --- which Gaussians ------------------------------------------------------------------------------


def opened(
    scene: GaussianScene | Opened | Path | str, axes: str | None = None, level: int | None = None
) -> Opened:
    """A scene as it is, of a file, or one of ours by name.

    ``axes`` and ``level`` (of detail) say how to read a file.
    """
    if isinstance(scene, Opened):
        return scene
    ours = isinstance(scene, GaussianScene) or str(scene) in SCENES
    if ours and (axes is not None or level is not None):
        raise InputError("axes and level say how to read a file; leave them out for our own scenes")
    if isinstance(scene, GaussianScene):
        return Opened(scene, None, False)
    if str(scene) in SCENES:
        return Opened(named_scene(str(scene)).scene(), str(scene), True)
    if not Path(scene).exists() and not Path(scene).suffix:
        raise unknown_name("scene", str(scene), SCENES)
    return Opened(load(scene, axes=axes, level=level), str(scene), False)


def on_cpu(scene: GaussianScene) -> GaussianScene:
    """The scene as everything here takes it: on the CPU, in float32."""
    scene = scene.to("cpu")
    numbers = ("means", "quats", "log_scales", "logits", "sh")
    return scene.replace(**{name: getattr(scene, name).float() for name in numbers})


def floor_of(
    place: Opened, up: Sequence[float] | None = None, height: float | None = None
) -> Floor:
    """Up and floor as given, as known of our own scenes, or else as found."""
    if height is not None and not math.isfinite(height):
        raise InputError(f"floor: expected a height in scene units, got {height}")
    known = place.ours and up is None
    found = find_floor(place.scene, up=UP if known else up)
    height = 0.0 if known and height is None else height
    if height is None:
        return _with_plinth(place.scene, found)
    doubt = found.doubt if up is None and not known and "--up" in found.doubt else ""
    if known or abs(height - found.height) <= found.thickness:
        return changed(found, height=height, score=1.0, doubt=doubt)
    given = f"floor as given, at {height:.4g}"
    return changed(found, height=height, score=1.0, doubt=doubt, share=0.0, description=given)


def _with_plinth(scene: GaussianScene, floor: Floor) -> Floor:
    """A capture without a floor may have a plinth, whose top may have been taken for one.

    Objects that a file marks need none.
    """
    same_up = (a for a in floor.alternatives if a.kind == "virtual" and a.up @ floor.up > UPRIGHT)
    found, floor_below = floor, floor if floor.kind == "virtual" else next(same_up, None)
    marked = any(i != BACKGROUND for i in scene.object_ids)
    if floor_below is None or marked or (found.kind == "found" and found.score > SURE):
        return found
    plinth = find_plinth(scene.to("cpu"), floor_below)
    if plinth is None or (
        found.kind == "found" and abs(found.height - plinth.height) > found.thickness
    ):
        return found
    words = f"{floor_below.description}; a plinth's top is at {plinth.height:.3g}, and what "
    floor = changed(floor_below, plinth=plinth, description=f"{words}stands on it is taken off it")
    if found is floor_below:
        return floor
    others = (found, *(a for a in found.alternatives if a is not floor_below))
    doubt = f"a plinth's top, or the floor: not sure; give --floor {plinth.height:.3g} if it is"
    return changed(floor, alternatives=others, doubt=doubt)


def pick(
    scene: GaussianScene | Opened | Path | str,
    pushes: Sequence[Push],
    *,
    up: Sequence[float] | None = None,
    height: float | None = None,
    known: Floor | None = None,
    cameras: Sequence[Camera] | None = None,
    loose: bool = False,
    whole: bool = True,
    axes: str | None = None,
    level: int | None = None,
    memory: Memory | None = None,
) -> Stage:
    """Find the floor, mark the objects 0, 1, ... and take them out of the scene.

    ``whole`` adds to each object what its selection missed, cuts it at what it stands on, and mends
    the hole it leaves there; all this is to be seen from frame 1 on. ``known`` is the floor, where
    :func:`floor_of` has found it already; ``memory`` knows objects that were taken out before.
    """
    place = opened(scene, axes, level)
    given, source, ours = place
    given = on_cpu(given)
    floor = known or floor_of(place, up, height)
    world, carrying = WorldFrame.of_floor(floor.up, floor.height), floor.carrying
    chosen = [_select(given, carrying, push, i, cameras) for i, push in enumerate(pushes)]
    chosen = _disjoint(chosen, pushes)
    ground = WorldFrame.of_floor(carrying.up, carrying.height)
    points = ground.to_physics(given.means) if whole else None
    memory = memory or Memory()
    apart = _apart(given, carrying, chosen, [], points, memory)
    if loose:
        more = _loose(given, carrying, apart)
        chosen += more
        apart += _apart(given, carrying, more, apart, points, memory)
    how = "known" if ours and up is None else "found"
    ghosts = int(_together(apart, "floaters").sum()) if apart else 0
    stage = Stage(
        given, len(pushes), world, floor, how, names=tuple(c.name for c in chosen), source=source,
        ghosts=ghosts,
    )  # fmt: skip
    stage = _assembled(stage, apart) if whole else _marked(stage, apart)
    return changed(stage, reference=_reference(stage, given, chosen, pushes, points, memory))


def _select(
    given: GaussianScene,
    floor: Floor,
    push: Push,
    index: int,
    cameras: Sequence[Camera] | None,
) -> Selection:
    """One object. What the file itself calls an object is the surest guess."""
    marks = [i for i in given.object_ids if i != BACKGROUND]
    own = marks[min(index, len(marks) - 1)] if marks else None
    spec = f"id:{own}" if push.select == "auto" and own is not None else push.select
    chosen = select(given, spec, floor=floor, cameras=cameras)
    lone = push.select == "auto" or push.select.startswith("cluster")
    if lone and floor.kind == "virtual" and chosen.mask.float().mean() > NEARLY_ALL:
        # A capture of one thing: what is left of it would stand there as a ghost.
        return chosen._replace(mask=torch.ones_like(chosen.mask))
    return chosen


def _reference(
    stage: Stage,
    given: GaussianScene,
    chosen: Sequence[Selection],
    pushes: Sequence[Push],
    points: Vec3 | None,
    memory: Memory,
) -> float | None:
    """How large the scene's main object is, whichever are pushed: a unit hangs on it."""
    if not pushes or pushes[0].select == "auto":
        return None
    main = main_object(given, stage.floor.carrying)
    if main is None:
        return None
    for index, one in enumerate(chosen[: stage.count]):
        if int((one.mask & main.mask).sum()) > SAME * int((one.mask | main.mask).sum()):
            return lifted_scale(stage.scene.object(index))
    (whole,) = _apart(given, stage.floor.carrying, [main], [], points, memory)
    return lifted_scale(join(given[whole.mask], whole.own))


def main_object(scene: GaussianScene, floor: Floor) -> Selection | None:
    """The object that is taken when none is named; None without one."""
    try:
        return _select(scene, floor, Push(), 0, None)
    except InputError:
        return None


def lifted_scale(thing: GaussianScene) -> float:
    """Mean of the lifted scale ``s`` of an object, scene units."""
    return State(lift(thing)).s.mean().item()


def _disjoint(chosen: Sequence[Selection], pushes: Sequence[Push]) -> list[Selection]:
    """What neighbours share, a piece of the ground at their feet, belongs to the first of them."""
    out: list[Selection] = []
    for index, (one, push) in enumerate(zip(chosen, pushes, strict=True)):
        if any(overlap(one.mask, other.mask) for other in out):
            raise InputError(f"object {index} ({push.select}) overlaps with one named before it")
        for other in out:
            one = one._replace(mask=one.mask & ~other.mask)
        out.append(one)
    return out


def overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two selections ``(N,)`` share more than neighbours may: they are not two objects."""
    shared = int((one & other).sum())
    return shared > OVERLAP * min(int(one.sum()), int(other.sum()))


def _apart(
    given: GaussianScene,
    floor: Floor,
    chosen: Sequence[Selection],
    before: Sequence[Extraction],
    points: Vec3 | None,
    memory: Memory,
) -> list[Extraction]:
    """Each selection taken out; as it is where the file itself made it, or without ``points``.

    What one has claimed is no longer free for those after it.
    """
    out: list[Extraction] = []
    for index, one in enumerate(chosen):
        if one.exact or points is None:
            out.append(_as_it_is(given, one))
            continue
        taken = _together([*before, *out], "mask", like=one.mask)
        for other in chosen[index + 1 :]:
            taken |= other.mask
        found = memory.take_out(
            given, one.mask & ~taken, floor, taken=taken, points=points, object=len(before) + index
        )
        out.append(_with_ghosts(found, one.ghosts))
    return out


def _as_it_is(given: GaussianScene, one: Selection) -> Extraction:
    """A selection and its ghosts, uncut."""
    nothing = torch.zeros_like(one.mask)
    plain = Extraction(one.mask, nothing, given[:0], given[:0], nothing)
    return _with_ghosts(plain, one.ghosts)


def _with_ghosts(found: Extraction, ghosts: Tensor | None) -> Extraction:
    """An extraction that hides copies of the object too."""
    if ghosts is None:
        return found
    ghosts = ghosts & ~found.mask
    return found._replace(hidden=found.hidden | ghosts, floaters=found.floaters | ghosts)


def _together(
    apart: Sequence[Extraction], name: Literal["mask", "floaters"], like: Tensor | None = None
) -> Tensor:
    """Masks of several objects as one ``(N,)``; a floater may not be another object."""
    out = torch.zeros_like(apart[0].mask if like is None else like)
    for one in apart:
        out |= getattr(one, name)
    if name == "floaters":
        for one in apart:
            out &= ~one.mask
    return out


def _marked(stage: Stage, apart: Sequence[Extraction]) -> Stage:
    """The scene with the objects as ids 0, 1, ... and without ghosts."""
    marked = stage.scene.replace(ids=torch.full_like(stage.scene.ids, BACKGROUND))
    for index, one in enumerate(apart):
        marked = assign(marked, one.mask, index)
    kept = remove(marked, _together(apart, "floaters")) if stage.ghosts else marked
    return changed(stage, scene=kept)


def _assembled(stage: Stage, apart: Sequence[Extraction]) -> Stage:
    """The capture with the objects as ids 0, 1, ..., then all that is to be seen later."""
    n, given = len(stage.scene), stage.scene
    ids = torch.full_like(given.ids, BACKGROUND)
    presence, owners = torch.full((n,), ALWAYS, dtype=torch.uint8), torch.full((n,), BACKGROUND)
    for index, one in enumerate(apart):
        ids[one.mask] = index
        presence[one.hidden] = FIRST
        owners[one.hidden & (owners == BACKGROUND)] = index  # the pushed ones come first
    presence[ids != BACKGROUND] = ALWAYS  # one object's ghost may be another object
    owners[presence == ALWAYS] = BACKGROUND
    marked, new = given.replace(ids=ids), [part for one in apart for part in (one.own, one.fill)]
    count = sum(map(len, new))
    if not count and not (presence == FIRST).any():
        return changed(stage, scene=marked)
    by = [torch.full((len(one.own) + len(one.fill),), i) for i, one in enumerate(apart)]
    return changed(
        stage, scene=join(marked, *new) if count else marked, owners=torch.cat([owners, *by]),
        presence=torch.cat([presence, torch.full((count,), LATER, dtype=torch.uint8)]),
    )  # fmt: skip


def restored(stage: Stage, unmoved: Sequence[int]) -> Stage:
    """The stage as it was captured where objects stay in their places: no mending shows there."""
    if stage.presence is None or stage.owners is None or not len(unmoved):
        return stage
    theirs = torch.isin(stage.owners, torch.tensor(list(unmoved)))
    kept = ~(theirs & (stage.presence == LATER))
    presence = stage.presence.masked_fill(theirs, ALWAYS)[kept]
    scene = stage.scene if kept.all() else stage.scene[kept]
    owners = stage.owners.masked_fill(theirs, BACKGROUND)[kept]
    if (presence == ALWAYS).all():
        return changed(stage, scene=scene, presence=None, owners=None)
    return changed(stage, scene=scene, presence=presence, owners=owners)


def seen_later(stage: Stage) -> Stage:
    """The stage as it is once the objects have moved, from the start."""
    if stage.presence is None:
        return stage
    return changed(stage, scene=stage.scene[stage.ever_after], presence=None, owners=None)


def _loose(given: GaussianScene, floor: Floor, apart: Sequence[Extraction]) -> list[Selection]:
    """Everything else that is an object."""
    marks = [i for i in given.object_ids if i != BACKGROUND]
    if marks:
        found = [(given.ids == i, f"object {i} of the file") for i in marks]
    else:
        upright = [c for c in cluster(given, floor) if _stands_up(given.means[c.mask], floor)]
        found = [(c.mask, f"cluster {c.id}, {c.count:,} Gaussians") for c in upright]
    out: list[Selection] = []
    taken = _together(apart, "mask")
    for mask, name in found:
        free = mask & ~taken
        if int(free.sum()) < (1 - OVERLAP) * int(mask.sum()) or len(out) >= MOST_LOOSE:
            continue
        out.append(Selection(free, None, name, exact=bool(marks)))
        taken = taken | free
    if not out:
        raise InputError(
            "nothing else is loose: no other object that stands up was found; leave --loose out, "
            "or name objects with --push"
        )
    return out


def _stands_up(means: Vec3, floor: Floor) -> bool:
    """Whether a cluster is more than a patch of the ground: grass, a stain, a fold."""
    sideways = means @ plane_axes(floor.up).to(means)
    width = (sideways.amax(0) - sideways.amin(0)).min()
    height = floor.heights(means)
    return bool(height.amax() - height.amin() >= FLAT * width)

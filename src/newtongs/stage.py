"""A scene with its moving objects marked, and where up and the floor are."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from .errors import InputError, unknown_name
from .pushes import Push, Vector
from .scene.cameras import Camera
from .scene.find.clusters import cluster
from .scene.find.completion import complete
from .scene.find.floor import Floor, find_floor, plane_axes
from .scene.find.grouping import assign, remove
from .scene.find.selection import Selection, select
from .scene.gaussians import BACKGROUND, GaussianScene, join
from .scene.io.formats import load
from .scene.lifting import lift
from .scene.placing import extent, set_into
from .scene.world_frame import WorldFrame
from .state import State
from .templates import SCENES, named_scene
from .types import Vec3

Told: TypeAlias = Callable[[str, int, int], None]  # what, done, in all

SIZE = 0.27  # lifted scale in physics units: the middle of the range that the model was trained on
SUNK = 0.25  # part of its height an object may reach below the floor found, which then gives way
NEARLY_ALL = 0.9  # of a capture selected: what is left belongs to the object too
STAGE_HEIGHT = 0.9  # of an object set into one of our own scenes: theirs are that tall
MOST_LOOSE = 40  # objects that wait to be hit
OVERLAP = 0.1  # share of a loose object that may belong to another before it is left out
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
    names: tuple[str, ...] = ()
    """How each object was selected."""
    source: str | None = None
    ghosts: int = 0
    """Gaussians left out."""

    @property
    def indices(self) -> range:
        """Ids of all objects."""
        return range(len(self.names))

    @property
    def alone(self) -> bool:
        """Whether nothing is to be seen but the objects."""
        return bool((self.scene.ids != BACKGROUND).all())


# --- which Gaussians ------------------------------------------------------------------------------


def opened(scene: GaussianScene | Path | str, axes: str | None = None) -> Opened:
    """A scene as it is, of a file, or one of ours by name; ``axes`` are those of a file."""
    if axes is not None and (isinstance(scene, GaussianScene) or str(scene) in SCENES):
        raise InputError("axes say how a file is stored; leave them out for a scene of our own")
    if isinstance(scene, GaussianScene):
        return Opened(scene, None, False)
    if str(scene) in SCENES:
        return Opened(named_scene(str(scene)).scene(), str(scene), True)
    if not Path(scene).exists() and not Path(scene).suffix:
        raise unknown_name("scene", str(scene), SCENES)
    return Opened(load(scene, axes=axes), str(scene), False)


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
        return found
    doubt = found.doubt if up is None and not known and "--up" in found.doubt else ""
    return changed(found, height=height, score=1.0, doubt=doubt)


def frame_of(scene: GaussianScene, floor: Floor, mask: Tensor | None = None) -> WorldFrame:
    """The physics frame on a floor, with the unit that moving what is in ``mask (N,)`` has."""
    if mask is None or not mask.any():
        return WorldFrame.of_floor(floor.up, floor.height)
    thing = scene[mask].replace(ids=torch.zeros(int(mask.sum()), dtype=torch.long))
    size = State(lift(thing.object(0))).s.mean().item()
    return WorldFrame.of_floor(floor.up, floor.height, scale=SIZE / size if size > 0 else 1.0)


def pick(
    scene: GaussianScene | Path | str,
    pushes: Sequence[Push],
    *,
    up: Sequence[float] | None = None,
    height: float | None = None,
    cameras: Sequence[Camera] | None = None,
    loose: bool = False,
    whole: bool = True,
    axes: str | None = None,
) -> Stage:
    """Find the floor, mark the objects 0, 1, ... and take ghosts away.

    ``whole`` adds to each object what its selection missed: its inside and its seam.
    """
    place = opened(scene, axes)
    given, source, ours = place
    given = given.to("cpu").replace(means=given.means.float().cpu())
    floor = floor_of(place, up, height)
    chosen = [_select(given, floor, push, i, cameras) for i, push in enumerate(pushes)]
    if whole:
        chosen = [_completed(given, floor, chosen, i) for i in range(len(chosen))]
    marked, ghosts = _marked(given, chosen, pushes)
    names = [c.name for c in chosen]
    if loose:
        marked, more = _mark_loose(marked, given, floor, len(pushes))
        names += more
    kept = remove(marked, ghosts) if ghosts.any() else marked
    world = WorldFrame.of_floor(floor.up, floor.height)
    how = "known" if ours and up is None else "found"
    return Stage(
        kept, len(pushes), world, floor, how, names=tuple(names), source=source,
        ghosts=int(ghosts.sum()),
    )  # fmt: skip


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


def _completed(
    given: GaussianScene, floor: Floor, chosen: Sequence[Selection], index: int
) -> Selection:
    """A selection with what it missed; one that the file itself made is whole."""
    one = chosen[index]
    if one.exact:
        return one
    others = torch.stack([c.mask for c in chosen]).sum(0) > one.mask.int()
    mask, floaters = complete(given, one.mask, floor, taken=others)
    return one._replace(mask=mask, ghosts=floaters if one.ghosts is None else floaters | one.ghosts)


def _marked(
    given: GaussianScene, chosen: Sequence[Selection], pushes: Sequence[Push]
) -> tuple[GaussianScene, Tensor]:
    """The scene with the objects as ids 0, 1, ..., and a mask ``(N,)`` of ghosts."""
    marked = given.replace(ids=torch.full_like(given.ids, BACKGROUND))
    ghosts = torch.zeros(len(given), dtype=torch.bool)
    for index, (one, push) in enumerate(zip(chosen, pushes, strict=True)):
        if (marked.ids[one.mask] != BACKGROUND).any():
            raise InputError(f"object {index} ({push.select}) overlaps with one named before it")
        marked = assign(marked, one.mask, index)
        ghosts |= one.ghosts if one.ghosts is not None else False
    return marked, ghosts & (marked.ids == BACKGROUND)  # one object's ghost may be another object


def _mark_loose(
    marked: GaussianScene, given: GaussianScene, floor: Floor, first: int
) -> tuple[GaussianScene, list[str]]:
    """Everything else that is an object, as ids from ``first`` on."""
    marks = [i for i in given.object_ids if i != BACKGROUND]
    if marks:
        found = [(given.ids == i, f"object {i} of the file") for i in marks]
    else:
        upright = [c for c in cluster(given, floor) if _stands_up(given.means[c.mask], floor)]
        found = [(c.mask, f"cluster {c.id}, {c.count:,} Gaussians") for c in upright]
    names: list[str] = []
    for mask, name in found:
        free = mask & (marked.ids == BACKGROUND)
        if int(free.sum()) < (1 - OVERLAP) * int(mask.sum()) or len(names) >= MOST_LOOSE:
            continue
        marked = assign(marked, free, first + len(names))
        names.append(name)
    if not names:
        raise InputError(
            "nothing else is loose: no other object that stands up was found; leave --loose out, "
            "or name objects with --push"
        )
    return marked, names


def _stands_up(means: Vec3, floor: Floor) -> bool:
    """Whether a cluster is more than a patch of the ground: grass, a stain, a fold."""
    sideways = means @ plane_axes(floor.up).to(means)
    width = (sideways.amax(0) - sideways.amin(0)).min()
    height = floor.heights(means)
    return bool(height.amax() - height.amin() >= FLAT * width)


# --- where they are ------------------------------------------------------------------------------


def move_stage(
    stage: Stage,
    background: GaussianScene,
    ground: WorldFrame | None,
    height: float | None,
    at: Sequence[float] = (0.0, 0.0),
) -> Stage:
    """The objects, without their surroundings, above the floor of another scene."""
    floor = find_floor(background, up=None if ground is None else ground.up)
    marked = background.ids != BACKGROUND
    if marked.any() and not marked.all():
        background = background[~marked]  # its own object makes room
    if ground is None and floor.kind == "virtual":
        raise InputError(
            "no floor is to be seen in the background; say where it is: --ground UX UY UZ HEIGHT "
            "(ground=WorldFrame.of_floor(up, height)), or name one of our own scenes"
        )
    how = "found" if ground is None else "known"
    doubt = floor.doubt.split("; give")[0] if ground is None else ""
    floor = changed(floor, doubt=doubt and f"background: {doubt}; give --ground UX UY UZ HEIGHT")
    ground = ground or WorldFrame.of_floor(floor.up, floor.height)
    things = stage.scene[stage.scene.ids != BACKGROUND]
    placed = set_into(things, stage.world.up, background, ground, height=height, at=at)
    plain = background.replace(ids=torch.full_like(background.ids, BACKGROUND))
    return changed(
        stage, scene=join(placed, plain), world=ground, floor=floor, floor_is=how, moved=True
    )


def settle(stage: Stage, height: float | None, *, rescale: bool = True) -> Stage:
    """The physics frame: the floor given or found, the objects as large as the model knows them.

    ``height`` is the floor's as it was given, in scene units. Without ``rescale`` a scene unit is a
    physics unit, as in the paper.
    """
    pushed = (stage.scene.ids != BACKGROUND) & (stage.scene.ids < stage.count)
    low, high = extent(stage.scene[pushed], stage.world.up)
    size, found = high - low, stage.world.floor
    how, endless = stage.floor_is, False
    if height is not None:
        floor, how, endless = height, "as given", True
    elif how == "known":
        floor = found
    elif stage.floor.kind == "virtual" and stage.alone:
        floor, how, endless = low - size, "assumed, the object's height below it", True
    else:
        virtual = stage.floor.kind == "virtual" and not stage.moved
        how, endless = ("assumed", True) if virtual else ("found", False)
        floor = min(found, low) if low > found - SUNK * size else found
    if low < floor - SUNK * size and (endless or how == "found"):
        raise InputError(
            f"the object reaches {floor - low:.3g} below the floor at {floor:.3g} (scene units "
            f"along up {[round(x, 3) for x in stage.world.up.tolist()]}); "
            "give --floor and --up, or select less of it"
        )
    scales = [State(lift(stage.scene.object(i))).s.mean().item() for i in range(stage.count)]
    scale = SIZE * len(scales) / sum(scales) if rescale else 1.0
    world = WorldFrame.of_floor(stage.world.up, floor, scale=scale)
    return changed(stage, world=world, floor_is=how, endless=endless)

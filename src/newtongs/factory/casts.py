"""Prepare a scene once for all its films: which objects move together, and their shapes.

Films of the same cast differ only in pushes, materials, motions and cameras.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

import numpy as np
from torch import Tensor

from ..base.errors import InputError
from ..base.process import one_thread
from ..pipeline.pick import overlap
from ..pipeline.prepare import Setup, prepare
from ..pipeline.source import Source, floor_of, on_cpu, open_source
from ..pipeline.spec import PAPER, ObjectSpec, Physics, SceneSpec
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..segment.floor.finding import FloorPlane
from ..segment.objects.clusters import cluster
from ..segment.objects.selection import select
from .scenes import SceneSource
from .spec import MOST_OBJECTS, Kind, Spec

RESTING = ObjectSpec(velocity=(0.0, 0.0, 0.0))
MOST_CANDIDATES = 12  # clusters of a capture that are considered, best first
PHYSICS: dict[Kind, Physics] = {
    "world": Physics(),
    "learned": Physics("learned"),
    "analytic": Physics(contact="paper"),
    "paper": PAPER,
    "motions": Physics(),
}


@dataclass(frozen=True, eq=False)
class Cast:
    """Some objects of a scene, prepared for one kind of dynamics."""

    setup: Setup
    """The scene with these objects at rest."""
    selects: tuple[str, ...]
    """Selectors of the objects: the pushed ones first, then the loose ones."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that the films of a scene share."""

    source: SceneSource
    casts: dict[Kind, tuple[Cast, ...]]
    """Casts by kind of dynamics. All kinds push the same objects, in the same order."""
    provenance: dict[str, str]
    """Where the scene comes from, and which of its objects cannot be used."""


@one_thread()
def prepare_casts(spec: Spec, source: SceneSource) -> Prepared:
    """Read a scene and prepare its casts."""
    opened = open_source(source.source)
    opened = opened._replace(scene=on_cpu(opened.scene))
    if not spec.gloss:
        opened = opened._replace(scene=without_gloss(opened.scene))
    floor = floor_of(opened)
    masks, left_out = movable_objects(spec, opened, floor)
    casts = _casts(spec, opened, floor, masks, source.id, left_out)
    notes = {"left_out": source.without_folder("; ".join(left_out))} if left_out else {}
    return Prepared(source, casts, source.provenance() | notes)


def without_gloss(scene: GaussianScene) -> GaussianScene:
    """Remove view-dependent colour: only spherical harmonics of degree 0 are kept."""
    return scene.replace(sh=scene.sh[:, :1].contiguous())


def movable_objects(
    spec: Spec, source: Source, floor: FloorPlane
) -> tuple[dict[str, Tensor], list[str]]:
    """Find the objects that may move: a mask ``(N,)`` per selector, and why others are left out.

    If the spec names no objects, one that cannot be selected or overlaps with another is left out.
    Named objects must all be selectable. They may overlap, but not within one cast.
    """
    found = spec.objects.select == "found"
    masks: dict[str, Tensor] = {}
    left_out: list[str] = []
    for name in _names(spec, source, floor):
        try:
            mask = select(source.scene, name, floor=floor.carrying).mask
            same = [other for other, theirs in masks.items() if found and overlap(mask, theirs)]
            if same:
                raise InputError(f"it overlaps with {same[0]}")
            masks[name] = mask
        except InputError as error:
            left_out.append(f"{name}: {error}")
            if not found:
                raise
    if not masks:
        raise InputError("; ".join(left_out))
    return masks, left_out


def _names(spec: Spec, source: Source, floor: FloorPlane) -> list[str]:
    """Selectors of the objects that the spec asks for."""
    asked = spec.objects.select
    if asked == "all":
        return ["all"]
    if asked != "found":
        return list(asked)
    marked = [i for i in source.scene.object_ids if i != BACKGROUND]
    if marked:
        return [f"id:{i}" for i in marked]
    if floor.kind == "virtual":
        return ["auto"]
    found = cluster(source.scene, floor.carrying)
    if not found:
        raise InputError("no object was found in the scene")
    return [f"cluster:{c.id}" for c in found[:MOST_CANDIDATES]]


def _casts(
    spec: Spec, source: Source, floor: FloorPlane, masks: Mapping[str, Tensor], scene: str,
    left_out: list[str],
) -> dict[Kind, tuple[Cast, ...]]:  # fmt: skip
    """Prepare one choice of objects after another, until there are as many casts as asked for.

    Choices that cannot be prepared are added to ``left_out``.
    """
    made: dict[Any, Cast] = {}
    usable: list[list[Cast]] = []
    kinds = spec.dynamics.kinds
    for pushed in _choices(spec, [*masks], scene):
        try:
            usable.append(
                [_cached(made, source, floor, spec, kind, pushed, masks) for kind in kinds]
            )
        except InputError as error:
            left_out.append(f"{', '.join(pushed)}: {error}")
            if spec.objects.select != "found":
                raise
        if len(usable) == spec.objects.casts:
            break
    if not usable:
        raise InputError("; ".join(left_out))
    return dict(zip(kinds, zip(*usable, strict=True), strict=True))


def _choices(spec: Spec, names: Sequence[str], scene: str) -> list[tuple[str, ...]]:
    """Choices of objects to push together, in random order; each object comes first in one."""
    pushed = spec.objects.pushed
    if len(names) < pushed:
        raise InputError(f"expected at least {pushed} objects to push, found {len(names)}")
    entropy = hashlib.sha256(f"{spec.seed}:{scene}".encode()).digest()[:8]
    rng = np.random.default_rng(int.from_bytes(entropy, "little"))
    out: list[tuple[str, ...]] = []
    for lead in rng.permutation(len(names)):
        others = [n for n in rng.permutation(len(names)) if n != lead][: pushed - 1]
        out.append(tuple(names[i] for i in (lead, *others)))
    return out


def _cached(
    made: dict[Any, Cast], source: Source, floor: FloorPlane, spec: Spec, kind: Kind,
    pushed: tuple[str, ...], masks: Mapping[str, Tensor],
) -> Cast:  # fmt: skip
    """The cast of these objects for a kind of dynamics.

    Kinds that need the same bodies and surroundings share a cast: they differ only in their forces.
    """
    loose = spec.objects.loose if kind in ("world", "learned", "motions") else 0
    contact = "paper" if kind in ("analytic", "paper") or (kind == "motions" and not loose) else ""
    key = pushed, kind == "paper", contact or "world", loose
    if key not in made:
        physics = changed(PHYSICS[kind], contact="paper") if contact else PHYSICS[kind]
        made[key] = make_cast(source, floor, physics, pushed, spec, loose, masks)
    return made[key]


def make_cast(
    source: Source, floor: FloorPlane, physics: Physics, pushed: Sequence[str], spec: Spec,
    loose: int | str, masks: Mapping[str, Tensor],
) -> Cast:  # fmt: skip
    """Prepare the pushed objects and the loose ones nearest to the first of them, all at rest."""
    most = MOST_OBJECTS - len(pushed) if loose == "all" else int(loose)
    others = [name for name in masks if name not in pushed]
    nearest = by_distance(source, pushed[0], others, masks)[:most]
    if spec.pushes.aim == "loose" and not nearest:
        raise InputError("there is no loose object to aim at")
    asked = SceneSpec(
        tuple(changed(RESTING, select=name) for name in pushed), physics, spec.seconds,
        loose=tuple(nearest), complete=not physics.literal,
    )  # fmt: skip
    return Cast(prepare(source, asked, floor=floor), (*pushed, *nearest))


def by_distance(
    source: Source, first: str, others: Sequence[str], masks: Mapping[str, Tensor]
) -> list[str]:
    """Sort the other objects by distance from the first one."""
    middles = {n: source.scene.means[masks[n]].double().mean(0) for n in (first, *others)}
    return sorted(others, key=lambda name: float((middles[name] - middles[first]).norm()))

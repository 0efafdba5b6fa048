"""A scene prepared once for all its films: objects taken out, their shapes, what is solid."""

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
from ..pipeline.prepare import Setup
from ..pipeline.prepare import prepare as prepare_scene
from ..pipeline.source import Source, floor_of, on_cpu, open_source
from ..pipeline.spec import PAPER, ObjectSpec, Physics, SceneSpec
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..segment.floor.finding import FloorPlane
from ..segment.objects.clusters import cluster
from ..segment.objects.selection import select
from .scenes import SceneSource
from .spec import MOST_OBJECTS, Kind, Spec

STANDING = ObjectSpec(velocity=(0.0, 0.0, 0.0))
MOST_CANDIDATES = 12  # objects of a capture that may be pushed
PHYSICS: dict[Kind, Physics] = {
    "world": Physics(),
    "learned": Physics("learned"),
    "analytic": Physics(contact="paper"),
    "paper": PAPER,
    "motions": Physics(),
}


@dataclass(frozen=True, eq=False)
class Cast:
    """Objects of one scene that move together, for one way of moving."""

    setup: Setup
    """All of them at rest."""
    selects: tuple[str, ...]
    """How each object was selected, the pushed ones first."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that the films of a scene share."""

    source: SceneSource
    casts: dict[Kind, tuple[Cast, ...]]
    """For each kind of dynamics; equally many, of the same objects."""
    provenance: dict[str, str]


@one_thread()
def prepare(spec: Spec, source: SceneSource) -> Prepared:
    """Read a scene and prepare its casts."""
    place = open_source(source.source)
    place = place._replace(scene=on_cpu(place.scene))
    if not spec.gloss:
        place = place._replace(scene=without_gloss(place.scene))
    floor = floor_of(place)
    masks, left_out = candidates(spec, place, floor)
    casts = _casts(spec, place, floor, masks, source.id, left_out)
    said = {"left_out": source.without_folder("; ".join(left_out))} if left_out else {}
    return Prepared(source, casts, source.provenance() | said)


def without_gloss(scene: GaussianScene) -> GaussianScene:
    """The same in colours that do not hang on the side: spherical harmonics of degree 0."""
    return scene.replace(sh=scene.sh[:, :1].contiguous())


def candidates(spec: Spec, place: Source, floor: FloorPlane) -> tuple[dict[str, Tensor], list[str]]:
    """Selections of the objects that may move, with their Gaussians ``(N,)``, and why others not.

    Of what was found some is no object, or the same as another. What was named must be one; it may
    name a thing twice, as long as both are not in one cast.
    """
    found = spec.objects.select == "found"
    masks: dict[str, Tensor] = {}
    left_out: list[str] = []
    for name in _names(spec, place, floor):
        try:
            mask = select(place.scene, name, floor=floor.carrying).mask
            same = [other for other, its in masks.items() if found and overlap(mask, its)]
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


def _names(spec: Spec, place: Source, floor: FloorPlane) -> list[str]:
    """Selections of all that the spec asks for."""
    asked = spec.objects.select
    if asked == "all":
        return ["all"]
    if asked != "found":
        return list(asked)
    marks = [i for i in place.scene.object_ids if i != BACKGROUND]
    if marks:
        return [f"id:{i}" for i in marks]
    if floor.kind == "virtual":
        return ["auto"]
    found = cluster(place.scene, floor.carrying)
    if not found:
        raise InputError("no object was found in it")
    return [f"cluster:{c.id}" for c in found[:MOST_CANDIDATES]]


def _casts(
    spec: Spec, place: Source, floor: FloorPlane, masks: Mapping[str, Tensor], scene: str,
    left_out: list[str],
) -> dict[Kind, tuple[Cast, ...]]:  # fmt: skip
    """First choices that can be prepared, up to the number asked for; others go to ``left_out``."""
    made: dict[Any, Cast] = {}
    usable: list[list[Cast]] = []
    kinds = spec.dynamics.kinds
    for pushed in _choices(spec, [*masks], scene):
        try:
            usable.append(
                [_cached(made, place, floor, spec, kind, pushed, masks) for kind in kinds]
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
    """Which objects are pushed together, in the order in which they are tried: each leads once."""
    pushed = spec.objects.pushed
    if len(names) < pushed:
        raise InputError(f"{pushed} objects are to be pushed, and it has {len(names)}")
    entropy = hashlib.sha256(f"{spec.seed}:{scene}".encode()).digest()[:8]
    rng = np.random.default_rng(int.from_bytes(entropy, "little"))
    out: list[tuple[str, ...]] = []
    for lead in rng.permutation(len(names)):
        others = [n for n in rng.permutation(len(names)) if n != lead][: pushed - 1]
        out.append(tuple(names[i] for i in (lead, *others)))
    return out


def _cached(
    made: dict[Any, Cast], place: Source, floor: FloorPlane, spec: Spec, kind: Kind,
    pushed: tuple[str, ...], masks: Mapping[str, Tensor],
) -> Cast:  # fmt: skip
    """Kinds that differ in their forces alone share one cast."""
    loose = spec.objects.loose if kind in ("world", "learned", "motions") else 0
    contact = "paper" if kind in ("analytic", "paper") or (kind == "motions" and not loose) else ""
    key = pushed, kind == "paper", contact or "world", loose
    if key not in made:
        physics = changed(PHYSICS[kind], contact="paper") if contact else PHYSICS[kind]
        made[key] = make_cast(place, floor, physics, pushed, spec, loose, masks)
    return made[key]


def make_cast(
    source: Source, floor: FloorPlane, physics: Physics, pushed: Sequence[str], spec: Spec,
    loose: int | str, masks: Mapping[str, Tensor],
) -> Cast:  # fmt: skip
    """Some pushed objects and the loose ones around them, all at rest."""
    most = MOST_OBJECTS - len(pushed) if loose == "all" else int(loose)
    others = [name for name in masks if name not in pushed]
    waiting = by_distance(source, pushed[0], others, masks)[:most]
    if spec.pushes.aim == "loose" and not waiting:
        raise InputError("no other object is there to aim at")
    asked = SceneSpec(
        tuple(changed(STANDING, select=word) for word in pushed), physics, spec.seconds,
        loose=tuple(waiting), complete=not physics.literal,
    )  # fmt: skip
    return Cast(prepare_scene(source, asked, floor=floor), (*pushed, *waiting))


def by_distance(
    place: Source, first: str, others: Sequence[str], masks: Mapping[str, Tensor]
) -> list[str]:
    """Other objects, the nearest to the first one first."""
    middles = {n: place.scene.means[masks[n]].double().mean(0) for n in (first, *others)}
    return sorted(others, key=lambda name: float((middles[name] - middles[first]).norm()))

"""A scene made ready once for all its films: objects taken out, their shapes, what is solid."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

import numpy as np
import torch

from ..actors import make_bodies
from ..errors import InputError
from ..ground import Ground, make_ground
from ..pushes import PAPER, Physics, Push, filled
from ..scene.find.clusters import cluster
from ..scene.find.floor import Floor
from ..scene.gaussians import BACKGROUND
from ..stage import Opened, Stage, floor_of, on_cpu, opened, pick
from ..staging import settle
from ..threads import one_thread
from ..world.shapes import Shape
from .scenes import SceneSource
from .spec import MOST_OBJECTS, Kind, Spec

STANDING = Push(velocity=(0.0, 0.0, 0.0))
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

    stage: Stage
    shapes: tuple[Shape | None, ...]
    ground: Ground
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
    place = opened(source.source)
    place = place._replace(scene=on_cpu(place.scene))
    floor = floor_of(place)
    choices = _choices(spec, candidates(spec, place, floor), source.id)
    casts, left_out = _casts(spec, place, floor, choices)
    said = {"left_out": source.without_folder("; ".join(left_out))} if left_out else {}
    return Prepared(source, casts, source.provenance() | said)


def _casts(
    spec: Spec, place: Opened, floor: Floor, choices: Sequence[tuple[str, ...]]
) -> tuple[dict[Kind, tuple[Cast, ...]], list[str]]:
    """The first choices that can be staged, as many as are asked for, and why others cannot.

    Of what was found some is no thing that can fall: a piece of a wall, say. What was named must be
    one.
    """
    made: dict[Any, Cast] = {}
    usable: list[list[Cast]] = []
    left_out: list[str] = []
    for pushed in choices:
        try:
            kinds = spec.dynamics.kinds
            usable.append([_cached(made, place, floor, spec, kind, pushed) for kind in kinds])
        except InputError as error:
            left_out.append(f"{', '.join(pushed)}: {error}")
            if spec.objects.select != "found" or len(left_out) == len(choices):
                raise
        if len(usable) == spec.objects.casts:
            break
    by_kind = zip(*usable, strict=True)
    return dict(zip(spec.dynamics.kinds, by_kind, strict=True)), left_out


def candidates(spec: Spec, place: Opened, floor: Floor) -> list[str]:
    """Selections of the objects that may move."""
    select = spec.objects.select
    if select == "all":
        return ["all"]
    if select != "found":
        return list(select)
    marks = [i for i in place.scene.object_ids if i != BACKGROUND]
    if marks:
        return [f"id:{i}" for i in marks]
    if floor.kind == "virtual":
        return ["auto"]
    found = cluster(place.scene, floor.carrying)
    if not found:
        raise InputError("no object was found in it")
    return [f"cluster:{c.id}" for c in found[:MOST_CANDIDATES]]


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
    made: dict[Any, Cast], place: Opened, floor: Floor, spec: Spec, kind: Kind,
    pushed: tuple[str, ...],
) -> Cast:  # fmt: skip
    """Kinds that differ in their forces alone share one cast."""
    loose = spec.objects.loose if kind in ("world", "learned", "motions") else 0
    contact = "paper" if kind in ("analytic", "paper") or (kind == "motions" and not loose) else ""
    key = pushed, kind == "paper", contact or "world", loose
    if key not in made:
        physics = changed(PHYSICS[kind], contact="paper") if contact else PHYSICS[kind]
        made[key] = make_cast(place, floor, physics, pushed, spec, loose)
    return made[key]


def make_cast(
    place: Opened, floor: Floor, physics: Physics, pushed: Sequence[str], spec: Spec,
    loose: int | str,
) -> Cast:  # fmt: skip
    """The stage of some pushed objects and the loose ones around them."""
    waiting: list[str] = []
    if loose:
        others = [n for n in candidates(spec, place, floor) if n not in pushed]
        found = spec.objects.select == "found"
        nearest = beside(place, floor, pushed, others, apart=found)
        most = MOST_OBJECTS - len(pushed)
        waiting = nearest[: most if loose == "all" else int(loose)]
    selects = (*pushed, *waiting)
    pushes = [filled(changed(STANDING, select=s), physics) for s in selects]
    stage = pick(place, pushes, known=floor, whole=not physics.literal)
    stage = settle(changed(stage, count=len(pushed)), None, rescale=not physics.literal)
    bodies = make_bodies(stage, pushes[: len(pushed)], physics, spec.seconds, None)
    ground = make_ground(stage, bodies, physics, (), ())
    return Cast(stage, tuple(body.shape for body in bodies), ground, selects)


def beside(
    place: Opened, floor: Floor, pushed: Sequence[str], others: Sequence[str], *, apart: bool
) -> list[str]:
    """Other objects, the nearest to the first pushed one first.

    With ``apart``, what shares Gaussians with an object before it is left out: that is one thing
    found twice.
    """
    from ..scene.find.selection import select

    masks = {n: select(place.scene, n, floor=floor.carrying).mask for n in (*pushed, *others)}
    middles = {name: place.scene.means[mask].double().mean(0) for name, mask in masks.items()}
    taken = torch.stack([masks[name] for name in pushed]).any(0)
    out = []
    for name in sorted(others, key=lambda n: float((middles[n] - middles[pushed[0]]).norm())):
        if apart and (taken & masks[name]).any():
            continue
        out.append(name)
        taken |= masks[name]
    return out

"""From a scene to what a simulation needs: objects marked, up and floor known, bodies, solids."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from . import motions, rotations
from .dynamics.floor import support_radius
from .dynamics.surfaces import FLOOR, Box, Plane, Surface
from .dynamics.variants import rigid_state
from .errors import InputError, unknown_name
from .pushes import Physics, Push, Vector, three_numbers
from .scene.animation import ObjectAbout
from .scene.cameras import Camera
from .scene.find.clusters import cluster, without_floaters
from .scene.find.floor import Floor, find_floor
from .scene.find.grouping import assign, remove
from .scene.find.selection import Selection, select
from .scene.gaussians import BACKGROUND, GaussianScene, join
from .scene.io.formats import load
from .scene.lifting import lift
from .scene.placing import extent, moved, set_into
from .scene.world_frame import WorldFrame
from .state import State, replace
from .templates import SCENES, named_scene
from .types import StateTensor, Vec3
from .world.bodies import Body, Track
from .world.colliders import Collider, collider
from .world.shapes import Shape
from .world.surroundings import Surroundings

Told: TypeAlias = Callable[[str, int, int], None]  # what, done, in all

SIZE = 0.27  # lifted scale in physics units: the middle of the range that the model was trained on
TOSS: tuple[Vector, Vector] = ((1.0, 3.2, 0.0), (0.0, 0.5, -3.0))  # velocity, spin: off a floor
DROP: tuple[Vector, Vector] = ((0.4, 0.0, 0.0), (0.3, 0.5, -1.5))  # of an object in the air
SUNK = 0.25  # part of its height an object may reach below the floor found, which then gives way
NEARLY_ALL = 0.9  # of a capture selected: what is left belongs to the object too
AIR = 0.1  # part of its height that an object must be above the floor to be dropped, not tossed
STAGE_HEIGHT = 0.9  # of an object set into one of our own scenes: theirs are that tall
MOST_LOOSE = 40  # objects that wait to be hit
OVERLAP = 0.1  # share of a loose object that may belong to another before it is left out
UP: Vector = (0.0, 1.0, 0.0)  # in our own scenes
RATE = 24.0  # Hz, of the named motions


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


def opened(scene: GaussianScene | Path | str) -> Opened:
    """A scene as it is, of a file, or one of ours by name."""
    if isinstance(scene, GaussianScene):
        return Opened(scene, None, False)
    if str(scene) in SCENES:
        return Opened(named_scene(str(scene)).scene(), str(scene), True)
    if not Path(scene).exists() and not Path(scene).suffix:
        raise unknown_name("scene", str(scene), SCENES)
    return Opened(load(scene), str(scene), False)


def pick(
    scene: GaussianScene | Path | str,
    pushes: Sequence[Push],
    *,
    up: Sequence[float] | None = None,
    height: float | None = None,
    cameras: Sequence[Camera] | None = None,
    loose: bool = False,
) -> Stage:
    """Find the floor, mark the objects 0, 1, ... and take ghosts away."""
    if height is not None and not math.isfinite(height):
        raise InputError(f"floor: expected a height in scene units, got {height}")
    given, source, ours = opened(scene)
    given = given.to("cpu").replace(means=given.means.float().cpu())
    floor = find_floor(given, up=UP if ours and up is None else up)
    if ours and up is None:
        height = 0.0 if height is None else height
    if height is not None:
        floor = changed(floor, height=height)
    chosen = [_select(given, floor, push, i, cameras) for i, push in enumerate(pushes)]
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
        found = [(c.mask, f"cluster {c.id}, {c.count:,} Gaussians") for c in cluster(given, floor)]
    names: list[str] = []
    for mask, name in found:
        free = mask & (marked.ids == BACKGROUND)
        if int(free.sum()) < (1 - OVERLAP) * int(mask.sum()) or len(names) >= MOST_LOOSE:
            continue
        marked = assign(marked, free, first + len(names))
        names.append(name)
    if not names:
        raise InputError(
            "nothing else is loose: no other object was found; leave --loose out, or name "
            "objects with --push"
        )
    return marked, names


# --- where they are ------------------------------------------------------------------------------


def move_stage(
    stage: Stage, background: GaussianScene, ground: WorldFrame | None, height: float | None
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
    ground = ground or WorldFrame.of_floor(floor.up, floor.height)
    things = stage.scene[stage.scene.ids != BACKGROUND]
    placed = set_into(things, stage.world.up, background, ground, height=height)
    plain = background.replace(ids=torch.full_like(background.ids, BACKGROUND))
    return changed(
        stage, scene=join(placed, plain), world=ground, floor=floor, floor_is=how, moved=True
    )


def settle(stage: Stage, height: float | None) -> Stage:
    """The physics frame: the floor given or found, the objects as large as the model knows them.

    ``height`` is the floor's as it was given, in scene units.
    """
    things = stage.scene[stage.scene.ids != BACKGROUND]
    low, high = extent(things, stage.world.up)
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
    world = WorldFrame.of_floor(stage.world.up, floor, scale=SIZE * len(scales) / sum(scales))
    return changed(stage, world=world, floor_is=how, endless=endless)


def raise_for_motions(stage: Stage, pushes: Sequence[Push], seed: int) -> Stage:
    """Objects that follow a motion which begins in the air, at that height above the floor."""
    scene = stage.scene
    for i, push in enumerate(pushes):
        if push.motion is None:
            continue
        thing = scene.object(i)
        low, _ = extent(thing, stage.world.up)
        wanted = _clearance(push.motion, State(_lifted(thing, stage.world)).s.mean().item(), seed)
        rise = wanted / stage.world.scale - (low - stage.world.floor)
        if rise > 0:
            rows = scene.ids == i
            up = moved(scene[rows], shift=(rise * stage.world.up).float())
            means = scene.means.clone()
            means[rows] = up.means
            scene = scene.replace(means=means)
    return changed(stage, scene=scene)


# --- bodies --------------------------------------------------------------------------------------


def _lifted(thing: GaussianScene, world: WorldFrame) -> StateTensor:
    return world.state_to_physics(lift(thing))


def initial_state(stage: Stage, index: int, push: Push) -> StateTensor:
    """``Z_0`` of an object in the physics frame ``(22,)``, with the push in it."""
    thing = stage.scene.object(index)
    low, high = extent(thing, stage.world.up)
    in_the_air = low - stage.world.floor > AIR * (high - low)
    velocity, spin = DROP if in_the_air else TOSS
    if push.velocity is not None or push.spin is not None:
        velocity = three_numbers("velocity", push.velocity or (0.0, 0.0, 0.0))
        spin = three_numbers("spin", push.spin or (0.0, 0.0, 0.0))
    z0 = _lifted(thing, stage.world)
    # The state's angular velocity is in the object's own axes.
    w = rotations.rotate(rotations.conjugate(State(z0).q), torch.tensor(spin, dtype=z0.dtype))
    return replace(z0, v=velocity, w=w, m=push.mass, e=push.restitution, mu=push.attenuation)


def make_bodies(
    stage: Stage, pushes: Sequence[Push], physics: Physics, seconds: float, told: Told | None
) -> list[Body]:
    """All objects, the pushed ones first; shapes where the world needs them."""
    bodies: list[Body] = []
    for i in stage.indices:
        if told is not None and physics.contact == "world":
            told("shapes", i + 1, len(stage.indices))
        push = pushes[i] if i < stage.count else None
        z0 = initial_state(stage, i, push or Push(velocity=(0.0, 0.0, 0.0)))
        z0 = rigid_state(z0) if physics.scale == "rigid" else z0
        shape = shape_of(stage, i, z0) if physics.contact == "world" else None
        if push is None:
            bodies.append(_loose_body(z0, shape, bodies[0]))
            continue
        motion = push.motion
        track = named_track(motion, z0, seconds, physics.seed) if motion else None
        bodies.append(Body(z0, shape, friction=push.friction, track=track))
    return bodies


def _loose_body(z0: StateTensor, shape: Shape | None, first: Body) -> Body:
    """An object that waits to be hit.

    It bounces and slides as the first that is pushed, and weighs as much as that one would at its
    volume if its mass were one: so a mass above one makes the pushed object the heavier.
    """
    assert shape is not None
    assert first.shape is not None
    x = State(first.z0)
    mass = shape.volume / first.shape.volume
    state = replace(z0, m=mass, e=x.e, mu=x.mu)
    return Body(state, shape, friction=first.friction, asleep=True)


def shape_of(stage: Stage, index: int, z0: StateTensor) -> Shape:
    """The convex pieces of an object, in the physics frame."""
    thing = stage.scene.object(index)
    if len(thing) > 50:
        kept = without_floaters(thing)
        thing = thing[kept] if kept.any() else thing
    return Shape.of_gaussians(thing, stage.world, State(z0).p.double().numpy())


def _motion(name: str, size: float, seconds: float, seed: int) -> StateTensor:
    """States ``(T, 22)`` of a named motion at 24 Hz, for an object of mean scale ``size``."""
    frames = max(math.ceil(seconds * RATE) + 1, 4)
    z = motions.generate(name, 1, seed=seed, frames=frames).states[0].double()
    factor = size / State(z).s[0].mean()
    x = State(z)
    return replace(z, p=factor * x.p, v=factor * x.v, s=factor * x.s, u=factor * x.u)


def _clearance(name: str, size: float, seed: int) -> float:
    """How far above the floor a motion begins."""
    z = _motion(name, size, 0.2, seed)[0]
    return max(float(State(z).p[1] - support_radius(z)), 0.0)


def named_track(name: str, z0: StateTensor, seconds: float, seed: int) -> Track:
    """A motion of State-32 that begins at the object's pose and with its size."""
    start = State(z0.double())
    z = _motion(name, start.s.mean().item(), seconds, seed)
    x = State(z)
    turn = rotations.multiply(x.q, rotations.conjugate(x.q[:1]).expand_as(x.q))
    states = replace(
        z,
        p=start.p + x.p - x.p[0],
        q=rotations.multiply(turn, start.q.expand_as(turn)),
        s=start.s * x.s / x.s[0],
        u=start.s * x.u / x.s[0],
        m=start.m, e=start.e, mu=start.mu,
    )  # fmt: skip
    return Track(torch.arange(len(z), dtype=torch.float64) / RATE, states)


# --- surroundings --------------------------------------------------------------------------------


class Ground(NamedTuple):
    """What does not move."""

    surroundings: Surroundings
    solid: Collider | None
    lower: float | None
    """Height of a floor that was assumed below the solid scene, physics units."""


def make_ground(
    stage: Stage,
    bodies: Sequence[Body],
    physics: Physics,
    planes: Sequence[Plane],
    boxes: Sequence[Box],
) -> Ground:
    """Floor, planes and boxes; in the world the solid scene too, with a floor below it."""
    extra: tuple[Surface, ...] = (*planes, *boxes)
    if physics.contact == "paper":
        contact = getattr(getattr(physics.model, "config", None), "contact", True)
        return Ground(Surroundings(((FLOOR,) if contact else ()) + extra), None, None)
    rest = static_rest(stage)
    if not physics.solid or not len(rest):
        return Ground(Surroundings((FLOOR, *extra)), None, None)
    solid = solid_rest(stage, rest, bodies)
    if stage.endless or not len(solid.boxes):
        return Ground(Surroundings((FLOOR, *extra), solid.boxes), solid, None)
    lower = min(0.0, solid.bottom)
    surfaces = (FLOOR if lower == 0 else Plane(UP, lower), *extra)
    return Ground(Surroundings(surfaces, solid.boxes), solid, lower)


def static_rest(stage: Stage) -> GaussianScene:
    """The Gaussians that do not move, without view-dependent colour: a copy must not be large."""
    plain = stage.scene.replace(sh=stage.scene.sh[:, :1])
    return plain[stage.scene.ids == BACKGROUND]


def solid_rest(
    stage: Stage, rest: GaussianScene, bodies: Sequence[Body], *, cell: float | None = None
) -> Collider:
    """The static Gaussians as boxes, with room for the objects; ``cell`` in physics units."""
    things = [
        (body.shape, State(body.z0).p.double().numpy()) for body in bodies if body.shape is not None
    ]
    sizes = [shape.size for shape, _ in things[: stage.count]]
    return collider(rest, stage.world, size=float(np.median(sizes)), cell=cell, objects=things)


def about_objects(
    stage: Stage, pushes: Sequence[Push], bodies: Sequence[Body]
) -> list[ObjectAbout]:
    """What is known of each object."""
    out = []
    for i, (name, body) in enumerate(zip(stage.names, bodies, strict=True)):
        x, loose = State(body.z0), i >= stage.count
        velocity, spin = spoken(body.z0)
        out.append(
            ObjectAbout(
                i, name, velocity, spin, float(x.m), float(x.e), body.friction, float(x.mu),
                None if loose else pushes[i].motion, loose,
                0 if body.shape is None else len(body.shape.pieces),
            )
        )  # fmt: skip
    return out


def spoken(z0: StateTensor) -> tuple[Vector, Vector]:
    """Velocity and spin of an initial state ``(22,)``, about the axes a person gives them in."""
    x = State(z0)
    return _three(x.v), _three(rotations.rotate(x.q, x.w))


def _three(x: Vec3) -> Vector:
    a, b, c = x.tolist()
    return a, b, c

"""The product in one screen: scene -> object -> Z_0 -> rollout -> an animation.

Velocities are in the physics frame: x to the right and z towards the default camera, y up, the
object about half a unit large, gravity 9.81 downwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Literal

import torch

from . import __version__, rotations
from .dynamics.backends import predict_bodies, predictor
from .dynamics.body import Body
from .dynamics.search import search
from .dynamics.variants import choose, rigid_state
from .errors import InputError, unknown_name
from .scene.animation import Animation
from .scene.cameras import Camera
from .scene.find.floor import Floor, find_floor
from .scene.find.grouping import assign, remove
from .scene.find.selection import select
from .scene.gaussians import BACKGROUND, GaussianScene, join
from .scene.io.formats import load
from .scene.lifting import lift
from .scene.placing import OPAQUE, SIGMAS, TAIL, extent, floor_disc, set_into
from .scene.world_frame import WorldFrame
from .state import State, replace
from .templates import TEMPLATES, template
from .types import StateTensor, Times

Vector = tuple[float, float, float]

SIZE = 0.27  # lifted scale in physics units: the middle of the range that the model was trained on
TOSS: tuple[Vector, Vector] = ((1.0, 3.2, 0.0), (0.0, 0.5, -3.0))  # velocity, spin: off a floor
DROP: tuple[Vector, Vector] = ((0.4, 0.0, 0.0), (0.3, 0.5, -1.5))  # of an object in the air
SUNK = 0.25  # part of its height an object may reach below the floor found, which then gives way
NEARLY_ALL = 0.9  # of a capture selected: what is left belongs to the object too
AIR = 0.1  # part of its height that an object must be above the floor to be dropped, not tossed
FASTEST = 1000.0  # velocity and spin; beyond, nothing is to be seen
STAGE_HEIGHT = 0.9  # of an object set into one of our own scenes: theirs are that tall
DISC = 3.0  # radius of the visible floor beyond the way, in heights of the object

Searching = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Push:
    """What is done to one object."""

    select: str = "auto"
    """Which Gaussians: auto, all, cluster:ID, id:K, box:..., sphere:..., circle:..., masks:DIR."""
    velocity: Vector | None = None
    """Initial velocity, physics units a second. Default: a toss, or a drop from the air."""
    spin: Vector | None = None
    """Initial angular velocity in rad/s about the axes x, y (up) and z."""
    mass: float = 1.0
    """Damping of the flight is divided by it."""
    restitution: float = 0.6
    """Part of the vertical speed that a bounce keeps, 0 to 1."""
    attenuation: float = 0.2
    """Part of the speed along the floor that a bounce takes, 0 to 1."""

    def __post_init__(self) -> None:
        for name in ("velocity", "spin"):
            value = getattr(self, name)
            if value is None:
                continue
            numbers = tuple(float(x) for x in value)
            if len(numbers) != 3:
                raise InputError(f"{name}: expected three numbers x y z, got {len(numbers)}")
            if not all(abs(x) <= FASTEST for x in numbers):
                raise InputError(f"{name}: expected numbers up to {FASTEST:g}, got {numbers}")
            object.__setattr__(self, name, numbers)
        for name in ("restitution", "attenuation"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} lies between 0 and 1, got {getattr(self, name)}")
        if not self.mass > 0:
            raise InputError(f"mass must be positive, got {self.mass}")


@dataclass(frozen=True)
class Physics:
    """How objects move."""

    dynamics: Literal["learned", "structured", "analytic"] = "analytic"
    """analytic: Newton's terms. learned: with the trained networks, which drift and bounce as
    State-32's objects do on average. structured: trained scalars, networks zeroed."""
    scale: Literal["rigid", "free"] = "rigid"
    """rigid: sizes stay. free: the paper's, which pulls every size towards one."""
    contact: Literal["shape", "proxy"] = "shape"
    """shape: the lowest point touches the floor. proxy: the paper's radius |s_y|."""
    seed: int = 7301
    """Which of the trained models."""

    def __post_init__(self) -> None:
        for name, kinds in (("scale", ("rigid", "free")), ("contact", ("shape", "proxy"))):
            if getattr(self, name) not in kinds:
                raise unknown_name(name, getattr(self, name), kinds)


PAPER = Physics("learned", "free", "proxy")


@dataclass(frozen=True)
class Stage:
    """A scene with its moving objects marked, and where its floor is."""

    scene: GaussianScene
    indices: tuple[int, ...]
    world: WorldFrame
    floor: Floor
    assumed: bool = False  # whether nothing is to be seen of the floor
    moved: bool = False  # whether the objects were set into another scene
    told: dict[str, Any] = field(default_factory=dict)


def animate(
    scene: GaussianScene | Path | str,
    *,
    pushes: Sequence[Push] = (),
    seconds: float = 2.0,
    fps: float = 24.0,
    up: Sequence[float] | None = None,
    floor: float | None = None,
    background: GaussianScene | Path | str | None = None,
    ground: WorldFrame | None = None,
    height: float | None = None,
    cameras: Sequence[Camera] | None = None,
    goal: str | None = None,
    physics: Physics | None = None,
    show_floor: bool = True,
    progress: Searching | None = None,
    **push: Any,
) -> Animation:
    """Give objects of a scene a push and follow them.

    Args:
        scene: the Gaussians, a file of them, or the name of one of our own scenes.
        pushes: one an object; or give the fields of a single :class:`Push` as arguments.
        seconds: length of the animation.
        fps: frames a second.
        up: the scene's up direction ``(3,)``. Default: estimated.
        floor: height of the scene's floor along ``up``, in its units. Default: estimated; an
            object without surroundings hangs its own height above an assumed one.
        background: another scene that the object is set into, likewise.
        ground: up and floor of the background. Default: estimated.
        height: of the object, in the background's units. Default: a tenth of its width.
        cameras: of the capture, for selections made in pictures.
        goal: search the velocities that reach it: "land at X Z" or "displace DX DY DZ".
        physics: the dynamics; :data:`PAPER` is the paper's to the letter.
        show_floor: draw a disc where the floor is only assumed.
        progress: called with ("search", done, in all) during one.
        **push: fields of the single :class:`Push`.

    Returns:
        The animation. Its frame 0 is the scene, bit for bit.
    """
    if pushes and push:
        raise InputError(f"give pushes or {', '.join(push)}, not both")
    pushes = tuple(pushes) or (Push(**push),)
    physics = physics or Physics()
    times = frame_times(seconds, fps)
    stage = pick(scene, pushes, up=up, height=floor, cameras=cameras)
    if background is not None:
        if isinstance(background, str) and background in TEMPLATES and ground is None:
            ground = WorldFrame.identity()
            height = STAGE_HEIGHT if height is None else height
        stage = move_stage(stage, opened(background).to("cpu"), ground, height)
    stage = settle(stage, floor if background is None else None)
    starts = [initial_state(stage, i, one) for i, one in zip(stage.indices, pushes, strict=True)]
    if goal is not None:
        starts = [
            searched(stage, i, z0, goal, times, physics, progress) for i, z0 in enumerate(starts)
        ]
    states = dict(zip(stage.indices, follow(stage, starts, times, physics), strict=True))
    shown = with_disc(stage, states) if show_floor and stage.assumed else stage.scene
    info = {
        "version": __version__, "goal": goal, "seconds": seconds, "fps": fps, **stage.told,
        "pushes": [asdict(p) | told_push(z) for p, z in zip(pushes, starts, strict=True)],
        "physics": asdict(physics),
    }  # fmt: skip
    return Animation(shown, times, states, stage.world, info)


def frame_times(seconds: float, fps: float) -> Times:
    """Times of all frames, the first at zero, the last at ``seconds`` or just before."""
    if not 0 < seconds <= 600:
        raise InputError(f"seconds: expected more than 0 and up to 600, got {seconds:g}")
    if not 0 < fps <= 1000:
        raise InputError(f"fps: expected more than 0 and up to 1000 frames a second, got {fps:g}")
    times = torch.arange(int(seconds * fps + 1e-6) + 1, dtype=torch.float64) / fps
    if len(times) < 2:
        raise InputError(f"{seconds:g} s at {fps:g} frames a second is less than two frames")
    return times


def opened(scene: GaussianScene | Path | str) -> GaussianScene:
    """A scene as it is, of a file, or one of ours by name."""
    if isinstance(scene, GaussianScene):
        return scene
    if str(scene) in TEMPLATES:
        return template(str(scene)).scene()
    if not Path(scene).exists() and not Path(scene).suffix:
        raise unknown_name("scene", str(scene), TEMPLATES)
    return load(scene)


def pick(
    scene: GaussianScene | Path | str,
    pushes: Sequence[Push],
    *,
    up: Sequence[float] | None = None,
    height: float | None = None,
    cameras: Sequence[Camera] | None = None,
) -> Stage:
    """Find the floor, mark the objects 0, 1, ... and take ghosts away."""
    if height is not None and not math.isfinite(height):
        raise InputError(f"floor: expected a height in scene units, got {height}")
    source = None if isinstance(scene, GaussianScene) else str(scene)
    given = opened(scene)
    given = given.to("cpu").replace(means=given.means.float().cpu())
    floor = find_floor(given, up=up)
    if height is not None:
        floor = changed(floor, height=height)
    marked = given.replace(ids=torch.full_like(given.ids, BACKGROUND))
    ghosts = torch.zeros(len(given), dtype=torch.bool)
    names = []
    marks = [i for i in given.object_ids if i != BACKGROUND]
    for index, push in enumerate(pushes):
        # What the file itself calls an object is the surest guess.
        own = marks[min(index, len(marks) - 1)] if marks else None
        spec = f"id:{own}" if push.select == "auto" and own is not None else push.select
        chosen = select(given, spec, floor=floor, cameras=cameras)
        lone = push.select == "auto" or push.select.startswith("cluster")
        if lone and floor.kind == "virtual" and chosen.mask.float().mean() > NEARLY_ALL:
            # A capture of one thing: what is left of it would stand there as a ghost.
            chosen = chosen._replace(mask=torch.ones_like(chosen.mask))
        if (marked.ids[chosen.mask] != BACKGROUND).any():
            raise InputError(f"object {index} ({push.select}) overlaps with one named before it")
        marked = assign(marked, chosen.mask, index)
        ghosts |= chosen.ghosts if chosen.ghosts is not None else False
        names.append(chosen.name)
    ghosts &= marked.ids == BACKGROUND  # one object's ghost may be another object
    told = {"source": source, "objects": names, "ghosts_removed": int(ghosts.sum())}
    kept = remove(marked, ghosts) if ghosts.any() else marked
    world = WorldFrame.of_floor(floor.up, floor.height)
    return Stage(kept, tuple(range(len(pushes))), world, floor, told=told)


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
    ground = ground or WorldFrame.of_floor(floor.up, floor.height)
    things = stage.scene[stage.scene.ids != BACKGROUND]
    placed = set_into(things, stage.world.up, background, ground, height=height)
    plain = background.replace(ids=torch.full_like(background.ids, BACKGROUND))
    return Stage(join(placed, plain), stage.indices, ground, floor, moved=True, told=stage.told)


def settle(stage: Stage, height: float | None) -> Stage:
    """The physics frame: the floor given or found, the objects as large as the model knows them."""
    things = stage.scene[stage.scene.ids != BACKGROUND]
    low, high = extent(things, stage.world.up)
    size = high - low
    found, assumed = stage.world.floor, False
    if height is not None:
        floor, how = height, "as given"
    elif stage.floor.kind == "virtual" and len(things) == len(stage.scene):
        floor, how, assumed = low - size, "assumed, the object's height below it", True
    else:
        kind = "assumed" if stage.floor.kind == "virtual" and not stage.moved else "found"
        floor, how = min(found, low) if low > found - SUNK * size else found, kind
    if low < floor - SUNK * size:
        raise InputError(
            f"the object reaches {floor - low:.3g} below the floor at {floor:.3g} (scene units "
            f"along up {[round(x, 3) for x in stage.world.up.tolist()]}); "
            "give --floor and --up, or select less of it"
        )
    scales = [State(lift(stage.scene.object(i))).s.mean().item() for i in stage.indices]
    scale = SIZE * len(scales) / sum(scales)
    world = WorldFrame.of_floor(stage.world.up, floor, scale=scale)
    told = stage.told | {
        "up": world.up.tolist(), "floor": floor, "floor_is": how, "scale": scale,
        "gravity_in_scene_units": 9.81 / scale, "floor_found": stage.floor.description,
    }  # fmt: skip
    return changed(stage, world=world, assumed=assumed, told=told)


def initial_state(stage: Stage, index: int, push: Push) -> StateTensor:
    """``Z_0`` of an object in the physics frame ``(22,)``, with the push in it."""
    thing = stage.scene.object(index)
    low, high = extent(thing, stage.world.up)
    in_the_air = low - stage.world.floor > AIR * (high - low)
    velocity, spin = DROP if in_the_air else TOSS
    if push.velocity is not None or push.spin is not None:
        velocity, spin = push.velocity or (0.0, 0.0, 0.0), push.spin or (0.0, 0.0, 0.0)
    z0 = stage.world.state_to_physics(lift(thing))
    # The state's angular velocity is in the object's own axes.
    w = rotations.rotate(rotations.conjugate(State(z0).q), torch.tensor(spin, dtype=z0.dtype))
    return replace(z0, v=velocity, w=w, m=push.mass, e=push.restitution, mu=push.attenuation)


def follow(
    stage: Stage, starts: Sequence[StateTensor], times: Times, physics: Physics
) -> list[StateTensor]:
    """States ``(T, 22)`` of each object in scene coordinates, rolled out as one batch."""
    model = choose(physics.dynamics, physics.scale, seed=physics.seed)
    starts = [rigid_state(z0) if physics.scale == "rigid" else z0 for z0 in starts]
    if physics.contact == "proxy":
        states = predictor(model)(torch.stack(starts), times)
    else:
        bodies = [body_of(stage.scene.object(i), stage.world, z) for i, z in enumerate(starts)]
        states = predict_bodies(model, starts, times, bodies)
    return list(stage.world.state_to_scene(states.double()))


def body_of(thing: GaussianScene, world: WorldFrame, z0: StateTensor) -> Body:
    """The shape of an object in the physics frame."""
    return Body.of_gaussians(
        world.to_physics(thing.means),
        rotations.multiply(world.rotation.to(thing.quats).expand_as(thing.quats), thing.quats),
        world.scale * thing.scales,
        thing.opacities,
        State(z0).p,
        sigmas=SIGMAS,
        opaque=OPAQUE,
        outliers=TAIL,
    )


def searched(
    stage: Stage,
    index: int,
    z0: StateTensor,
    goal: str,
    times: Times,
    physics: Physics,
    progress: Searching | None,
) -> StateTensor:
    """``Z_0`` with the velocity and spin that come nearest to the goal."""
    model = choose(physics.dynamics, physics.scale, seed=physics.seed)
    start = rigid_state(z0) if physics.scale == "rigid" else z0
    shape = body_of(stage.scene.object(index), stage.world, start)
    seconds = float(times[-1])
    return search(
        model,
        goal,
        base=start,
        seconds=seconds,
        fps=(len(times) - 1) / seconds,
        body=shape if physics.contact == "shape" else None,
        progress=progress,
    ).z0


def told_push(z0: StateTensor) -> dict[str, list[float]]:
    """Velocity and spin of an initial state ``(22,)``, about the axes a person gives them in."""
    x = State(z0)
    return {"velocity": x.v.tolist(), "spin": rotations.rotate(x.q, x.w).tolist()}


def with_disc(stage: Stage, states: Mapping[int, StateTensor]) -> GaussianScene:
    """The scene with a disc that shows the assumed floor under all of the way."""
    things = stage.scene[stage.scene.ids != BACKGROUND]
    low, high = extent(things, stage.world.up)
    way = torch.cat([State(z).p for z in states.values()])
    ends = way.amin(0), way.amax(0)
    middle, reach = (ends[0] + ends[1]) / 2, float((ends[1] - ends[0]).norm()) / 2
    return join(stage.scene, floor_disc(stage.world, middle, reach + DISC * (high - low)))

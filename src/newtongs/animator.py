"""The product in one screen: scene -> objects -> Z_0 -> simulation -> an animation."""

import math
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from . import __version__
from .actors import (
    about_objects,
    make_bodies,
    predicted_paths,
    predicted_track,
    raise_for_motions,
    refuse_inside,
)
from .dynamics.search import Goal, SearchRanges, search
from .dynamics.surfaces import Box, Plane
from .errors import InputError
from .ground import Ground, make_ground
from .pushes import Physics, Push, PushFields, filled
from .scene.animation import About, Animation
from .scene.cameras import Camera
from .scene.frames import ALWAYS
from .scene.gaussians import BACKGROUND, GaussianScene, join
from .scene.placing import extent, floor_disc, panel
from .scene.shadows import ShadowName
from .scene.transform import Form
from .scene.world_frame import WorldFrame
from .stage import Opened, Stage, Told, on_cpu, opened, pick, restored
from .staging import STAGE_SIZE, Spot, move_stage, settle
from .state import State
from .types import StateTensor, Times
from .world.bodies import Body, lowest
from .world.colliders import within_any
from .world.simulation import EngineName, Simulation

DISC = 3.0  # radius of the visible floor beyond the way, in heights of the object
AT_REST = 0.01  # of its scale, and in quaternions: what moves less is taken to stay in its place
# Pushes that are tried where ContextNND foresees the motion: what rises fast it takes to be thrown
# in one of many ways, or to be weightless.
FORESEEN = SearchRanges(v_xz=(-2.0, 2.0), v_y=(-0.5, 2.5))
NEAR = 0.02  # of an object's size: what comes so near to the lower floor makes it visible


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
    at: Sequence[float] | None = None,
    turn: float = 0.0,
    lift: float = 1.0,
    meters_per_unit: float | None = None,
    cameras: Sequence[Camera] | None = None,
    planes: Sequence[Plane] = (),
    boxes: Sequence[Box] = (),
    loose: bool = False,
    keep_ghosts: bool = False,
    goal: str | None = None,
    physics: Physics | None = None,
    show_floor: bool = True,
    shadow: bool = True,
    axes: str | None = None,
    level: int | None = None,
    background_axes: str | None = None,
    progress: Told | None = None,
    **push: Unpack[PushFields],
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
        height: of the object, in the background's units. Default: its largest extent is a tenth of
            the background's width.
        at: where in the background it starts: x and z in physics units, as `inspect` draws them.
            Default: the middle.
        turn: degrees by which it is turned about up there.
        lift: gap between it and what is below it there, in its own heights; 0 stands on it.
        meters_per_unit: how long a unit of the scene is, or of the background. Default: such that
            the scene's main object is half a metre large. Physics units are metres.
        cameras: of the capture, for selections made in pictures.
        planes: further floors, ramps and walls, in the physics frame.
        boxes: solid boxes, in the physics frame.
        loose: every other object that is found can be knocked over, and sleeps until it is hit.
        keep_ghosts: take the selection as it is; else what it missed moves too, the object's
            inside and its seam, floaters around it go, it is cut at what it stands on, and the
            hole it leaves there is mended, all this from frame 1 on.
        goal: search the velocities that reach it: "land at X Z" or "displace DX DY DZ".
        physics: the dynamics; :data:`newtongs.pushes.PAPER` is the paper's to the letter.
        show_floor: draw what was only assumed or given: a floor, planes, boxes.
        shadow: darken what lies under the objects. A capture shows the shadows of its frame 0, so
            only new ones are drawn there.
        axes: where +x, +y and +z of the scene's file point, such as "RDF". Default: its format's.
        level: of detail of a ``lod-meta.json``, 0 is the finest. Default: chosen by size.
        background_axes: as ``axes``, of the background's file.
        progress: called with (what, done, in all) during longer work.
        **push: fields of the single :class:`Push`.

    Returns:
        The animation. Its frame 0 is the scene, bit for bit; only an object whose named motion
        begins in the air is raised first.
    """
    if pushes and push:
        raise InputError(f"give pushes or {', '.join(push)}, not both")
    physics, times = physics or Physics(), frame_times(seconds, fps)
    pushes = tuple(filled(one, physics) for one in tuple(pushes) or (Push(**push),))
    if physics.literal:
        _refuse_beside_paper(
            planes=planes, boxes=boxes, background=background, meters_per_unit=meters_per_unit
        )
    _check_unit(meters_per_unit)
    if loose and physics.contact == "paper":
        raise InputError("loose objects need contact 'world'; in the paper's engine nothing meets")
    if goal is not None:
        _refuse_motions(pushes)
    stage = pick(
        scene, pushes, up=up, height=floor, cameras=cameras, loose=loose, axes=axes, level=level,
        whole=not (keep_ghosts or physics.literal),
    )  # fmt: skip
    if background is not None:
        spot = Spot(at, turn, height, lift=lift)
        stage = _into(stage, opened(background, background_axes), ground, spot, meters_per_unit)
    stage = settle(
        stage, floor if background is None else None, rescale=not physics.literal,
        meters_per_unit=meters_per_unit,
    )  # fmt: skip
    stage = raise_for_motions(stage, pushes, physics.seed)
    bodies = make_bodies(stage, pushes, physics, seconds, progress)
    for i, body in enumerate(bodies):
        refuse_inside(i, body, planes, boxes)
    around = make_ground(stage, bodies, physics, planes, boxes)
    if goal is not None:
        bodies = aimed(stage, bodies, around, goal, times, physics, progress)
    states = follow(stage, bodies, around, times, physics, progress)
    missed = () if goal is None else misses(stage, goal, states)
    about = changed(
        about_stage(stage, pushes, bodies, around, physics), seconds=seconds, fps=fps, goal=goal,
        planes=tuple((*p.normal, p.offset) for p in planes),
        boxes=tuple((*b.low, *b.high) for b in boxes), goal_missed_by=missed,
    )  # fmt: skip
    return as_animation(
        stage, bodies, around, times, states, physics, about, planes=planes, boxes=boxes,
        show_floor=show_floor, shadow=shadow,
    )  # fmt: skip


def as_animation(
    stage: Stage,
    bodies: Sequence[Body],
    around: Ground,
    times: Times,
    states: Sequence[StateTensor],
    physics: Physics,
    about: About,
    *,
    planes: Sequence[Plane] = (),
    boxes: Sequence[Box] = (),
    show_floor: bool = True,
    shadow: bool = True,
) -> Animation:
    """The states ``(T, 22)`` of all objects, in scene coordinates, with what is to be seen."""
    stage = restored(stage, [i for i, z in enumerate(states) if not _moves(z)])
    shown = stage.scene
    if show_floor and not physics.literal:  # the paper draws the scene and nothing else
        shown = _with_shown(stage, bodies, around, states, planes, boxes)
    form: Form = "impl" if physics.literal else "main"
    return Animation(
        shown, times, dict(enumerate(states)), stage.world, about, form=form,
        shadow=_shadow(stage) if shadow and not physics.literal else "none",
        presence=_presence(stage, len(shown)),
    )  # fmt: skip


def _shadow(stage: Stage) -> ShadowName:
    """Nothing has its shadow yet in our own scenes, where it is set into another, or alone."""
    bare = stage.floor_is == "known" or stage.moved or stage.alone
    return "all" if bare else "new"


def _moves(z: StateTensor) -> bool:
    """Whether an object with the states ``(T, 22)`` ever leaves its place."""
    x = State(z)
    far = (x.p - x.p[0]).abs().amax() > AT_REST * x.s[0].mean()
    return bool(far | ((x.q - x.q[0]).abs().amax() > AT_REST) | (x.s != x.s[0]).any())


def _presence(stage: Stage, count: int) -> Tensor | None:
    """When the ``count`` Gaussians are to be seen; what was drawn besides, always."""
    if stage.presence is None:
        return None
    return torch.nn.functional.pad(stage.presence, (0, count - len(stage.presence)), value=ALWAYS)


def about_stage(
    stage: Stage, pushes: Sequence[Push], bodies: Sequence[Body], around: Ground, physics: Physics
) -> About:
    """What the stage and the physics say of themselves."""
    return About(
        version=__version__, source=stage.source, ghosts_removed=stage.ghosts,
        objects=tuple(about_objects(stage, pushes, bodies)),
        up=tuple(stage.world.up.tolist()), floor=stage.world.floor, floor_is=stage.floor_is,
        floor_found=stage.floor.description, floor_doubt=stage.floor.doubt,
        lower_floor=around.lower, scale=stage.world.scale,
        dynamics=physics.name, scale_is=physics.scale, contact=physics.contact, seed=physics.seed,
        solid_boxes=0 if around.solid is None else len(around.solid.boxes),
    )  # fmt: skip


def _refuse_beside_paper(**given: object) -> None:
    """The paper's one surface is the floor, and its objects stay in their scene at their size."""
    name = next((name for name, value in given.items() if value), None)
    if name is not None:
        raise InputError(
            f"{name} contradicts the paper's procedure, which has the floor and the scene itself; "
            f"leave {name} out, or the paper's mode"
        )


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


def _into(
    stage: Stage,
    place: Opened,
    ground: WorldFrame | None,
    spot: Spot,
    meters_per_unit: float | None,
) -> Stage:
    """The objects set into another scene, whose floor is known if it is one of ours."""
    if place.ours and ground is None:
        ground = WorldFrame.identity()
        spot = changed(spot, size=STAGE_SIZE)
    return move_stage(stage, on_cpu(place.scene), ground, spot, meters_per_unit=meters_per_unit)


def _check_unit(meters_per_unit: float | None) -> None:
    if meters_per_unit is not None and not 0 < meters_per_unit < math.inf:
        raise InputError(f"meters_per_unit: expected a length above 0, got {meters_per_unit:g}")


def follow(
    stage: Stage,
    bodies: Sequence[Body],
    around: Ground,
    times: Times,
    physics: Physics,
    progress: Told | None = None,
) -> list[StateTensor]:
    """States ``(T, 22)`` of each object in scene coordinates."""
    simulation = simulated(bodies, around, physics)
    tell = None if progress is None else lambda done, of: progress("simulate", done, of)
    states = simulation.run(times, progress=tell)
    return list(stage.world.state_to_scene(states.transpose(0, 1).double()))


def simulated(bodies: Sequence[Body], around: Ground, physics: Physics) -> Simulation:
    """The simulation of a stage, at time zero."""
    engine: EngineName = "paper" if physics.contact == "paper" else "mujoco"
    return Simulation(bodies, physics.model, around.surroundings, engine=engine)


# --- a goal --------------------------------------------------------------------------------------


def aimed(
    stage: Stage,
    bodies: Sequence[Body],
    around: Ground,
    goal: str,
    times: Times,
    physics: Physics,
    progress: Told | None,
) -> list[Body]:
    """The bodies with the velocities that come nearest to the goal.

    The model screens all candidates over a plain floor; the best are played in the world. What
    follows a prediction is not: nothing is in its way.
    """
    aim, seconds, found = Goal.parse(goal), float(times[-1]), list(bodies)
    options: dict[str, Any] = {"seconds": seconds, "fps": (len(times) - 1) / seconds}
    for i in range(stage.count):
        if physics.predicted:
            options |= {"predict": predicted_paths, "ranges": FORESEEN}
        elif physics.contact == "world":
            options["play"] = _Played(i, found, around, physics, times, progress)
        best = search(physics.model, aim, base=found[i].z0, progress=progress, **options).z0
        track = predicted_track(best, seconds) if physics.predicted else None
        found[i] = changed(found[i], state=best, track=track)
    return found


def _refuse_motions(pushes: Sequence[Push]) -> None:
    for i, push in enumerate(pushes):
        if push.motion is not None:
            raise InputError(f"object {i} follows a named motion; a goal needs a free one")


def misses(stage: Stage, goal: str, states: Sequence[StateTensor]) -> tuple[float, ...]:
    """By how much each pushed object misses the goal, as it was played with all the others."""
    paths = [stage.world.state_to_physics(z) for z in states[: stage.count]]
    return tuple(float(Goal.parse(goal).miss(z)) for z in paths)


class _Played:
    """Plays candidates for one object in the world, from one compiled simulation."""

    def __init__(
        self,
        index: int,
        bodies: Sequence[Body],
        around: Ground,
        physics: Physics,
        times: Times,
        progress: Told | None,
    ) -> None:
        self.index, self.body, self.times, self.progress = index, bodies[index], times, progress
        self.simulation = simulated(bodies, around, physics)
        self.start = self.simulation.snapshot()

    def __call__(self, z0: StateTensor) -> tuple[StateTensor, Tensor]:
        """Paths ``(k, T, 22)``, and the reach below the centre at the end ``(k,)``."""
        paths = []
        for done, z in enumerate(z0):
            self.simulation.restore(self.start)
            self.simulation.set(self.index, z)
            paths.append(self.simulation.run(self.times)[:, self.index])
            if self.progress is not None:
                self.progress("play", done + 1, len(z0))
        played = torch.stack(paths)
        return played, State(played[:, -1]).p[:, 1] - lowest(self.body, played[:, -1])


# --- what is drawn besides -----------------------------------------------------------------------


def _with_shown(
    stage: Stage,
    bodies: Sequence[Body],
    around: Ground,
    states: Sequence[StateTensor],
    planes: Sequence[Plane],
    boxes: Sequence[Box],
) -> GaussianScene:
    """The scene with a disc where a floor was assumed, and with planes and boxes made visible."""
    world, things = stage.world, stage.scene[stage.scene.ids != BACKGROUND]
    low, high = extent(things, world.up)
    way = torch.cat([State(z).p for z in states])
    ends = way.amin(0), way.amax(0)
    middle, reach = (ends[0] + ends[1]) / 2, float((ends[1] - ends[0]).norm()) / 2
    radius = reach + DISC * (high - low)
    drawn = []
    if stage.alone and stage.endless and stage.floor_is.startswith("assumed"):
        drawn.append(floor_disc(world, middle, radius))
    elif around.lower is not None and _reaches(stage, bodies, states, around.lower):
        below = WorldFrame.of_floor(
            world.up, world.floor + around.lower / world.scale, scale=world.scale
        )
        drawn.append(_beside(floor_disc(below, middle, radius), world, around))
    center = world.to_physics(middle)
    drawn += [panel(world, *_patch(plane, center, radius * world.scale)) for plane in planes]
    drawn += [panel(world, *face) for box in boxes for face in _faces(box)]
    return join(stage.scene, *drawn) if drawn else stage.scene


def _reaches(stage: Stage, bodies: Sequence[Body], states: Sequence[StateTensor], y: float) -> bool:
    """Whether an object comes down to the height ``y``, in physics units."""
    return any(
        float(lowest(body, stage.world.state_to_physics(z)).min()) < y + NEAR * body.shape.size
        for body, z in zip(bodies, states, strict=True)
        if body.shape is not None
    )


def _beside(disc: GaussianScene, world: WorldFrame, around: Ground) -> GaussianScene:
    """The part of a disc that does not lie under anything solid: it would shine through."""
    assert around.solid is not None
    x = world.to_physics(disc.means).numpy()[:, ::2].astype(float)
    return disc[torch.from_numpy(~within_any(x, around.solid.boxes[:, :, ::2]))]


def _patch(plane: Plane, near: Tensor, radius: float) -> tuple[Tensor, Tensor, Tensor]:
    """Middle and half edges of the part of a plane that is drawn."""
    normal = torch.tensor(plane.normal).double()
    middle = near.double() - (near.double() @ normal - plane.offset) * normal
    helper = torch.eye(3, dtype=torch.float64)[int(normal.abs().argmin())]
    a = torch.linalg.cross(normal, helper)
    a = a / torch.linalg.vector_norm(a)
    return middle, 0.7 * radius * a, 0.7 * radius * torch.linalg.cross(normal, a)


def _faces(box: Box) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Middle and half edges of the six faces of a box."""
    low, high = np.array(box.low), np.array(box.high)
    middle, half = torch.tensor((low + high) / 2), torch.tensor((high - low) / 2)
    eye = torch.eye(3, dtype=torch.float64)
    return [
        (middle + sign * half[k] * eye[k], half[a] * eye[a], half[b] * eye[b])
        for k, a, b in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
        for sign in (-1, 1)
    ]

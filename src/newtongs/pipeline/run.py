"""The main entry point: scene -> objects -> Z_0 -> simulation -> animation."""

from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from ..base.errors import InputError, argument
from ..base.state import State
from ..base.types import Progress, StateTensor, Times
from ..dynamics.search import Goal, SearchRanges, search
from ..dynamics.surfaces import Box, Plane
from ..physics.bodies import lowest
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene
from .namers import Namer
from .prepare import Setup, moving, prepare
from .source import Source, floor_of, open_source
from .spec import (
    LONGEST,
    MOST_FPS,
    SLOWEST,
    ObjectFields,
    ObjectSpec,
    Physics,
    Place,
    SceneSpec,
    single_object,
)
from .track import predicted_paths, predicted_track
from .words import without_words

# Velocities tried where ContextNND predicts the motion. A fast upward start is ambiguous to it: a
# throw of many kinds, or weightlessness.
FORESEEN = SearchRanges(v_xz=(-2.0, 2.0), v_y=(-0.5, 2.5))
SHORTEST_FILM, LONGEST_FILM = 2.0, 6.0  # seconds, if no length is given
HOLD = 0.5  # seconds that such a film goes on after everything rests


def animate(
    scene: GaussianScene | Source | Path | str,
    *,
    objects: Sequence[ObjectSpec] | None = None,
    copies: int = 1,
    place: Place | None = None,
    physics: Physics | None = None,
    seconds: float | None = None,
    fps: float = 24.0,
    slow: float = 1.0,
    goal: str | None = None,
    loose: bool = False,
    complete: bool = True,
    backs: bool = True,
    solids: Sequence[Plane | Box] = (),
    up: Sequence[float] | None = None,
    floor_height: float | None = None,
    meters_per_unit: float | None = None,
    cameras: Sequence[Camera] | None = None,
    show_floor: bool = True,
    shadow: bool = True,
    namer: Namer | str | None = None,
    progress: Progress | None = None,
    **one: Unpack[ObjectFields],
) -> Animation:
    """Push objects of a scene, simulate them, and return the animation.

    Args:
        scene: the Gaussians, a splat file, the name of a built-in scene, or what
            :func:`newtongs.pipeline.source.open_source` returns.
        objects: the objects to move; or give the fields of a single :class:`ObjectSpec` as
            arguments.
        copies: how many of each object there are; the others start above it, in layers.
        place: another scene to place the objects in.
        physics: how objects move; :data:`newtongs.pipeline.spec.PAPER` is the paper's exact
            procedure.
        seconds: length of the animation. Default: until everything rests, at least 2 and at most
            6; 2 with a named motion, a prediction, a goal, and in the paper's procedure.
        fps: frames per second of the animation.
        slow: slow motion, 1 to 20: so many times more frames of the same ``seconds`` are simulated,
            and shown at the same ``fps``.
        goal: find a push that reaches this goal: "land at X Z" or "displace DX DY DZ".
        loose: let every other detected object be knocked over; it sleeps until it is hit.
        complete: complete each selection: add the Gaussians it missed (the object's inside, its
            seam), remove floaters around it, separate it from its support, and repair the hole it
            leaves there and on walls, all from frame 1 on. False uses the selection unchanged.
        backs: close the sides of an object that no camera saw, because they faced a wall or its
            support, from frame 1 on; only of completed objects.
        solids: additional floors, ramps, walls and boxes, in the physics frame.
        up: the scene's up direction ``(3,)``. Default: estimated.
        floor_height: height of the scene's floor along ``up``, in scene units. Default: estimated;
            an object without surroundings starts its own height above an assumed floor.
        meters_per_unit: metres per unit of the scene, or of the place; physics units are metres.
            Default: as a room tells them, or else such that the scene's main object is half a
            metre large.
        cameras: cameras of the capture, for selections made in pictures.
        show_floor: draw floors, planes and boxes that are not visible in the capture.
        shadow: draw contact shadows under the objects. A capture already contains the shadows of
            frame 0; there only new ones are drawn.
        namer: your own model, by which ``select`` may be words such as "the orange can"; see
            :func:`newtongs.pipeline.namers.open_namer`.
        progress: called with (what, done, total) during longer work.
        **one: fields of the single :class:`ObjectSpec`.

    Returns:
        The animation. Its frame 0 is the scene, bit for bit, except that an object whose named
        motion begins in the air is raised first.
    """
    if objects is not None and one:
        raise InputError(f"give either objects or {', '.join(one)}, not both")
    physics = physics or Physics()
    spec = SceneSpec(
        (single_object(**one),) if objects is None else tuple(objects), physics,
        SHORTEST_FILM if seconds is None else seconds, up, floor_height,
        meters_per_unit, place, loose, cameras=cameras, copies=copies,
        complete=complete and not (isinstance(physics, Physics) and physics.literal), backs=backs,
        planes=tuple(s for s in checked_solids(solids) if isinstance(s, Plane)),
        boxes=tuple(s for s in solids if isinstance(s, Box)),
    )  # fmt: skip
    longest = most_seconds(seconds, spec.objects, physics, goal)
    times = frame_times(longest, fps, slow)
    if goal is not None:
        check_goal(goal, spec)
    source, floor = open_source(scene), None
    if namer is not None:
        floor = floor_of(source, up, floor_height)
        spec = without_words(spec, source, floor, namer)
    setup = prepare(source, spec, floor=floor, progress=progress)
    if goal is not None:
        setup = aimed(setup, goal, frame_times(longest, fps), progress)
    states = setup.simulate(times, progress)
    if seconds is None:
        times, states = until_rest(times, states)
    length = float(times[-1]) if seconds is None else seconds
    about = changed(setup.about(), seconds=length, fps=fps, slow=slow, goal=goal)
    if goal is not None:
        about = changed(about, goal_missed_by=misses(setup, goal, states))
    shown = torch.arange(len(times), dtype=torch.float64) / fps
    return setup.animation(shown, states, about=about, show_floor=show_floor, shadow=shadow)


def checked_solids(solids: Sequence[Plane | Box]) -> Sequence[Plane | Box]:
    """The planes and boxes; anything else is refused, above all the selector of the same name."""
    for one in solids:
        if not isinstance(one, Plane | Box):
            raise InputError(
                f"{argument('solids')}: expected Plane and Box of newtongs.dynamics.surfaces, got "
                f"{one!r} (a Box of newtongs.segment.selectors selects Gaussians)"
            )
    return solids


def most_seconds(
    seconds: float | None,
    objects: Sequence[ObjectSpec],
    physics: Physics,
    goal: str | None = None,
) -> float:
    """The length of an animation: as given, or the most that may be needed until all rests.

    Named motions, predictions, the paper's procedure and goals have a length of their own.
    """
    if seconds is not None:
        return seconds
    fixed = goal is not None or physics.literal or physics.predicted
    return SHORTEST_FILM if fixed or any(one.motion for one in objects) else LONGEST_FILM


def until_rest(times: Times, states: StateTensor) -> tuple[Times, StateTensor]:
    """Cut times and states ``(T, K, 22)`` shortly after the last visible movement."""
    hold = max(round(HOLD * (len(times) - 1) / float(times[-1])), 1)  # frames
    moved = torch.stack([moving(z, hold) for z in states.transpose(0, 1)]).any(0)
    last = float(times[moved].max()) if moved.any() else 0.0
    shown = times <= max(last + HOLD, SHORTEST_FILM) + 1e-9
    return times[shown], states[shown]


def frame_times(seconds: float, fps: float, slow: float = 1.0) -> Times:
    """Simulated times of all frames: the first at 0, the last at ``seconds`` or just before.

    There are ``slow`` times ``fps`` frames in a simulated second.
    """
    if not 0 < seconds <= LONGEST:
        raise InputError(f"seconds: expected more than 0 and up to {LONGEST:g}, got {seconds:g}")
    if not 0 < fps <= MOST_FPS:
        raise InputError(
            f"fps: expected more than 0 and up to {MOST_FPS:g} frames per second, got {fps:g}"
        )
    if not 1 <= slow <= SLOWEST:
        raise InputError(f"{argument('slow')}: expected 1 to {SLOWEST:g}, got {slow:g}")
    rate = fps * slow
    if rate > MOST_FPS:
        raise InputError(
            f"{argument('slow')} times {argument('fps')}: expected up to {MOST_FPS:g} frames per "
            f"simulated second, got {slow:g} times {fps:g}; reduce one of them"
        )
    times = torch.arange(int(seconds * rate + 1e-6) + 1, dtype=torch.float64) / rate
    if len(times) < 2:
        raise InputError(
            f"expected at least two frames, got {seconds:g} s at {fps:g} frames per second; "
            f"increase {argument('seconds')} or {argument('fps')}"
        )
    return times


# --- a goal --------------------------------------------------------------------------------------


def aimed(
    setup: Setup,
    goal: str,
    times: Times,
    progress: Progress | None = None,
    *,
    only: Sequence[int] | None = None,
) -> Setup:
    """Find the push that comes nearest to the goal, and return the setup with it.

    The model screens all candidates over a plain floor; the best are then simulated in the world.
    Objects that follow a prediction pass through obstacles, so screening alone decides for them.
    All pushed objects have the goal, or ``only`` some of them.
    """
    aim, seconds, physics = Goal.parse(goal), float(times[-1]), setup.spec.physics
    options: dict[str, Any] = {"seconds": seconds, "fps": (len(times) - 1) / seconds}
    for i in range(setup.layout.pushed) if only is None else only:
        if physics.predicted:
            options |= {"predict": predicted_paths, "ranges": FORESEEN}
        elif physics.contact == "world":
            options["play"] = _Candidates(setup, i, times, progress)
        start = setup.bodies[i]
        best = search(physics.model, aim, base=start.z0, progress=progress, **options).z0
        track = predicted_track(best, seconds) if physics.predicted else None
        bodies = list(setup.bodies)
        bodies[i] = changed(start, state=best, track=track)
        setup = changed(setup, bodies=tuple(bodies))
    return setup


def check_goal(goal: str, spec: SceneSpec) -> None:
    """Refuse a goal that cannot be read, and objects that cannot be pushed towards one."""
    Goal.parse(goal)
    if spec.copies > 1:
        raise InputError(f"{argument('goal')} is for one object; leave out {argument('copies')}")
    refuse_motions(spec.objects)


def refuse_motions(objects: Sequence[ObjectSpec]) -> None:
    """A named motion sets the path itself, so no push can aim the object."""
    for i, one in enumerate(objects):
        if one.motion is not None:
            raise InputError(
                f"object {i} follows motion {one.motion}, so it takes no push; leave out the "
                f"motion or {argument('goal')}"
            )


def misses(setup: Setup, goal: str, states: StateTensor) -> tuple[float, ...]:
    """Distance by which each pushed object misses the goal in ``states (T, K, 22)``."""
    in_scene = setup.frame.state_to_scene(states.transpose(0, 1).double())
    paths = [setup.frame.state_to_physics(z) for z in in_scene[: setup.layout.pushed]]
    return tuple(float(Goal.parse(goal).miss(z)) for z in paths)


class _Candidates:
    """Simulates candidate states of one object in the world, reusing one compiled simulation."""

    def __init__(self, setup: Setup, index: int, times: Times, progress: Progress | None) -> None:
        self.index, self.body, self.times = index, setup.bodies[index], times
        self.progress = progress
        self.simulation = setup.simulation()
        self.start = self.simulation.snapshot()

    def __call__(self, z0: StateTensor) -> tuple[StateTensor, Tensor]:
        """Paths ``(k, T, 22)``, and at their ends the extent below the centre ``(k,)``."""
        paths = []
        for done, z in enumerate(z0):
            self.simulation.restore(self.start)
            self.simulation.set(self.index, z)
            paths.append(self.simulation.run(self.times)[:, self.index])
            if self.progress is not None:
                self.progress("play", done + 1, len(z0))
        played = torch.stack(paths)
        return played, State(played[:, -1]).p[:, 1] - lowest(self.body, played[:, -1])

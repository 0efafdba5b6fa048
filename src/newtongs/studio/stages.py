"""From a recipe to bodies in their surroundings, with all kept that a new push does not change."""

import threading
from collections.abc import Sequence
from dataclasses import replace as changed
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import rotations
from ..actors import make_bodies, predicted_paths, raise_for_motions
from ..animator import about_stage, as_animation, frame_times, simulated
from ..dynamics.surfaces import FLOOR
from ..dynamics.variants import choose
from ..ground import Ground, make_ground
from ..pushes import filled
from ..scene.animation import Animation
from ..scene.find.floor import Floor
from ..scene.find.memory import Memory
from ..stage import Opened, Stage, Told, pick
from ..staging import settle
from ..state import State, make, replace
from ..types import StateTensor, Times, Vec3
from ..world.bodies import Body
from ..world.shapes import Shape
from ..world.simulation import Simulation
from ..world.surroundings import Surroundings
from .pointing import Ray
from .recipe import Kick, Recipe

NEW = -1  # row of a Gaussian that the capture has not
COARSE = 24  # frames of a path that is drawn while an arrow is pulled


class Ready(NamedTuple):
    """A stage with its bodies: all that a simulation needs."""

    recipe: Recipe
    stage: Stage
    bodies: list[Body]
    around: Ground
    rows: Tensor
    """Which Gaussian of the capture each of the stage's is ``(N,)``; -1 for one that is new."""


def made_ready(
    recipe: Recipe,
    place: Opened,
    floor: Floor,
    before: Ready | None = None,
    memory: Memory | None = None,
    told: Told | None = None,
) -> Ready:
    """The stage of a recipe, as :func:`newtongs.animate` makes it.

    ``floor`` is that of the ``place``. Where only velocities, spins and materials differ from
    ``before``, its objects, shapes and solid scene are taken over; otherwise the shapes of objects
    that are the same as there. ``memory`` is that of the place.
    """
    physics = recipe.physics
    pushes = [filled(push, physics) for push in recipe.pushes]
    if before is not None and _lasting(before.recipe) == _lasting(recipe):
        shapes = [body.shape for body in before.bodies]
        bodies = make_bodies(before.stage, pushes, physics, recipe.seconds, told, shapes)
        return before._replace(recipe=recipe, bodies=bodies)
    picked = pick(
        place, pushes, up=recipe.up, height=recipe.floor, known=floor, loose=recipe.loose,
        whole=not physics.literal, memory=memory,
    )  # fmt: skip
    stage = settle(picked, recipe.floor, rescale=not physics.literal)
    stage = raise_for_motions(stage, pushes, physics.seed)
    shapes = [] if before is None else [_shape(before, stage, i) for i in stage.indices]
    bodies = make_bodies(stage, pushes, physics, recipe.seconds, told, shapes)
    around = make_ground(stage, bodies, physics, (), ())
    return Ready(recipe, stage, bodies, around, _rows(picked, stage, len(place.scene)))


def _rows(picked: Stage, stage: Stage, captured: int) -> Tensor:
    """Rows of the capture; they come first, and a stage whose objects were raised lacks some."""
    rows = torch.arange(len(picked.scene))
    rows[captured:] = NEW
    return rows if len(stage.scene) == len(picked.scene) else rows[picked.ever_after]


def _shape(before: Ready, stage: Stage, index: int) -> Shape | None:
    """An object's shape, if it had one and is still the same object in the same frame."""
    if index >= len(before.bodies) or before.recipe.dynamics == "paper":
        return None
    was, now = before.stage.world, stage.world
    frame = was.scale == now.scale and was.floor == now.floor and torch.equal(was.up, now.up)
    things = before.stage.scene.object(index), stage.scene.object(index)
    same = frame and all(
        torch.equal(getattr(things[0], name), getattr(things[1], name))
        for name in ("means", "quats", "log_scales", "logits")
    )
    return before.bodies[index].shape if same else None


def _lasting(recipe: Recipe) -> tuple[Any, ...]:
    """What objects, shapes and surroundings hang on."""
    words = tuple((push.select, push.motion) for push in recipe.pushes)
    seconds = recipe.seconds if any(push.motion for push in recipe.pushes) else None
    paper = recipe.dynamics == "paper"
    return words, seconds, paper, recipe.up, recipe.floor, recipe.loose, recipe.solid


def started(ready: Ready) -> Simulation:
    """The simulation at time zero."""
    return simulated(ready.bodies, ready.around, ready.recipe.physics)


def played(simulation: Simulation, times: Times, kicks: Sequence[Kick]) -> StateTensor:
    """States ``(T, K, 22)`` at ``times`` of a run with kicks in between."""
    parts, left = [], times.tolist()
    for kick in kicks:
        before = [t for t in left if t <= kick.time]
        left = left[len(before) :]
        parts += [simulation.run(before)] if before else []
        if simulation.time < kick.time:
            simulation.run([kick.time])
        simulation.push(kick.object, impulse=kick.impulse)
    return torch.cat([*parts, *([simulation.run(left)] if left else [])])


class Compiled:
    """A simulation that is kept for the next push: with thousands of boxes it takes half a second.

    Another velocity or spin is set at its start, and gives the bits that a fresh one would. One
    thread at a time: the engine crashes when two step the same simulation.
    """

    def __init__(self, ready: Ready) -> None:
        self.ready, self.simulation = ready, started(ready)
        self._start, self._free = self.simulation.snapshot(), threading.Lock()

    def serves(self, ready: Ready) -> bool:
        """Whether only velocities and spins differ, and lengths of time."""
        was, now = self.ready, ready
        free = not any(body.track or body.asleep for body in (*was.bodies, *now.bodies))
        return (
            free
            and was.around is now.around
            and was.recipe.dynamics == now.recipe.dynamics != "paper"
            and all(map(_alike, was.bodies, now.bodies))
        )

    def followed(self, ready: Ready) -> tuple[Times, StateTensor]:
        """Times ``(T,)`` and states ``(T, K, 22)`` in the physics frame."""
        times = frame_times(ready.recipe.seconds, ready.recipe.fps)
        with self._free:
            self.simulation.restore(self._start)
            if ready is not self.ready:
                self._set_rates(ready.bodies)
            return times, played(self.simulation, times, ready.recipe.kicks)

    def _set_rates(self, bodies: Sequence[Body]) -> None:
        """Give the bodies their velocities and spins."""
        for i, (z, body) in enumerate(zip(self.simulation.states, bodies, strict=True)):
            x = State(body.z0.to(z))
            self.simulation.set(i, replace(z, v=x.v, w=x.w))


def _alike(a: Body, b: Body) -> bool:
    """Whether two bodies differ at most in velocity and spin."""
    rates = {"v": State(b.z0).v, "w": State(b.z0).w}
    same = a.shape is b.shape and a.friction == b.friction
    return same and torch.equal(replace(a.z0, **rates), b.z0)


def animation_of(ready: Ready, times: Times, states: StateTensor) -> Animation:
    """The states ``(T, K, 22)`` of the physics frame with the scene, as an animation."""
    recipe, physics = ready.recipe, ready.recipe.physics
    pushes = [filled(push, physics) for push in recipe.pushes]
    about = about_stage(ready.stage, pushes, ready.bodies, ready.around, physics)
    about = changed(about, seconds=recipe.seconds, fps=recipe.fps)
    in_scene = list(ready.stage.world.state_to_scene(states.transpose(0, 1).double()))
    return as_animation(ready.stage, ready.bodies, ready.around, times, in_scene, physics, about)


def tried(body: Body, velocity: Ray | None, spin: Ray | None) -> Body:
    """A body with another velocity and spin (about the axes x, y, z); what is None stays."""
    z0 = body.z0
    if velocity is not None:
        z0 = replace(z0, v=torch.as_tensor(velocity, dtype=z0.dtype))
    if spin is not None:
        own = rotations.conjugate(State(z0).q)
        z0 = replace(z0, w=rotations.rotate(own, torch.as_tensor(spin, dtype=z0.dtype)))
    return changed(body, state=z0)


def warm() -> None:
    """Compile what the first click and the first pull need."""
    ball = Body(make(p=(0.0, 1.0, 0.0), s=(0.2, 0.2, 0.2)), Shape.ball(0.2))
    coarse_path(ball, 0.1)
    Simulation([ball]).run([0.1])


def coarse_path(body: Body, seconds: float) -> Vec3:
    """A first guess of an object's way ``(24, 3)``, physics frame: a ball over a plain floor.

    A thing that starts below its ball's radius is led as if it stood on it.
    """
    x = State(body.z0)
    z0 = body.z0.clone()
    lift = max(float(x.s[1]) - float(x.p[1]), 0.0)
    State(z0).p[1] += lift
    ball = Body(z0, None, friction=body.friction)
    newton = Simulation([ball], choose("analytic", "rigid"), Surroundings((FLOOR,)), engine="paper")
    times = torch.linspace(0, seconds, COARSE, dtype=torch.float64)
    way = State(newton.run(times)[:, 0]).p.double().clone()
    way[:, 1] -= lift
    return way


def predicted_path(body: Body, seconds: float) -> Vec3:
    """The way ``(24, 3)`` of an object that follows what ContextNND makes of its start."""
    times = torch.linspace(0, seconds, COARSE, dtype=torch.float64)
    return State(predicted_paths(body.z0[None], times)[0]).p

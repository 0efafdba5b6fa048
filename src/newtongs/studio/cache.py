"""A compiled simulation reused for the next push, and fast approximate paths."""

import threading
from collections.abc import Sequence
from dataclasses import replace as changed

import torch

from ..base import rotations
from ..base.state import State, make, replace
from ..base.types import StateTensor, Times, Vec3
from ..dynamics.surfaces import FLOOR
from ..dynamics.variants import choose
from ..physics.bodies import Body, Surroundings
from ..physics.shapes import Shape
from ..physics.simulation import Simulation
from ..pipeline.prepare import Setup
from ..pipeline.run import frame_times
from ..pipeline.track import predicted_paths
from .pointing import Ray
from .recipe import Kick, Recipe

COARSE = 24  # frames of the path drawn while an arrow is dragged


def run_with_kicks(simulation: Simulation, times: Times, kicks: Sequence[Kick]) -> StateTensor:
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
    """A compiled simulation, kept for the next push: compiling thousands of boxes takes 0.5 s.

    A new velocity or spin is set at its start and gives the same bits as a new simulation. Only one
    thread may use it at a time: the engine crashes when two threads step the same simulation.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.simulation = setup, setup.simulation()
        self._start, self._free = self.simulation.snapshot(), threading.Lock()

    def can_run(self, setup: Setup) -> bool:
        """Whether a setup differs only in velocities, spins and duration."""
        was, now = self.setup, setup
        free = not any(body.track or body.asleep for body in (*was.bodies, *now.bodies))
        physics = was.spec.physics
        return (
            free
            and was.fixed is now.fixed
            and physics == now.spec.physics
            and physics.contact == "world"
            and all(map(_same_but_rates, was.bodies, now.bodies))
        )

    def run(self, setup: Setup, recipe: Recipe) -> tuple[Times, StateTensor]:
        """Simulate: times ``(T,)`` and states ``(T, K, 22)`` in the physics frame."""
        times = frame_times(recipe.seconds, recipe.fps)
        with self._free:
            self.simulation.restore(self._start)
            if setup is not self.setup:
                self._set_rates(setup.bodies)
            return times, run_with_kicks(self.simulation, times, recipe.kicks)

    def _set_rates(self, bodies: Sequence[Body]) -> None:
        """Set the velocities and spins of the bodies."""
        for i, (z, body) in enumerate(zip(self.simulation.states, bodies, strict=True)):
            x = State(body.z0.to(z))
            self.simulation.set(i, replace(z, v=x.v, w=x.w))


def _same_but_rates(a: Body, b: Body) -> bool:
    """Whether two bodies differ only in velocity and spin."""
    rates = {"v": State(b.z0).v, "w": State(b.z0).w}
    same = a.shape is b.shape and a.friction == b.friction
    return same and torch.equal(replace(a.z0, **rates), b.z0)


def with_rates(body: Body, velocity: Ray | None, spin: Ray | None) -> Body:
    """Change velocity and spin (about the axes x, y, z) of a body; None keeps the old value."""
    z0 = body.z0
    if velocity is not None:
        z0 = replace(z0, v=torch.as_tensor(velocity, dtype=z0.dtype))
    if spin is not None:
        to_body = rotations.conjugate(State(z0).q)
        z0 = replace(z0, w=rotations.rotate(to_body, torch.as_tensor(spin, dtype=z0.dtype)))
    return changed(body, state=z0)


def warm() -> None:
    """Compile ahead of time what the first click and the first drag need."""
    ball = Body(make(p=(0.0, 1.0, 0.0), s=(0.2, 0.2, 0.2)), Shape.ball(0.2))
    coarse_path(ball, 0.1)
    Simulation([ball]).run([0.1])


def coarse_path(body: Body, seconds: float) -> Vec3:
    """An approximate path ``(24, 3)`` in the physics frame: that of a ball over a plain floor.

    An object whose centre is lower than its ball's radius is treated as if the ball stood on the
    floor.
    """
    x = State(body.z0)
    z0 = body.z0.clone()
    lift = max(float(x.s[1]) - float(x.p[1]), 0.0)
    State(z0).p[1] += lift
    ball = Body(z0, None, friction=body.friction)
    model = choose("analytic", "rigid")
    simulation = Simulation([ball], model, Surroundings((FLOOR,)), engine="paper")
    times = torch.linspace(0, seconds, COARSE, dtype=torch.float64)
    path = State(simulation.run(times)[:, 0]).p.double().clone()
    path[:, 1] -= lift
    return path


def predicted_path(body: Body, seconds: float) -> Vec3:
    """The path ``(24, 3)`` that ContextNND predicts for an object."""
    times = torch.linspace(0, seconds, COARSE, dtype=torch.float64)
    return State(predicted_paths(body.z0[None], times)[0]).p

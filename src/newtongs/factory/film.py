"""One film as physics: from what was drawn to states, contacts and an animation."""

from dataclasses import dataclass
from dataclasses import replace as changed

import torch

from ..actors import make_bodies, raise_for_motions
from ..animator import about_stage, as_animation
from ..errors import InputError
from ..pushes import Physics, Push, filled
from ..scene.animation import Animation
from ..state import State
from ..types import StateTensor
from ..world.bodies import Body
from ..world.contacts import Contacts
from ..world.simulation import Simulation
from .casts import PHYSICS, Cast
from .contacts import floor_contacts, joined, motion_contacts
from .draws import Draw, pushes_of, times_of
from .spec import Spec

FARTHEST = 1e3  # physics units: what is farther off has left every scene


@dataclass(frozen=True, eq=False)
class Film:
    """What happens, before it is looked at."""

    draw: Draw
    cast: Cast
    pushes: tuple[Push, ...]
    states: StateTensor
    """``(T, K, 22)`` in the physics frame, float64."""
    contacts: Contacts
    animation: Animation

    @property
    def top_speed(self) -> float:
        """Fastest that any object is, metres a second."""
        return float(State(self.states).v.norm(dim=-1).max())


def make_film(cast: Cast, drawn: Draw, spec: Spec) -> Film:
    """Simulate; raises :class:`InputError` where that is refused."""
    physics = physics_of(cast, drawn)
    pushes = [filled(push, physics) for push in pushes_of(drawn, cast, spec)]
    stage = raise_for_motions(cast.stage, pushes, physics.seed)
    bodies = make_bodies(stage, pushes, physics, spec.seconds, None, cast.shapes)
    times = times_of(spec)
    states, contacts = simulate(cast, bodies, physics, drawn, spec)
    if not torch.isfinite(states).all() or State(states).p.abs().max() > FARTHEST:
        raise InputError("an object left all bounds")
    about = changed(
        about_stage(stage, pushes, bodies, cast.ground, physics), seconds=spec.seconds, fps=spec.fps
    )
    in_scene = list(stage.world.state_to_scene(states.transpose(0, 1)))
    animation = as_animation(stage, bodies, cast.ground, times, in_scene, physics, about)
    return Film(drawn, cast, tuple(pushes), states, contacts, animation)


def physics_of(cast: Cast, drawn: Draw) -> Physics:
    """The laws of a film's kind; the seed of a named motion decides how it goes."""
    physics = PHYSICS[drawn.kind]
    if drawn.kind != "motions":
        return physics
    world = any(shape is not None for shape in cast.shapes)
    return changed(physics, seed=drawn.motion_seed, contact="world" if world else "paper")


def simulate(
    cast: Cast, bodies: list[Body], physics: Physics, drawn: Draw, spec: Spec
) -> tuple[StateTensor, Contacts]:
    """States ``(T, K, 22)`` in the physics frame and who touched whom."""
    times, around = times_of(spec), cast.ground.surroundings
    if physics.contact == "world":
        simulation = Simulation(bodies, physics.model, around, record=True)
        states, found = simulation.run(times), simulation.contacts
    else:
        simulation = Simulation(bodies, physics.model, around, engine="paper")
        states, found = simulation.run(times), Contacts.none()
        if drawn.motion is None:
            found = floor_contacts(physics.model, bodies, around.surfaces, times)
    if drawn.motion is not None:
        led = [
            motion_contacts(drawn.motion, body, i, physics.seed, spec.seconds, spec.fps)
            for i, body in enumerate(bodies)
            if body.track is not None
        ]
        found = joined(found, *led)
    return states.double(), found

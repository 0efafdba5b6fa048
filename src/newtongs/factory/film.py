"""One film as physics: from what was drawn to states, contacts and an animation."""

from dataclasses import dataclass
from dataclasses import replace as changed

import torch

from ..base.errors import InputError
from ..base.state import State
from ..base.types import StateTensor
from ..physics.contacts import Contacts
from ..pipeline.prepare import Setup
from ..pipeline.spec import ObjectSpec, Physics
from ..scene.animation import Animation
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
    pushes: tuple[ObjectSpec, ...]
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
    setup = cast.setup.with_objects(pushes_of(drawn, cast, spec), physics=physics)
    times = times_of(spec)
    states, contacts = simulate(setup, drawn, spec)
    if not torch.isfinite(states).all() or State(states).p.abs().max() > FARTHEST:
        raise InputError("an object left all bounds")
    about = changed(setup.about(), seconds=spec.seconds, fps=spec.fps)
    animation = setup.animation(times, states, about=about)
    return Film(drawn, cast, setup.spec.objects, states, contacts, animation)


def physics_of(cast: Cast, drawn: Draw) -> Physics:
    """The laws of a film's kind; the seed of a named motion decides how it goes."""
    physics = PHYSICS[drawn.kind]
    if drawn.kind != "motions":
        return physics
    world = any(body.shape is not None for body in cast.setup.bodies)
    return changed(physics, seed=drawn.motion_seed, contact="world" if world else "paper")


def simulate(setup: Setup, drawn: Draw, spec: Spec) -> tuple[StateTensor, Contacts]:
    """States ``(T, K, 22)`` in the physics frame and who touched whom."""
    times, physics, bodies = times_of(spec), setup.spec.physics, setup.bodies
    world = physics.contact == "world"
    simulation = setup.simulation(record=world)
    states = simulation.run(times)
    found = simulation.contacts if world else Contacts.none()
    if not world and drawn.motion is None:
        surfaces = setup.fixed.surroundings.surfaces
        found = floor_contacts(physics.model, bodies, surfaces, times)
    if drawn.motion is not None:
        led = [
            motion_contacts(drawn.motion, body, i, physics.seed, spec.seconds, spec.fps)
            for i, body in enumerate(bodies)
            if body.track is not None
        ]
        found = joined(found, *led)
    return states.double(), found

"""Simulate one film: from its random choices to states, contacts and an animation."""

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
from .draws import FilmDraw, pushes_of, times_of
from .spec import Spec

FARTHEST = 1e3  # physics units: an object farther from the origin has left the scene


@dataclass(frozen=True, eq=False)
class Film:
    """A simulated film, not yet rendered."""

    draw: FilmDraw
    cast: Cast
    pushes: tuple[ObjectSpec, ...]
    """Pushes and materials of the pushed objects."""
    states: StateTensor
    """``(T, K, 22)`` in the physics frame, float64."""
    contacts: Contacts
    animation: Animation

    @property
    def top_speed(self) -> float:
        """The highest speed of any object, metres per second."""
        return float(State(self.states).v.norm(dim=-1).max())


def make_film(cast: Cast, drawn: FilmDraw, spec: Spec) -> Film:
    """Simulate a film; raises :class:`InputError` if its push cannot be simulated."""
    physics = physics_of(cast, drawn)
    setup = cast.setup.with_objects(pushes_of(drawn, cast, spec), physics=physics)
    times = times_of(spec)
    states, contacts = simulate(setup, drawn, spec)
    if not torch.isfinite(states).all() or State(states).p.abs().max() > FARTHEST:
        raise InputError("an object flew out of the scene")
    about = changed(setup.about(), seconds=spec.seconds, fps=spec.fps)
    animation = setup.animation(times, states, about=about)
    return Film(drawn, cast, setup.spec.objects, states, contacts, animation)


def physics_of(cast: Cast, drawn: FilmDraw) -> Physics:
    """The physics of the film's kind of dynamics; a named motion also gets its own seed."""
    physics = PHYSICS[drawn.kind]
    if drawn.kind != "motions":
        return physics
    world = any(body.shape is not None for body in cast.setup.bodies)
    return changed(physics, seed=drawn.motion_seed, contact="world" if world else "paper")


def simulate(setup: Setup, drawn: FilmDraw, spec: Spec) -> tuple[StateTensor, Contacts]:
    """States ``(T, K, 22)`` in the physics frame, and the contacts.

    MuJoCo records its own contacts. Those of the paper's floor and of named motions are derived.
    """
    times, physics, bodies = times_of(spec), setup.spec.physics, setup.bodies
    world = physics.contact == "world"
    simulation = setup.simulation(record=world)
    states = simulation.run(times)
    found = simulation.contacts if world else Contacts.none()
    if not world and drawn.motion is None:
        surfaces = setup.fixed.surroundings.surfaces
        found = floor_contacts(physics.model, bodies, surfaces, times)
    if drawn.motion is not None:
        followed = [
            motion_contacts(drawn.motion, body, i, physics.seed, spec.seconds, spec.fps)
            for i, body in enumerate(bodies)
            if body.track is not None
        ]
        found = joined(found, *followed)
    return states.double(), found

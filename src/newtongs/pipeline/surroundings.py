"""The static surroundings: floor, planes, boxes, and the solid scene with a floor below it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..base.errors import InputError
from ..base.state import State
from ..dynamics.surfaces import FLOOR, Plane, Surface
from ..physics.bodies import Body, Surroundings
from ..physics.colliders import Collider, collider
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.world_frame import UP
from .pick import Layout
from .spec import SceneSpec


class Fixed(NamedTuple):
    """The static surroundings and how they were made."""

    surroundings: Surroundings
    solid: Collider | None
    lower: float | None
    """Height of a floor assumed below the solid scene, physics units."""


def make_surroundings(layout: Layout, bodies: Sequence[Body], spec: SceneSpec) -> Fixed:
    """Make floor, planes and boxes; with contact "world" also the solid scene, a floor below it."""
    extra: tuple[Surface, ...] = (*spec.planes, *spec.boxes)
    if spec.physics.contact == "paper":
        contact = getattr(getattr(spec.physics.model, "config", None), "contact", True)
        return Fixed(Surroundings(((FLOOR,) if contact else ()) + extra), None, None)
    rest = static_rest(layout)
    if not spec.physics.solid or not len(rest):
        return Fixed(Surroundings((FLOOR, *extra)), None, None)
    solid = solid_rest(layout, rest, bodies)
    if layout.endless or not len(solid.boxes):
        return Fixed(Surroundings((FLOOR, *extra), solid.boxes), solid, None)
    lower = min(0.0, solid.bottom)
    surfaces = (FLOOR if lower == 0 else Plane(UP, lower), *extra)
    return Fixed(Surroundings(surfaces, solid.boxes), solid, lower)


def static_rest(layout: Layout) -> GaussianScene:
    """The Gaussians that do not move, from frame 1 on: with the holes under objects repaired.

    View-dependent colour is dropped to keep the copy small.
    """
    return layout.scene.plain[(layout.scene.ids == BACKGROUND) & layout.ever_after]


def solid_rest(
    layout: Layout, rest: GaussianScene, bodies: Sequence[Body], *, cell: float | None = None
) -> Collider:
    """The static Gaussians as boxes, cleared around the objects; ``cell`` in physics units."""
    objects = [
        (body.shape, State(body.z0).p.double().numpy()) for body in bodies if body.shape is not None
    ]
    if not objects:
        raise InputError("solid boxes leave room for shapes, which only contact 'world' has")
    sizes = [shape.size for shape, _ in objects[: layout.pushed]]
    return collider(rest, layout.frame, size=float(np.median(sizes)), cell=cell, objects=objects)

"""What does not move: floor, planes, boxes, and the solid scene with a floor below it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .dynamics.surfaces import FLOOR, Box, Plane, Surface
from .pushes import Physics
from .scene.gaussians import BACKGROUND, GaussianScene
from .stage import UP, Stage
from .state import State
from .world.bodies import Body
from .world.colliders import Collider, collider
from .world.surroundings import Surroundings


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
    """The Gaussians that do not move, without view-dependent colour: a copy must not be large.

    They are those that are seen once the objects have moved: the holes under them are mended.
    """
    plain = stage.scene.replace(sh=stage.scene.sh[:, :1])
    return plain[(stage.scene.ids == BACKGROUND) & stage.ever_after]


def solid_rest(
    stage: Stage, rest: GaussianScene, bodies: Sequence[Body], *, cell: float | None = None
) -> Collider:
    """The static Gaussians as boxes, with room for the objects; ``cell`` in physics units."""
    things = [
        (body.shape, State(body.z0).p.double().numpy()) for body in bodies if body.shape is not None
    ]
    sizes = [shape.size for shape, _ in things[: stage.count]]
    return collider(rest, stage.world, size=float(np.median(sizes)), cell=cell, objects=things)

"""The static surroundings: floor, planes, boxes, and the solid scene with a floor below it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..base.errors import InputError
from ..base.state import State
from ..dynamics.surfaces import FLOOR, Plane, Surface
from ..physics.bodies import Body, Surroundings
from ..physics.colliders import Collider, collider
from ..scene.gaussians import GaussianScene
from ..scene.world_frame import UP, WorldFrame
from ..segment.floor.finding import FloorPlane
from .pick import Layout
from .source import Source, on_cpu
from .spec import SceneSpec

CELLS = 200  # along the longest side of a whole scene
OBJECT_CELLS = 32  # along an object, as around the objects that animate moves
FAINT, SAMPLE = 0.1, 100_000  # opacity and number of the Gaussians whose extent is measured


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
        floor = (FLOOR,) if spec.physics.has_floor else ()
        return Fixed(Surroundings((*floor, *extra)), None, None)
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
    return layout.scene.plain[layout.static]


def solid_scene(
    source: Source, floor: FloorPlane, cell: float | None = None
) -> tuple[Collider, WorldFrame]:
    """A whole scene as boxes, in a frame with the scene's unit; ``cell`` in scene units."""
    scene, frame = on_cpu(source.scene), WorldFrame.of_floor(floor.up, floor.height)
    x = scene.means[scene.opacities > FAINT]
    x = x if len(x) else scene.means
    ends = x[:: max(1, len(x) // SAMPLE)].quantile(x.new_tensor([0.01, 0.99]), dim=0)
    cell = cell or float((ends[1] - ends[0]).max()) / CELLS
    return collider(scene, frame, size=OBJECT_CELLS * cell, cell=cell), frame


def solid_rest(
    layout: Layout, rest: GaussianScene, bodies: Sequence[Body], *, cell: float | None = None
) -> Collider:
    """The static Gaussians as boxes, cleared around the objects; ``cell`` in physics units."""
    objects = [
        (body.shape, State(body.z0).p.double().numpy()) for body in bodies if body.shape is not None
    ]
    if not objects:
        raise InputError("solid boxes need object shapes, which exist only with contact 'world'")
    sizes = [shape.size for shape, _ in objects[: layout.pushed]]
    return collider(
        rest, layout.frame, size=float(np.median(sizes)), cell=cell, objects=objects,
        pushed=layout.pushed,
    )  # fmt: skip

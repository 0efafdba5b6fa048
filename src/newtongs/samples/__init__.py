"""The ten object-scene templates of Gaussian-32, made of Gaussians by code alone.

``template("sunny_park")`` gives an object of 1,536 and a static background of 3,200 Gaussians.

**Coordinates.** An object is modelled around the origin with a height of exactly one, y from -0.5
to 0.5. A state ``Z`` places the point ``x`` of it at ``p + R(q) (s * x)``: ``p`` is the middle of
the object's box, ``s_y`` its height, and an object whose ``p_y = 0.5 s_y`` stands on the floor.
Across, each object has its own proportions: the cube is as wide as ``s``, the car longer, the
bottle slimmer. The background is in world coordinates, with the floor at y = 0.

:data:`SCENES` has the templates and further scenes, which are no part of Gaussian-32.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch

from ..base.errors import InputError, unknown_name
from ..scene.gaussians import GaussianScene, join
from . import backgrounds, bowling, kitchen_table
from .objects import OBJECT_GAUSSIANS, OBJECTS
from .scenery import BACKGROUND_GAUSSIANS
from .surfaces import Color

WHITE: Color = (1.0, 1.0, 1.0)

__all__ = [
    "BACKGROUND_GAUSSIANS",
    "OBJECT_GAUSSIANS",
    "SCENES",
    "TEMPLATES",
    "NamedScene",
    "Template",
    "backdrop",
    "named_scene",
    "names",
    "select",
    "template",
]


@dataclass(frozen=True)
class Template:
    """An object in a scene."""

    scene_id: str
    """Name of the scene and of the template."""
    object_name: str
    """Name of the object."""
    thing: str
    """The object in words, as the paper's table has it."""
    place: str
    """The scene in words, as the paper's table has it."""
    color: Color
    """What a renderer shows where no Gaussian is."""
    target_height: float
    """How far above the mean position of a trajectory the cameras look."""

    @property
    def index(self) -> int:
        """Position in the paper's table, 0 to 9."""
        return list(TEMPLATES).index(self.scene_id)

    @property
    def object(self) -> GaussianScene:
        """The object's 1,536 Gaussians around the origin, of height one."""
        return _object(self.object_name)

    @property
    def background(self) -> GaussianScene:
        """The scene's 3,200 static Gaussians in world coordinates."""
        return _background(self.scene_id)

    def scene(self, *, height: float = 0.9) -> GaussianScene:
        """Object 0, standing on the floor of its background, as one set of Gaussians."""
        thing = self.object
        placed = thing.replace(
            means=height * thing.means + thing.means.new_tensor([0.0, 0.5 * height, 0.0]),
            log_scales=thing.log_scales + math.log(height),
            ids=torch.zeros_like(thing.ids),
        )
        return join(placed, self.background)


@cache
def _object(name: str) -> GaussianScene:
    return OBJECTS[name]()


@cache
def _background(name: str) -> GaussianScene:
    made: GaussianScene = getattr(backgrounds, name)()
    return made


TEMPLATES = {
    t.scene_id: t
    for t in (
        Template("living_room_table", "red_toy_car", "red toy car",
                 "wooden table in a bright living room", (0.90, 0.82, 0.72), 0.15),
        Template("studio_tabletop", "blue_ceramic_mug", "blue ceramic mug",
                 "tabletop under soft studio lighting", (0.80, 0.79, 0.82), 0.15),
        Template("sunny_park", "black_white_soccer_ball", "black-and-white soccer ball",
                 "short grass in a sunny park", (0.55, 0.78, 0.95), 0.20),
        Template("kitchen_counter", "green_glass_bottle", "green glass bottle",
                 "counter with a warm wall", (0.93, 0.80, 0.66), 0.15),
        Template("orbit_space", "cratered_moon_sphere", "cratered moon sphere",
                 "starry space scene", (0.02, 0.025, 0.06), 0.0),
        Template("playroom_floor", "red_cube", "red cube",
                 "simple playroom floor", (0.84, 0.87, 0.84), 0.15),
        Template("desk_blue_sphere", "blue_sphere", "blue sphere",
                 "gray desktop", (0.74, 0.75, 0.78), 0.15),
        Template("construction_floor", "yellow_cone", "yellow cone",
                 "simple concrete floor", (0.72, 0.77, 0.80), 0.15),
        Template("lab_table_cylinder", "purple_cylinder", "purple cylinder",
                 "clean laboratory table", (0.93, 0.96, 0.97), 0.15),
        Template("display_orange_pyramid", "orange_pyramid", "orange pyramid",
                 "simple display surface", (0.40, 0.39, 0.44), 0.15),
    )
}  # fmt: skip


class NamedScene(Protocol):
    """A scene that can be asked for by name. Its objects are marked and stand on y = 0."""

    @property
    def thing(self) -> str:
        """What can move, in words."""

    @property
    def color(self) -> Color:
        """What a renderer shows where no Gaussian is."""

    def scene(self) -> GaussianScene:
        """All its Gaussians."""


@dataclass(frozen=True)
class MadeScene:
    """A scene of its own, which no template describes."""

    thing: str
    color: Color
    scene: Callable[[], GaussianScene]


SCENES: Mapping[str, NamedScene] = {
    **TEMPLATES,
    "bowling": MadeScene("bowling ball and ten pins", bowling.DUSK, bowling.bowling),
    "kitchen_table": MadeScene(
        "cereal box, tin, mug and orange", kitchen_table.PLASTER, kitchen_table.kitchen_table
    ),
}


def named_scene(name: str) -> NamedScene:
    """The scene called ``name``; for a template, the object's name does as well."""
    by_object = {t.object_name: t for t in TEMPLATES.values()}
    found = SCENES.get(name) or by_object.get(name)
    if found is None:
        raise unknown_name("scene", name, [*SCENES, *by_object])
    return found


def backdrop(scene: str) -> Color:
    """The background colour of a scene: that of a built-in one, white for a file."""
    return SCENES[scene].color if scene in SCENES else WHITE


def names() -> tuple[str, ...]:
    """All scene identifiers in the paper's order."""
    return tuple(TEMPLATES)


def template(scene_id: str) -> Template:
    """The template called ``scene_id``; the object's name does as well."""
    by_object = {t.object_name: t for t in TEMPLATES.values()}
    found = TEMPLATES.get(scene_id) or by_object.get(scene_id)
    if found is None:
        raise unknown_name("template", scene_id, [*TEMPLATES, *by_object])
    return found


def select(wanted: Sequence[str] | None) -> list[Template]:
    """The templates named, in the paper's order; all ten for None."""
    if wanted is None:
        return list(TEMPLATES.values())
    if not wanted:
        raise InputError("no template given; name at least one, or leave the option out for all 10")
    names = [wanted] if isinstance(wanted, str) else wanted
    chosen = {template(name).scene_id for name in names}
    return [t for t in TEMPLATES.values() if t.scene_id in chosen]

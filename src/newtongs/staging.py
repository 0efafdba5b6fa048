"""Where the objects of a stage are: in which scene, on what; and how large a unit is there.

Physics knows one unit, in which gravity is 9.81: call it a metre. A capture has none. Where it is
not said, the scene's main object, the one that is taken when none is named, is made half a unit
large; so a push means the same throw whichever objects are named, and places have the same numbers.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed

import torch

from .errors import InputError
from .scene.find.floor import Floor, find_floor
from .scene.find.places import share_inside, support_height
from .scene.gaussians import BACKGROUND, GaussianScene, join
from .scene.placing import extent, moved, set_into
from .scene.world_frame import WorldFrame
from .stage import Stage, lifted_scale, main_object, seen_later

SIZE = 0.27  # lifted scale in physics units: the middle of the range that the model was trained on
ODD = 3.0  # times larger or smaller than the main object: then an object's own size makes the unit
SUNK = 0.25  # part of its height an object may reach below the floor found, which then gives way
STAGE_SIZE = 0.9  # of an object set into one of our own scenes: theirs are that large
INSIDE = 0.01  # share of an object inside other things, from which a word is said


@dataclass(frozen=True)
class Spot:
    """Where and how an object is set into another scene."""

    at: Sequence[float] | None = None
    """Along x and z, physics units. Default: the scene's middle."""
    turn: float = 0.0
    """Degrees about up, from z towards x."""
    height: float | None = None
    """Of the object, in the scene's own units."""
    size: float | None = None
    """Or its largest extent. Default: a tenth of the scene's width."""
    lift: float = 1.0
    """Gap between it and what is below, in its own heights."""

    def __post_init__(self) -> None:
        places = () if self.at is None else tuple(self.at)
        if self.at is not None and len(places) != 2:
            raise InputError(f"at: expected two numbers, x and z, got {len(places)}")
        if not all(map(math.isfinite, (*places, self.turn, self.lift))) or self.lift < 0:
            raise InputError(
                f"at, turn and lift: expected numbers, and lift not below 0, got {self.at}, "
                f"{self.turn:g} and {self.lift:g}"
            )


def move_stage(
    stage: Stage,
    background: GaussianScene,
    ground: WorldFrame | None,
    spot: Spot,
    *,
    meters_per_unit: float | None = None,
) -> Stage:
    """The objects, without their surroundings, above what there is in another scene."""
    floor = find_floor(background, up=None if ground is None else ground.up)
    if ground is None and floor.kind == "virtual":
        raise InputError(
            "no floor is to be seen in the background; say where it is: --ground UX UY UZ HEIGHT "
            "(ground=WorldFrame.of_floor(up, height)), or name one of our own scenes"
        )
    how = "found" if ground is None else "known"
    doubt = floor.doubt.split("; give")[0] if ground is None else ""
    floor = changed(floor, doubt=doubt and f"background: {doubt}; give --ground UX UY UZ HEIGHT")
    ground = ground or WorldFrame.of_floor(floor.up, floor.height)
    main = main_object(background, floor.carrying)
    reference = None if main is None else lifted_scale(background[main.mask])
    marked = background.ids != BACKGROUND
    if marked.any() and not marked.all():
        background = background[~marked]  # its own object makes room
    stage = seen_later(stage)
    things = stage.scene[stage.scene.ids != BACKGROUND]
    sized = set_into(
        things,
        stage.world.up,
        background,
        ground,
        height=spot.height,
        size=spot.size,
        turn=spot.turn,
    )
    scale = meters_per_unit or unit(lifted_scale(sized.object(0)), reference)
    placed = _on_support(_shifted(sized, ground, scale, spot.at), background, ground, spot.lift)
    plain = background.replace(ids=torch.full_like(background.ids, BACKGROUND))
    return changed(
        stage, scene=join(placed, plain), world=ground, floor=floor, floor_is=how, moved=True,
        reference=reference,
    )  # fmt: skip


def _shifted(
    things: GaussianScene, ground: WorldFrame, scale: float, at: Sequence[float] | None
) -> GaussianScene:
    """The objects with their middle at ``at``, physics units along x and z."""
    if at is None:
        return things
    middle = ground.to_physics(things.means.double().mean(0))
    x, z = (float(v) / scale for v in at)
    way = torch.tensor([x - float(middle[0]), 0.0, z - float(middle[2])], dtype=torch.float64)
    return moved(things, shift=ground.to_scene(way) - ground.to_scene(torch.zeros(3).double()))


def _on_support(
    things: GaussianScene, background: GaussianScene, ground: WorldFrame, lift: float
) -> GaussianScene:
    """The objects above what is below them, and a word if they are inside something there."""
    low, high = extent(things, ground.up)
    support = support_height(things, background, ground)
    rise = support + lift * (high - low) - low
    placed = moved(things, shift=(rise * ground.up).float())
    share = share_inside(placed, background, ground)
    if share > INSIDE:
        warnings.warn(
            f"{share:.0%} of the object is inside other things where it starts; move it with "
            "--at X Z, or make it smaller with --height",
            stacklevel=2,
        )
    return placed


def unit(own: float, reference: float | None) -> float:
    """Physics units in a scene unit, from lifted scales: the first object's, the main object's."""
    if reference is None or not 1 / ODD <= own / reference <= ODD:
        reference = own
    return SIZE / reference


def settle(
    stage: Stage,
    height: float | None,
    *,
    rescale: bool = True,
    meters_per_unit: float | None = None,
) -> Stage:
    """The physics frame: the floor given or found, the main object as large as the model knows.

    ``height`` is the floor's as it was given, in scene units. Without ``rescale`` a scene unit is a
    physics unit, as in the paper; with ``meters_per_unit`` it is as many.
    """
    pushed = (stage.scene.ids != BACKGROUND) & (stage.scene.ids < stage.count)
    low, high = extent(stage.scene[pushed], stage.world.up)
    size, found = high - low, stage.world.floor
    how, endless = stage.floor_is, False
    if height is not None:
        floor, how, endless = height, "as given", True
    elif how == "known":
        floor = found
    elif stage.floor.kind == "virtual" and stage.alone:
        floor, how, endless = low - size, "assumed, the object's height below it", True
    else:
        virtual = stage.floor.kind == "virtual" and not stage.moved
        how, endless = ("assumed", stage.floor.plinth is None) if virtual else ("found", False)
        floor = min(found, low) if low > found - SUNK * size else found
    if low < floor - SUNK * size and (endless or how == "found"):
        raise InputError(
            f"the object reaches {floor - low:.3g} below the floor at {floor:.3g} (scene units "
            f"along up {[round(x, 3) for x in stage.world.up.tolist()]}); "
            "give --floor and --up, or select less of it"
        )
    scale = meters_per_unit or 1.0
    if rescale and meters_per_unit is None:
        scale = unit(lifted_scale(stage.scene.object(0)), stage.reference)
    world = WorldFrame.of_floor(stage.world.up, floor, scale=scale)
    return changed(stage, world=world, floor_is=how, endless=endless)


def frame_of(scene: GaussianScene, floor: Floor) -> WorldFrame:
    """The physics frame of a scene as :func:`settle` has it, where no object is odd.

    Within a percent or so: there the main object has been completed and cut.
    """
    main = main_object(scene, floor.carrying)
    scale = 1.0 if main is None else SIZE / lifted_scale(scene[main.mask])
    return WorldFrame.of_floor(floor.up, floor.height, scale=scale)

"""The request to the pipeline: which objects, how they start, what they are made of, and where.

Velocities are in the physics frame: x to the right, y up, z towards the default camera. Gravity is
9.81 downwards and the object is about half a unit large; a physics unit is called a metre.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as changed
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from .. import motions
from ..base.errors import InputError, argument, unknown_name
from ..base.state import DEFAULT_MATERIAL
from ..dynamics.analytic import G
from ..dynamics.interface import Dynamics
from ..dynamics.surfaces import Box, Plane
from ..dynamics.variants import Scale, Variant, model_of
from ..physics.bodies import FRICTION
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene

Vector: TypeAlias = tuple[float, float, float]

PREDICTED = "context"  # the value of ``dynamics`` that is a predictor, not an equation of motion
RESTITUTION = 0.3  # default; the paper's is 0.75
HEAVIEST = 1e9  # mass; beyond it, float32 loses light objects next to heavy ones
FASTEST = 1000.0  # velocity and spin; beyond it, nothing is visible
LONGEST = 600.0  # seconds
STRONGEST = 100.0  # gravity
NEWTONIAN = ("analytic", "structured")  # dynamics that take any gravity
MOST_FPS = 1000.0
MOST_COPIES = 50  # objects and copies together, where there are copies
SLOWEST = 20.0  # times slower than real time
ARGUMENTS = (  # of animate besides the fields of an object, for errors
    "objects", "copies", "place", "physics", "seconds", "fps", "slow", "goal", "loose", "complete",
    "backs", "solids", "up", "floor_height", "meters_per_unit", "cameras", "show_floor", "shadow",
    "namer", "progress",
)  # fmt: skip


class ObjectFields(TypedDict, total=False):
    """The fields of :class:`ObjectSpec` as keyword arguments."""

    select: str
    velocity: Vector | Sequence[float] | None
    spin: Vector | Sequence[float] | None
    mass: float
    restitution: float | None
    friction: float
    attenuation: float
    motion: str | None


@dataclass(frozen=True)
class ObjectSpec:
    """One object: which Gaussians it is, how it starts, and what it is made of."""

    select: str = "auto"
    """Which Gaussians: auto, all, cluster:ID, id:K, box:..., sphere:..., circle:..., masks:DIR, or
    a typed selector from :mod:`newtongs.segment.selectors`; with a namer also words."""
    velocity: Vector | Sequence[float] | None = None
    """Initial velocity, physics units per second. Default: a toss, or a drop if the object is in
    the air; zero with :data:`PAPER`."""
    spin: Vector | Sequence[float] | None = None
    """Initial angular velocity about the axes x, y (up) and z, rad/s."""
    mass: float = 1.0
    """Mass. Heavier objects push harder and are slowed less by air drag."""
    restitution: float | None = None
    """Bounciness: fraction of the speed kept in a bounce, 0 to 1. Default: 0.3; with :data:`PAPER`
    0.75."""
    friction: float = FRICTION
    """Coulomb friction coefficient: 0.1 is ice, 0.5 wood, 1 rubber. The paper's engine ignores
    it."""
    attenuation: float = 0.2
    """Fraction of the tangential speed lost in a bounce, 0 to 1; only in the paper's engine."""
    motion: str | None = None
    """Follow this motion of State-32 instead of starting with a velocity and a spin."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "select", str(self.select))  # a typed selector as its text
        for name in ("velocity", "spin"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, three_numbers(name, value))
        for name in ("restitution", "attenuation"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"{name}: expected a number between 0 and 1, got {value}")
        if not 0 <= self.friction <= 10:
            raise InputError(f"friction: expected a number between 0 and 10, got {self.friction}")
        if not 0 < self.mass <= HEAVIEST:
            raise InputError(f"mass: expected above 0 and up to {HEAVIEST:g}, got {self.mass}")
        if self.motion is not None:
            motions.get(self.motion)
            if self.velocity is not None or self.spin is not None:
                raise InputError("a motion sets velocity and spin itself; give one or the other")


def single_object(**fields_given: Any) -> ObjectSpec:
    """The object described by arguments of :func:`newtongs.animate`; unknown names are refused."""
    known = {f.name for f in fields(ObjectSpec)}
    for name in fields_given:
        if name not in known:
            raise unknown_name("argument", name, (*known, *ARGUMENTS))
    return ObjectSpec(**fields_given)


def three_numbers(name: str, value: Sequence[float]) -> Vector:
    """Check that a velocity or spin is three finite numbers of a sensible size."""
    try:
        numbers = tuple(float(x) for x in value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected three numbers x y z, got {value!r}") from None
    if len(numbers) != 3:
        raise InputError(f"{name}: expected three numbers x y z, got {len(numbers)}")
    if not all(abs(x) <= FASTEST for x in numbers):
        raise InputError(f"{name}: expected numbers up to {FASTEST:g} in size, got {numbers}")
    x, y, z = numbers
    return x, y, z


@dataclass(frozen=True)
class Physics:
    """How objects move."""

    dynamics: Variant | Dynamics | Path | str = "analytic"
    """analytic: Newtonian terms only. learned: with the trained networks, which add the average
    drift of the objects of State-32. structured: trained scalars, networks zeroed. context: pushed
    objects follow ContextNND's prediction from their first state and pass through obstacles; other
    objects move by Newtonian terms. Or a checkpoint written by ``newtongs train``, or your own
    model."""
    scale: Scale = "rigid"
    """rigid: sizes are constant. free: the paper's equation, which pulls every size towards one;
    needs ``contact="paper"``."""
    contact: Literal["world", "paper"] = "world"
    """world: true shapes with friction; objects collide with each other and the scene (MuJoCo).
    paper: the paper's floor event, for a ball of radius |s_y|."""
    seed: int = 7301
    """Training seed of the model: 7301, 7302 or 7303."""
    solid: bool = True
    """Whether objects collide with the static scene (only with contact="world")."""
    literal: bool = False
    """The paper's exact inference: sizes as in the scene, zero velocity and spin unless given,
    restitution 0.75, and the affine map of its code."""
    gravity: float = G
    """Gravity, physics units per second squared, downwards. Only Newtonian terms take another one:
    dynamics "analytic" and "structured". Named motions keep their paths."""

    def __post_init__(self) -> None:
        for name, kinds in (("scale", ("rigid", "free")), ("contact", ("world", "paper"))):
            if getattr(self, name) not in kinds:
                raise unknown_name(name, getattr(self, name), kinds)
        if isinstance(self.dynamics, str) and not self.dynamics.endswith(".safetensors"):
            known = (*get_args(Variant), PREDICTED)
            if self.dynamics not in known:
                raise unknown_name("dynamics", self.dynamics, known)
        if not 0 <= self.gravity <= STRONGEST:
            raise InputError(
                f"{argument('gravity')}: expected 0 to {STRONGEST:g}, got {self.gravity:g}"
            )
        if self.gravity != G and (self.literal or self.dynamics not in NEWTONIAN):
            raise InputError(
                f"{argument('gravity', f'{self.gravity:g}')}: a gravity other than {G:g} "
                f"requires analytic or structured dynamics, got {self.name}; use one of them, or "
                "leave the gravity out"
            )
        if self.scale == "free" and self.contact == "world":
            raise InputError(
                "scale 'free' changes sizes, which contact 'world' cannot simulate; "
                "use contact 'paper', or scale 'rigid'"
            )

    @cached_property
    def model(self) -> Dynamics:
        """The model named by ``dynamics``."""
        dynamics = "analytic" if self.predicted else self.dynamics
        return model_of(dynamics, self.scale, seed=self.seed, gravity=self.gravity)

    @property
    def has_floor(self) -> bool:
        """Whether objects meet the floor: a model without the floor event falls through it."""
        if self.contact == "world":
            return True
        return bool(getattr(getattr(self.model, "config", None), "contact", True))

    @property
    def predicted(self) -> bool:
        """Whether pushed objects follow a prediction of ContextNND."""
        return isinstance(self.dynamics, str) and self.dynamics == PREDICTED

    @property
    def name(self) -> str:
        """Name of the dynamics."""
        known = isinstance(self.dynamics, str | Path)
        return str(self.dynamics) if known else type(self.dynamics).__name__


PAPER = Physics("learned", "free", "paper", literal=True)


class FloorOrigin(StrEnum):
    """Where the floor of the physics frame comes from; the value is what the commands print."""

    FOUND = "found"
    KNOWN = "known"
    """The floor of a built-in scene, or given for a background."""
    GIVEN = "as given"
    ASSUMED = "assumed"
    """The scene has no visible floor; a virtual one lies under it."""
    BELOW_OBJECT = "assumed, half the object's height below it"
    """Likewise, and the scene contains only the object."""

    @property
    def assumed(self) -> bool:
        """Whether the scene has no visible floor."""
        return self in (FloorOrigin.ASSUMED, FloorOrigin.BELOW_OBJECT)


class UnitOrigin(StrEnum):
    """Where the scale of the physics frame comes from."""

    OBJECT = "object"
    """The scene's main object is taken to be half a metre large."""
    ROOM = "room"
    """Ceiling and furniture have their usual heights, see :mod:`newtongs.segment.metres`."""
    GIVEN = "given"
    SCENE = "scene"
    """A physics unit is a scene unit, as in the paper."""


@dataclass(frozen=True, eq=False)
class Place:
    """Another scene to place the objects in, and where."""

    scene: GaussianScene | Path | str
    """The Gaussians, a splat file, or the name of a built-in scene."""
    at: Sequence[float] | None = None
    """Position x and z, physics units, as `inspect` draws them. Default: the scene's middle."""
    turn: float = 0.0
    """Rotation about up in degrees, from z towards x."""
    height: float | None = None
    """Height of the object, in units of this scene. Default: such that its largest extent is a
    tenth of the scene's width."""
    lift: float = 1.0
    """Gap between the object and its support, as a multiple of the object's height; 0 stands."""
    up: Sequence[float] | None = None
    """Up direction of the scene ``(3,)``. Default: estimated."""
    floor_height: float | None = None
    """Height of the floor along ``up``, in units of this scene; needs ``up``."""
    axes: str | None = None
    """Where +x, +y and +z of the file point, such as "RDF". Default: the format's convention."""

    def __post_init__(self) -> None:
        places = () if self.at is None else tuple(self.at)
        if self.at is not None and len(places) != 2:
            raise InputError(f"at: expected two numbers, x and z, got {len(places)}")
        if not all(map(math.isfinite, (*places, self.turn, self.lift))) or self.lift < 0:
            raise InputError(
                f"at, turn and lift: expected finite numbers, lift at least 0, got {self.at}, "
                f"{self.turn:g} and {self.lift:g}"
            )
        if (self.up is None) != (self.floor_height is None):
            raise InputError("up and floor_height of a place go together; give both or neither")


@dataclass(frozen=True, eq=False)
class SceneSpec:
    """Everything :func:`newtongs.pipeline.prepare.prepare` needs besides the scene."""

    objects: tuple[ObjectSpec, ...] = (ObjectSpec(),)
    """The objects to push."""
    physics: Physics = Physics()
    seconds: float = 2.0
    """Length of named motions and predictions."""
    up: Sequence[float] | None = None
    """The scene's up direction ``(3,)``. Default: estimated."""
    floor_height: float | None = None
    """Height of the scene's floor along ``up``, in scene units. Default: estimated; an object
    without surroundings starts its own height above an assumed floor."""
    meters_per_unit: float | None = None
    """Metres per unit of the scene, or of the place. Default: as a room tells them, or else such
    that the scene's main object is half a metre large."""
    place: Place | None = None
    loose: bool | tuple[str, ...] = False
    """Whether every other detected object can be knocked over, or selectors of those that can. They
    sleep until they are hit."""
    complete: bool = True
    """Complete each selection, separate it from its support, and repair the hole it leaves."""
    backs: bool = True
    """Whether completed objects get unseen backs and undersides of their own."""
    planes: tuple[Plane, ...] = ()
    """Additional floors, ramps and walls, in the physics frame."""
    boxes: tuple[Box, ...] = ()
    """Additional solid boxes, in the physics frame."""
    cameras: Sequence[Camera] | None = None
    """Cameras of the capture, for selections made in pictures."""
    copies: int = 1
    """How many of each pushed object there are. The others start above it, in layers."""

    def __post_init__(self) -> None:
        if not isinstance(self.physics, Physics):
            raise InputError(
                f"physics: expected a Physics, such as Physics('analytic'), got {self.physics!r}"
            )
        unit = self.meters_per_unit
        if unit is not None and not 0 < unit < math.inf:
            raise InputError(f"meters_per_unit: expected a length above 0, got {unit:g}")
        if self.loose and self.physics.contact == "paper":
            raise InputError(
                "loose objects need contact 'world'; in the paper's engine objects never collide"
            )
        if not self.objects:
            raise InputError("objects: expected at least one, got none")
        if self.copies != 1:
            self._check_copies()
        if self.up is not None:
            object.__setattr__(self, "up", tuple(float(x) for x in self.up))
        if self.physics.literal:
            self._refuse_beside_paper()
        filled = tuple(completed(one, self.physics) for one in self.objects)
        object.__setattr__(self, "objects", filled)

    def _check_copies(self) -> None:
        """Refuse copies where there are too many, or where they would pass through each other."""
        most = MOST_COPIES // len(self.objects)
        if not 1 <= self.copies <= most:
            each = f" of each of {len(self.objects)} objects" if len(self.objects) > 1 else ""
            raise InputError(f"{argument('copies')}: expected 1 to {most}{each}, got {self.copies}")
        if self.physics.contact == "paper":
            raise InputError(
                "copies need contact 'world'; in the paper's engine objects never collide"
            )
        if self.physics.predicted or any(one.motion for one in self.objects):
            raise InputError(
                f"{argument('copies')}: copies that follow a motion or a prediction would pass "
                "through each other; push the objects instead"
            )

    def spec_of(self, index: int) -> ObjectSpec:
        """What a pushed object, or a copy of one, should do."""
        return self.objects[index % len(self.objects)]

    def _refuse_beside_paper(self) -> None:
        """Refuse what the paper does not have: surfaces besides the floor, places, and units."""
        beside = {"planes": self.planes, "boxes": self.boxes, "place": self.place,
                  "meters_per_unit": self.meters_per_unit}  # fmt: skip
        name = next((name for name, value in beside.items() if value), None)
        if name is not None:
            raise InputError(
                f"{name} cannot be combined with the paper's procedure, which has no surface "
                f"except the floor; leave out {name} or the paper's mode"
            )

    @property
    def lasting(self) -> tuple[Any, ...]:
        """All that objects, shapes and surroundings depend on: not velocities and materials."""
        selectors = tuple(one.select for one in self.objects)
        how = self.physics
        physics = how.contact, how.literal, how.solid, how.has_floor
        floor = self.up, self.floor_height, self.meters_per_unit
        around = self.loose, self.complete, self.backs, self.planes, self.boxes, self.copies
        starts = self.starts, self.seconds if any(self.starts) else None
        return selectors, starts, physics, floor, around, id(self.place), id(self.cameras)

    @property
    def starts(self) -> tuple[Any, ...]:
        """The named motions, which may begin above where an object was captured."""
        return tuple(one.motion and (one.motion, self.physics.seed) for one in self.objects)


def completed(one: ObjectSpec, physics: Physics) -> ObjectSpec:
    """Fill in the defaults: restitution, and zero velocity and spin for the paper's procedure."""
    if not physics.literal:
        if one.restitution is not None:
            return one
        return changed(one, restitution=RESTITUTION)
    if one.motion is not None:
        raise InputError(
            f"motion {one.motion} is a labelled path, not a prediction of the paper's model; "
            "leave out the motion or the paper's mode"
        )
    e = DEFAULT_MATERIAL["e"] if one.restitution is None else one.restitution
    zero = (0.0, 0.0, 0.0)
    return changed(one, velocity=one.velocity or zero, spin=one.spin or zero, restitution=e)

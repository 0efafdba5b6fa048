"""What is done to objects, and how they move: the words of ``newtongs.animate``.

Velocities are in the physics frame: x to the right and z towards the default camera, y up, the
object about half a unit large, gravity 9.81 downwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from . import motions
from .dynamics.interface import Dynamics
from .dynamics.variants import Scale, Variant, model_of
from .errors import InputError, unknown_name
from .state import DEFAULT_MATERIAL
from .world.bodies import FRICTION

Vector: TypeAlias = tuple[float, float, float]

PREDICTED = "context"  # among the dynamics: no equation of motion, a predictor
RESTITUTION = 0.6  # of a push that says none; the paper's is 0.75
HEAVIEST = 1e9  # mass; beyond, float32 loses what is light beside it
FASTEST = 1000.0  # velocity and spin; beyond, nothing is to be seen


class PushFields(TypedDict, total=False):
    """The fields of :class:`Push`, as arguments."""

    select: str
    velocity: Vector | Sequence[float] | None
    spin: Vector | Sequence[float] | None
    mass: float
    restitution: float | None
    friction: float
    attenuation: float
    motion: str | None


@dataclass(frozen=True)
class Push:
    """What is done to one object, and what it is made of."""

    select: str = "auto"
    """Which Gaussians: auto, all, cluster:ID, id:K, box:..., sphere:..., circle:..., masks:DIR."""
    velocity: Vector | Sequence[float] | None = None
    """Initial velocity, physics units a second. Default: a toss, or a drop from the air; none with
    :data:`PAPER`."""
    spin: Vector | Sequence[float] | None = None
    """Initial angular velocity in rad/s about the axes x, y (up) and z."""
    mass: float = 1.0
    """Heavier things push harder and are slowed down less by the air."""
    restitution: float | None = None
    """Part of the speed that a bounce keeps, 0 to 1. Default: 0.6, the paper's 0.75 with
    :data:`PAPER`."""
    friction: float = FRICTION
    """Coulomb's coefficient: 0.1 is ice, 0.5 wood, 1 rubber. The paper's engine ignores it."""
    attenuation: float = 0.2
    """The paper's engine only: part of the speed along the floor that a bounce takes, 0 to 1."""
    motion: str | None = None
    """Follow this motion of State-32 in place of velocity and spin."""

    def __post_init__(self) -> None:
        for name in ("velocity", "spin"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, three_numbers(name, value))
        for name in ("restitution", "attenuation"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"{name} lies between 0 and 1, got {value}")
        if not 0 <= self.friction <= 10:
            raise InputError(f"friction lies between 0 and 10, got {self.friction}")
        if not 0 < self.mass <= HEAVIEST:
            raise InputError(f"mass must be above 0 and up to {HEAVIEST:g}, got {self.mass}")
        if self.motion is not None:
            motions.get(self.motion)
            if self.velocity is not None or self.spin is not None:
                raise InputError("a motion has its own velocity and spin; give one or the other")


def three_numbers(name: str, value: Sequence[float]) -> Vector:
    """A velocity or a spin, or one line on what is wrong with it."""
    numbers = tuple(float(x) for x in value)
    if len(numbers) != 3:
        raise InputError(f"{name}: expected three numbers x y z, got {len(numbers)}")
    if not all(abs(x) <= FASTEST for x in numbers):
        raise InputError(f"{name}: expected numbers up to {FASTEST:g}, got {numbers}")
    x, y, z = numbers
    return x, y, z


@dataclass(frozen=True)
class Physics:
    """How objects move."""

    dynamics: Variant | Dynamics | Path | str = "analytic"
    """analytic: Newton's terms. learned: with the trained networks, which drift as State-32's
    objects do on average. structured: trained scalars, networks zeroed. context: pushed objects
    follow what ContextNND predicts of their first state, whatever is in the way; the others move by
    Newton's terms. Or a checkpoint file that ``newtongs train`` wrote, or a model of your own."""
    scale: Scale = "rigid"
    """rigid: sizes stay. free: the paper's, which pulls every size towards one; needs
    ``contact="paper"``."""
    contact: Literal["world", "paper"] = "world"
    """world: true shapes, friction, objects meet each other and the scene (MuJoCo). paper: the
    paper's event at the floor, with a ball of radius |s_y| for a shape."""
    seed: int = 7301
    """Which of the trained models."""
    solid: bool = True
    """Whether the static rest of the scene can be touched (contact="world")."""
    literal: bool = False
    """The paper's inference to the letter: sizes as the scene has them, no rates unless they are
    given, restitution 0.75, and the affine map of its code."""

    def __post_init__(self) -> None:
        for name, kinds in (("scale", ("rigid", "free")), ("contact", ("world", "paper"))):
            if getattr(self, name) not in kinds:
                raise unknown_name(name, getattr(self, name), kinds)
        if self.scale == "free" and self.contact == "world":
            raise InputError(
                "scale 'free' changes sizes, which true shapes cannot follow; "
                "take contact 'paper', or scale 'rigid'"
            )

    @cached_property
    def model(self) -> Dynamics:
        """The model that the words stand for."""
        dynamics = "analytic" if self.predicted else self.dynamics
        return model_of(dynamics, self.scale, seed=self.seed)

    @property
    def predicted(self) -> bool:
        """Whether pushed objects follow a prediction of ContextNND."""
        return isinstance(self.dynamics, str) and self.dynamics == PREDICTED

    @property
    def name(self) -> str:
        """Of the dynamics."""
        known = isinstance(self.dynamics, str | Path)
        return str(self.dynamics) if known else type(self.dynamics).__name__


PAPER = Physics("learned", "free", "paper", literal=True)


def filled(push: Push, physics: Physics) -> Push:
    """The push with what was left open: restitution, and no rates where the paper has none."""
    if not physics.literal:
        return push if push.restitution is not None else changed(push, restitution=RESTITUTION)
    if push.motion is not None:
        raise InputError(
            f"motion {push.motion} is a labelled path, not a prediction of the paper's model; "
            "leave it out, or the paper's mode"
        )
    e = DEFAULT_MATERIAL["e"] if push.restitution is None else push.restitution
    none = (0.0, 0.0, 0.0)
    return changed(push, velocity=push.velocity or none, spin=push.spin or none, restitution=e)

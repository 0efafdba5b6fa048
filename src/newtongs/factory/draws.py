"""Everything random about a film, from the spec, its number and the attempt alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import motions
from ..base.state import State
from ..base.types import GRAVITY, Y
from ..pipeline.bodies import initial_state
from ..pipeline.spec import ObjectSpec, Vector
from .casts import Cast
from .scenes import SceneSource
from .spec import CameraPath, Kind, Spec

LONGEST_FLIGHT = 1.5  # seconds: a slow throw at a distant target is sped up to arrive in this time


@dataclass(frozen=True)
class PushDraw:
    """Random numbers of one pushed object."""

    speed: float
    heading: float
    rise: float
    spin: Vector
    target: float
    """From 0 to 1: selects the loose object that is aimed at."""
    mass: float
    restitution: float
    friction: float
    attenuation: float


@dataclass(frozen=True)
class ViewDraw:
    """Random numbers of one camera."""

    path: CameraPath
    azimuth: float
    elevation: float


@dataclass(frozen=True)
class FilmDraw:
    """All random choices of a film."""

    number: int
    attempt: int
    scene: str
    cast: float
    """From 0 to 1: selects one of the scene's casts."""
    kind: Kind
    motion: str | None
    motion_seed: int
    pushes: tuple[PushDraw, ...]
    views: tuple[ViewDraw, ...]

    def cast_of(self, casts: Sequence[Cast]) -> Cast:
        """The cast that was selected."""
        return casts[int(self.cast * len(casts))]


def draw(spec: Spec, scenes: Sequence[SceneSource], number: int, attempt: int) -> FilmDraw:
    """Film ``number`` of a split with these scenes; each attempt draws everything again."""
    rng = np.random.default_rng(np.random.SeedSequence((spec.seed, number, attempt)))
    scene = scenes[int(rng.integers(len(scenes)))].id
    cast, kinds = float(rng.random()), spec.dynamics.kinds
    kind = kinds[int(rng.integers(len(kinds)))]
    names = spec.dynamics.motions or motions.STATE32
    motion, seed = names[int(rng.integers(len(names)))], int(rng.integers(2**31))
    pushes = tuple(_push(spec, rng) for _ in range(spec.objects.pushed))
    views = tuple(_view(spec, rng) for _ in range(spec.cameras.count))
    return FilmDraw(
        number, attempt, scene, cast, kind, motion if kind == "motions" else None, seed, pushes,
        views,
    )  # fmt: skip


def _push(spec: Spec, rng: np.random.Generator) -> PushDraw:
    how, what = spec.pushes, spec.materials
    x, y, z = (how.spin.draw(rng) for _ in range(3))
    return PushDraw(
        how.speed.draw(rng), how.heading.draw(rng), how.rise.draw(rng), (x, y, z),
        float(rng.random()), what.mass.draw(rng), what.restitution.draw(rng),
        what.friction.draw(rng), what.attenuation.draw(rng),
    )  # fmt: skip


def _view(spec: Spec, rng: np.random.Generator) -> ViewDraw:
    paths = spec.cameras.paths
    path = paths[int(rng.integers(len(paths)))]
    return ViewDraw(path, spec.cameras.azimuth.draw(rng), spec.cameras.elevation.draw(rng))


# --- from numbers to pushes -----------------------------------------------------------------------


def pushes_of(drawn: FilmDraw, cast: Cast, spec: Spec) -> list[ObjectSpec]:
    """The push of each pushed object."""
    out = []
    for index, one in enumerate(drawn.pushes):
        material: dict[str, Any] = {
            "mass": one.mass, "restitution": one.restitution, "friction": one.friction,
            "attenuation": one.attenuation,
        }  # fmt: skip
        if drawn.motion is not None:
            out.append(ObjectSpec(cast.selects[index], motion=drawn.motion, **material))
            continue
        velocity = _velocity(one)
        if spec.pushes.aim == "loose":
            velocity = _aimed(one, cast, index)
        out.append(ObjectSpec(cast.selects[index], velocity, one.spin, **material))
    return out


def _velocity(one: PushDraw) -> Vector:
    """Velocity from speed and angles."""
    heading, rise = math.radians(one.heading), math.radians(one.rise)
    along = one.speed * math.cos(rise)
    return along * math.cos(heading), one.speed * math.sin(rise), -along * math.sin(heading)


def _aimed(one: PushDraw, cast: Cast, index: int) -> Vector:
    """The velocity of a ballistic flight to a loose object's centre at the average speed drawn."""
    layout = cast.setup.layout
    loose = list(layout.indices)[layout.pushed :]
    target = loose[int(one.target * len(loose))]
    here, there = (State(initial_state(layout, i, None)).p.double() for i in (index, target))
    path = there - here
    seconds = min(float(path.norm()) / max(one.speed, 1e-3), LONGEST_FLIGHT)
    velocity = path / seconds
    velocity[Y] += -0.5 * GRAVITY[Y] * seconds
    x, y, z = velocity.tolist()
    return x, y, z


def times_of(spec: Spec) -> torch.Tensor:
    """Times ``(T,)`` of the frames in seconds."""
    return torch.arange(spec.frames, dtype=torch.float64) / spec.fps

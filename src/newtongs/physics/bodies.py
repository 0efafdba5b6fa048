"""The objects of a simulation, and what surrounds them without moving."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.state import DIM, State, StateLike, as_tensor, project, require_simulable
from ..base.types import Array, Quat, StateTensor, Times
from ..dynamics.surfaces import FLOOR, Surface
from .shapes import Shape

FRICTION = 0.5
ROLLING, TIPPING = 0.01, 0.001  # rolling resistance of a ball, and of a shape with corners


@dataclass(frozen=True, eq=False)
class Track:
    """A prescribed motion: states ``(T, 22)`` at ``times (T,)``, constant before and after."""

    times: Times
    states: StateTensor

    def __post_init__(self) -> None:
        if tuple(self.states.shape) != (len(self.times), DIM) or len(self.times) < 2:
            raise InputError(
                f"a track has one state (22,) per time and at least two times, got states "
                f"{tuple(self.states.shape)} and {len(self.times)} times"
            )

    def at(self, time: float) -> StateTensor:
        """The interpolated state ``(22,)``: positions linear, rotations spherical, in float64."""
        t = self.times.double()
        now = min(max(time, float(t[0])), float(t[-1]))
        i = int(torch.searchsorted(t, now, right=True).clamp(1, len(t) - 1)) - 1
        share = (now - float(t[i])) / float(t[i + 1] - t[i])
        a, b = self.states[i].double(), self.states[i + 1].double()
        z = torch.lerp(a, b, share)
        State(z).q.copy_(_arc(State(a).q, State(b).q, share))
        if not float(t[0]) <= time < float(t[-1]):
            State(z).v.zero_(), State(z).w.zero_(), State(z).u.zero_()
            return z
        span = float(t[i + 1] - t[i])
        State(z).v.copy_((State(b).p - State(a).p) / span)
        step = rotations.multiply(rotations.conjugate(State(a).q), State(b).q)
        State(z).w.copy_(rotations.log(step) / span)
        return z

    @cached_property
    def _segments(self) -> tuple[Array, ...]:
        """Times, positions, rotations, and their rates between times, as arrays."""
        x, t = State(self.states.double()), self.times.double()
        span = t.diff().unsqueeze(-1)
        turn = rotations.log(rotations.multiply(rotations.conjugate(x.q[:-1]), x.q[1:]))
        found = (t, x.p, rotations.normalize(x.q), x.p.diff(dim=0) / span, turn / span)
        return tuple(y.numpy() for y in found)

    def motion(self, time: float) -> tuple[Array, Array]:
        """Pose ``(p, q)`` and velocities ``(v, w)`` of :meth:`at`, fast enough for every tick."""
        t, p, q, v, w = self._segments
        if time >= t[-1]:
            return np.concatenate([p[-1], q[-1]]), np.zeros(6)
        i = max(int(np.searchsorted(t, time, side="right")) - 1, 0)
        past = max(time - t[i], 0.0)
        half = 0.5 * past * w[i]
        angle = math.sqrt(half @ half)
        sine = math.sin(angle) / angle if angle > 1e-12 else 1.0
        a, b = q[i], sine * half
        c = math.cos(angle)
        turned = np.empty(4)
        turned[0] = a[0] * c - a[1:] @ b
        turned[1:] = a[0] * b + c * a[1:]
        turned[1] += a[2] * b[2] - a[3] * b[1]
        turned[2] += a[3] * b[0] - a[1] * b[2]
        turned[3] += a[1] * b[1] - a[2] * b[0]
        return np.concatenate([p[i] + past * v[i], turned]), np.concatenate([v[i], w[i]])


def _arc(a: Quat, b: Quat, share: float) -> Quat:
    """The rotation a fraction ``share`` of the way from ``a`` to ``b``."""
    turn = rotations.log(rotations.multiply(rotations.conjugate(a), b))
    return rotations.multiply(a, rotations.exp(share * turn))


@dataclass(frozen=True, eq=False)
class Body:
    """One object: its initial state, material and shape."""

    state: StateLike
    """Initial state ``(22,)``: pose, velocities, mass, restitution and the paper's attenuation."""
    shape: Shape | None = None
    """In the axes of the physics frame at the start; required by MuJoCo only."""
    friction: float = FRICTION
    """Coulomb's coefficient. The paper's engine uses the state's attenuation instead."""
    rolling: float | None = None
    """Rolling and torsional friction: the lever arm of the resisting force over the object's size.
    Default: 0.01 for a ball, which would never stop without it; a tenth of that for shapes with
    corners, which would not tip over with more."""
    asleep: bool = False
    """Whether it stays at rest until something touches it. If a body that is awake touches it at
    the start, it starts awake."""
    track: Track | None = None
    """A prescribed motion: the object pushes others and is pushed by nothing."""

    def __post_init__(self) -> None:
        z = as_tensor(self.state, "state")
        if tuple(z.shape) != (DIM,):
            raise InputError(f"state: expected one object's, shape ({DIM},), got {tuple(z.shape)}")
        require_simulable(z, "state")
        object.__setattr__(self, "state", project(z))
        if self.rolling is None:
            ball = self.shape is not None and self.shape.radius is not None
            object.__setattr__(self, "rolling", ROLLING if ball else TIPPING)
        for name in ("friction", "rolling"):
            value = getattr(self, name)
            if not (0 <= value < math.inf):
                raise InputError(f"{name} must be 0 or more, got {value}")

    @property
    def z0(self) -> StateTensor:
        """The initial state, projected."""
        assert isinstance(self.state, torch.Tensor)
        return self.state


def lowest(body: Body, z: StateTensor) -> Tensor:
    """Height ``(...)`` of the lowest point of a body at states ``z`` ``(..., 22)``, float64."""
    shape, x = body.shape, State(z.double())
    assert shape is not None
    turn = rotations.multiply(x.q, rotations.conjugate(State(body.z0.double()).q).expand_as(x.q))
    up = rotations.to_matrix(turn)[..., 1, :]
    if shape.radius is not None:
        return x.p[..., 1] + up @ torch.from_numpy(shape.center) - shape.radius
    return x.p[..., 1] + (up @ torch.from_numpy(np.concatenate(shape.pieces)).T).amin(-1)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Floor, planes and boxes, and the solid parts of a scene."""

    surfaces: tuple[Surface, ...] = (FLOOR,)
    """Floor, planes and boxes, for both engines."""
    solids: Array = field(default_factory=lambda: np.empty((0, 2, 3)))
    """Lowest and highest corner ``(N, 2, 3)`` of the boxes that a scene was merged into; for MuJoCo
    only."""

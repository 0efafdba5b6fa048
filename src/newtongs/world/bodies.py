"""The objects of a simulation."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import rotations
from ..errors import InputError
from ..state import DIM, State, StateLike, as_tensor, project, require_simulable
from ..types import Quat, StateTensor, Times
from .shapes import Shape

Array: TypeAlias = npt.NDArray[Any]

FRICTION = 0.5
ROLLING, TIPPING = 0.01, 0.001  # resistance to rolling of a ball, and of what has corners


@dataclass(frozen=True, eq=False)
class Track:
    """A motion that is prescribed: states ``(T, 22)`` at ``times (T,)``; held before and after."""

    times: Times
    states: StateTensor

    def __post_init__(self) -> None:
        if tuple(self.states.shape) != (len(self.times), DIM) or len(self.times) < 2:
            raise InputError(
                f"a track has a state (22,) for each of two times or more, got states "
                f"{tuple(self.states.shape)} and {len(self.times)} times"
            )

    def at(self, time: float) -> StateTensor:
        """The state ``(22,)`` in between: positions on a line, rotations on an arc, in float64."""
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
        """Times, positions, rotations, and their rates from each to the next, as arrays."""
        x, t = State(self.states.double()), self.times.double()
        span = t.diff().unsqueeze(-1)
        turn = rotations.log(rotations.multiply(rotations.conjugate(x.q[:-1]), x.q[1:]))
        found = (t, x.p, rotations.normalize(x.q), x.p.diff(dim=0) / span, turn / span)
        return tuple(y.numpy() for y in found)

    def motion(self, time: float) -> tuple[Array, Array]:
        """Pose ``(p, q)`` and velocities ``(v, w)`` of :meth:`at`, quickly: for every tick."""
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
    """The rotation ``share`` of the way from ``a`` to ``b``."""
    turn = rotations.log(rotations.multiply(rotations.conjugate(a), b))
    return rotations.multiply(a, rotations.exp(share * turn))


@dataclass(frozen=True, eq=False)
class Body:
    """One object: where it starts, what it is made of, what shape it has."""

    state: StateLike
    """Initial state ``(22,)``: pose, velocities, mass, restitution and the paper's attenuation."""
    shape: Shape | None = None
    """In the axes of the physics frame at the start; MuJoCo needs one, the paper's engine none."""
    friction: float = FRICTION
    """Coulomb's coefficient. The paper's engine knows the state's attenuation instead."""
    rolling: float | None = None
    """Resistance to rolling and to turning on the spot: the lever of the force that it takes, over
    the object's size. Default: 0.01 for a ball, which would never stop without; a tenth of it for
    what has corners, which would not tip over with more."""
    asleep: bool = False
    """Whether it stays as it is until something touches it."""
    track: Track | None = None
    """A prescribed motion: the object pushes what it meets and is pushed by nothing."""

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

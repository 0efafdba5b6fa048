"""Simulating many objects interactively: push, step, look, push again.

>>> import newtongs
>>> from newtongs.physics import Body, Shape, Simulation
>>> ball = Body(newtongs.make_state(p=(0, 1, 0), s=(0.2, 0.2, 0.2)), Shape.ball(0.2))
>>> simulation = Simulation([ball])
>>> simulation.push(0, velocity=(1, 0, 0))
>>> states = simulation.step(0.5)
>>> states.shape, float(newtongs.State(states).p[0, 0]) > 0.4
(torch.Size([1, 22]), True)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError, unknown_name
from ..base.lazy import imported_apart
from ..base.state import DIM, State, as_tensor, replace, require_simulable
from ..base.types import StateTensor, Times, Vec3
from ..dynamics.interface import Dynamics
from ..dynamics.rollout import finite
from ..dynamics.variants import choose
from .bodies import Body, Surroundings

if TYPE_CHECKING:
    from .contacts import Contacts

EngineName: TypeAlias = Literal["mujoco", "paper"]


class Engine(Protocol):
    """A solver. It works in ticks or substeps, :class:`Simulation` in times."""

    @property
    def states(self) -> StateTensor:
        """Present states ``(K, 22)``."""
        ...

    @property
    def asleep(self) -> Tensor:
        """Which objects ``(K,)`` are at rest until touched."""
        ...

    def advance(self, start: float, times: Sequence[float], tell: "Tell | None") -> StateTensor:
        """States ``(T, K, 22)`` at increasing times after ``start``, the present one."""
        ...

    def set(self, index: int, z: StateTensor) -> None:
        """Replace the state ``(22,)`` of one object, and wake it."""
        ...

    def snapshot(self) -> Any:
        """All that :meth:`restore` needs to return to this moment bit for bit."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""
        ...


Tell: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a simulation."""

    time: float
    engine: Any


class Simulation:
    """Objects that move, collide and come to rest.

    The state is explicit: ``time`` in seconds, ``states (K, 22)`` in the physics frame, ``asleep
    (K,)``. All objects advance together. Frames do not depend, bit for bit, on how the time is
    divided into steps and runs.
    """

    def __init__(
        self,
        objects: Sequence[Body],
        dynamics: Dynamics | None = None,
        surroundings: Surroundings | None = None,
        *,
        engine: EngineName = "mujoco",
        record: bool = False,
    ) -> None:
        """Start at time zero.

        Args:
            objects: one or more.
            dynamics: free motion of each object. Default: Newton's terms, constant sizes.
            surroundings: what does not move. Default: the floor y = 0.
            engine: ``mujoco`` (true shapes, friction, collisions between objects) or ``paper``
                (the paper's event response on the ``surfaces``; objects do not collide).
            record: record all ``contacts``, which takes some time; ``mujoco`` only.
        """
        if record and engine != "mujoco":
            raise InputError(f"record: expected the engine 'mujoco', got {engine!r}")
        if not objects:
            raise InputError("a simulation needs at least one object")
        self.objects = tuple(objects)
        self.dynamics = dynamics or choose("analytic", "rigid")
        self.surroundings = surroundings or Surroundings()
        self.time = 0.0
        extra = {"record": True} if record else {}
        self._engine = _engine(engine)(self.objects, self.dynamics, self.surroundings, **extra)

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def states(self) -> StateTensor:
        """Present states ``(K, 22)``."""
        return self._engine.states

    @property
    def asleep(self) -> Tensor:
        """Which objects ``(K,)`` are at rest until touched or pushed."""
        return self._engine.asleep

    @property
    def contacts(self) -> "Contacts":
        """All contacts so far; needs ``record``. :meth:`restore` keeps those already recorded."""
        found: Contacts | None = getattr(self._engine, "contacts", None)
        if found is None:
            raise InputError("no contacts were recorded; start with Simulation(..., record=True)")
        return found

    def step(self, h: float = 1 / 60) -> StateTensor:
        """Advance by ``h`` seconds and return the states ``(K, 22)``."""
        return self.run([self.time + h])[0]

    def run(self, times: Times | Sequence[float], *, progress: Tell | None = None) -> StateTensor:
        """States ``(T, K, 22)`` at increasing ``times``, the first of which may be the present.

        ``progress`` is called with the number of frames done and of all frames.
        """
        at = [float(t) for t in torch.as_tensor(times, dtype=torch.float64)]
        if not at or not all(map(math.isfinite, at)):
            raise InputError("times: expected at least one finite number of seconds")
        now = [self.states.unsqueeze(0)] if at[0] == self.time else []
        ahead = at[len(now) :]
        if any(b <= a for a, b in zip([self.time, *ahead], ahead, strict=False)):
            raise InputError(f"times: expected to increase from {self.time:g} s, got {at[:4]}")
        new = [self._engine.advance(self.time, ahead, progress)] if ahead else []
        self.time = at[-1]
        states = torch.cat(now + new)
        finite(states.transpose(0, 1))
        return states

    def push(
        self,
        index: int,
        *,
        velocity: Vec3 | Sequence[float] | None = None,
        spin: Vec3 | Sequence[float] | None = None,
        impulse: Vec3 | Sequence[float] | None = None,
    ) -> None:
        """Set an object's velocity and spin (about the axes x, y, z), or add an impulse.

        What is not given stays unchanged. The velocity is that of the object's position ``p``,
        which need not be its centre of mass; ``impulse`` is mass times a change of it.
        """
        self._require(index)
        z = self.states[index].clone()
        x = State(z)
        if velocity is not None:
            z = replace(z, v=_vector(velocity, "velocity", z))
        if impulse is not None:
            z = replace(z, v=State(z).v + _vector(impulse, "impulse", z) / x.m)
        if spin is not None:
            w = rotations.rotate(rotations.conjugate(x.q), _vector(spin, "spin", z))
            z = replace(z, w=w)
        self._engine.set(index, z)

    def set(self, index: int, z: StateTensor) -> None:
        """Set an object's pose and velocities to those of ``z (22,)``; the rest stays."""
        self._require(index)
        z = as_tensor(z, "state")
        if tuple(z.shape) != (DIM,):
            raise InputError(f"state: expected one object's, shape ({DIM},), got {tuple(z.shape)}")
        require_simulable(z, "state")
        self._engine.set(index, replace(z, q=rotations.normalize(State(z).q)))

    def _require(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise InputError(f"no object {index}; there are 0 to {len(self) - 1}")
        if self.objects[index].track is not None:
            raise InputError(f"object {index} follows a track and cannot be pushed")

    def snapshot(self) -> Snapshot:
        """The present moment, for :meth:`restore`."""
        return Snapshot(self.time, self._engine.snapshot())

    def restore(self, moment: Snapshot) -> None:
        """Return to a moment, bit for bit."""
        if not isinstance(moment, Snapshot):
            raise InputError(f"restore: expected a Snapshot, got {type(moment).__name__}")
        self._engine.restore(moment.engine)
        self.time = moment.time


def _engine(name: str) -> Callable[..., Engine]:
    if name == "paper":
        from .paper_engine import PaperEngine

        return PaperEngine
    if name == "mujoco":
        imported_apart("mujoco")  # it keeps an error where there is no glfw
        from .mujoco_engine import MujocoEngine

        return MujocoEngine
    raise unknown_name("engine", name, ("mujoco", "paper"))


def _vector(x: Vec3 | Sequence[float], name: str, like: Tensor) -> Vec3:
    try:
        v = torch.as_tensor(x).to(like)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name}: expected three numbers x y z, got {x!r}") from None
    if tuple(v.shape) != (3,) or not torch.isfinite(v).all():
        raise InputError(f"{name}: expected three finite numbers x y z, got {x!r}")
    return v

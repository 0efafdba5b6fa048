"""A simulation that runs in real time and can be kicked."""

from dataclasses import replace as changed

import torch

from ..base.errors import InputError
from ..base.state import State
from ..base.types import StateTensor
from ..pipeline.prepare import Setup
from ..scene.gaussians import BACKGROUND
from ..scene.transform import affine64
from ..segment.objects.rays import Crossings, crossings, first_opaque
from .pointing import Ray, ray_in_scene
from .recipe import Kick

RATE = 60  # steps per second
LONGEST = 120.0  # seconds of a live run


class LiveRun:
    """One live run, from frame 0 on."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.simulation = setup, setup.simulation()
        self._start = self.simulation.snapshot()
        self.ticks, self.kicks = 0, list[Kick]()

    @property
    def states(self) -> StateTensor:
        """Current states ``(K, 22)``."""
        return self.simulation.states

    @property
    def time(self) -> float:
        """Elapsed seconds."""
        return self.ticks / RATE

    def step(self) -> StateTensor:
        """Advance by 1/60 s and return the states ``(K, 22)``."""
        if self.time >= LONGEST:
            raise InputError(f"a live run lasts at most {LONGEST:g} s; keep it or reset it")
        self.ticks += 1
        return self.simulation.run([self.time])[0]

    def reset(self) -> StateTensor:
        """Restore frame 0, bit for bit, and forget the kicks."""
        self.ticks, self.kicks = 0, []
        self.simulation.restore(self._start)
        return self.simulation.states

    def kick(self, origin: Ray, direction: Ray, speed: float) -> int:
        """Kick the object that the ray hits, along the ray, so that it gains ``speed``."""
        index = self.under(origin, direction)
        if index is None:
            raise InputError("no movable object is under the pointer; click a picked object")
        along = torch.as_tensor(direction, dtype=torch.float64)
        mass = float(State(self.states[index]).m)
        x, y, z = (mass * speed * along / along.norm()).tolist()
        self.kicked(Kick(self.time, index, (x, y, z)))
        return index

    def kicked(self, kick: Kick) -> None:
        """Apply a kick now."""
        self.simulation.push(kick.object, impulse=kick.impulse)
        self.kicks.append(changed(kick, time=self.time))

    def under(self, origin: Ray, direction: Ray) -> int | None:
        """The movable object that a ray hits at the current states; None for none."""
        found = [(BACKGROUND, self._rest_crossed(origin, direction))]
        found += [(i, self._crossed(i, origin, direction)) for i in self.setup.layout.indices]
        owners = torch.cat([torch.full((len(c.rows),), i) for i, c in found])
        first = first_opaque(*(torch.cat([c[k] for _, c in found]) for k in (1, 2)))
        index = BACKGROUND if first is None else int(owners[first])
        return None if index == BACKGROUND else index

    def _rest_crossed(self, origin: Ray, direction: Ray) -> Crossings:
        return crossings(self.setup.rest, *ray_in_scene(self.setup.frame, origin, direction))

    def _crossed(self, index: int, origin: Ray, direction: Ray) -> Crossings:
        """Crossings with an object; the ray is transformed instead of the object's Gaussians."""
        frame, body = self.setup.frame, self.setup.bodies[index]
        z0, z = (frame.state_to_scene(x.double()) for x in (body.z0, self.states[index]))
        A = affine64(z0, z[None], "main")[0]
        o, d = ray_in_scene(frame, origin, direction)
        back = torch.linalg.inv(A)
        start = back @ (o - State(z).p) + State(z0).p
        return crossings(self.setup.layout.scene.object(index), start, back @ d)

"""A simulation that runs while somebody watches, and can be kicked."""

from dataclasses import replace as changed

import torch

from ..errors import InputError
from ..scene.find.rays import Crossings, crossings, first_opaque
from ..scene.gaussians import BACKGROUND
from ..scene.transform import affine64
from ..state import State
from ..types import StateTensor
from .pointing import Ray, ray_in_scene
from .recipe import Kick
from .stages import Ready, started

RATE = 60  # steps a second
LONGEST = 120.0  # seconds of a run that is kept


class LiveRun:
    """One run, from frame 0 on."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.simulation = started(ready)
        self._start = self.simulation.snapshot()
        self.ticks, self.kicks = 0, list[Kick]()

    @property
    def states(self) -> StateTensor:
        """Present states ``(K, 22)``."""
        return self.simulation.states

    @property
    def time(self) -> float:
        """Seconds gone."""
        return self.ticks / RATE

    def step(self) -> StateTensor:
        """A sixtieth of a second: states ``(K, 22)``."""
        if self.time >= LONGEST:
            raise InputError(f"a live run lasts up to {LONGEST:g} s; reset it, or keep it")
        self.ticks += 1
        return self.simulation.run([self.time])[0]

    def reset(self) -> StateTensor:
        """Back to frame 0, bit for bit; the kicks are forgotten."""
        self.ticks, self.kicks = 0, []
        self.simulation.restore(self._start)
        return self.simulation.states

    def kick(self, origin: Ray, direction: Ray, speed: float) -> int:
        """Hit what the ray meets along the ray, so hard that it gains ``speed``."""
        index = self.under(origin, direction)
        if index is None:
            raise InputError("the ray meets no object that can move; aim at one that was picked")
        way = torch.as_tensor(direction, dtype=torch.float64)
        mass = float(State(self.states[index]).m)
        x, y, z = (mass * speed * way / way.norm()).tolist()
        self.kicked(Kick(self.time, index, (x, y, z)))
        return index

    def kicked(self, kick: Kick) -> None:
        """Apply a kick now."""
        self.simulation.push(kick.object, impulse=kick.impulse)
        self.kicks.append(changed(kick, time=self.time))

    def under(self, origin: Ray, direction: Ray) -> int | None:
        """The movable object that a ray meets where all of them are now."""
        found = [(BACKGROUND, self._rest_crossed(origin, direction))]
        found += [(i, self._crossed(i, origin, direction)) for i in self.ready.stage.indices]
        owners = torch.cat([torch.full((len(c.rows),), i) for i, c in found])
        first = first_opaque(*(torch.cat([c[k] for _, c in found]) for k in (1, 2)))
        index = BACKGROUND if first is None else int(owners[first])
        return None if index == BACKGROUND else index

    def _rest_crossed(self, origin: Ray, direction: Ray) -> Crossings:
        stage = self.ready.stage
        plain = stage.scene.replace(sh=stage.scene.sh[:, :1])
        rest = plain[(stage.scene.ids == BACKGROUND) & stage.ever_after]
        return crossings(rest, *ray_in_scene(stage.world, origin, direction))

    def _crossed(self, index: int, origin: Ray, direction: Ray) -> Crossings:
        """What the ray crosses of an object, which stays in its place: the ray is moved instead."""
        stage, body = self.ready.stage, self.ready.bodies[index]
        z0, z = (stage.world.state_to_scene(x.double()) for x in (body.z0, self.states[index]))
        A = affine64(z0, z[None], "main")[0]
        o, d = ray_in_scene(stage.world, origin, direction)
        back = torch.linalg.inv(A)
        start = back @ (o - State(z).p) + State(z0).p
        return crossings(stage.scene.object(index), start, back @ d)

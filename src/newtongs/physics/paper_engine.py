"""The paper's model as an engine: substeps of free motion, an event at every surface.

As in the paper, objects do not collide with each other, and nothing comes to rest by itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..base.state import State, replace
from ..base.types import StateTensor
from ..dynamics.backends import advance
from ..dynamics.gaussian_nnd import GaussianNND
from ..dynamics.interface import Dynamics
from .bodies import Body, Surroundings


class PaperEngine:
    """All objects as one batch."""

    def __init__(
        self, objects: Sequence[Body], dynamics: Dynamics, surroundings: Surroundings
    ) -> None:
        self.dynamics, self.surfaces = dynamics, surroundings.surfaces
        self.tracks = {i: body.track for i, body in enumerate(objects) if body.track is not None}
        self.still = torch.tensor([body.asleep for body in objects])  # nothing can touch these
        self._z = torch.stack([body.z0.to(dynamics.like) for body in objects])

    @property
    def states(self) -> StateTensor:
        """Present states ``(K, 22)``."""
        return self._z.clone()

    @property
    def asleep(self) -> Tensor:
        """Objects that started asleep; only a push wakes them."""
        return self.still.clone()

    def advance(
        self, start: float, times: Sequence[float], tell: Callable[[int, int], None] | None
    ) -> StateTensor:
        """See :class:`newtongs.physics.simulation.Engine`."""
        dt = [b - a for a, b in zip([start, *times[:-1]], times, strict=True)]
        if isinstance(self.dynamics, GaussianNND):
            self.dynamics.require_stable(self._z, dt)
        paths = advance(self.dynamics, self._z, dt, self.surfaces)
        for i, track in self.tracks.items():
            paths[:, i] = torch.stack([track.at(t) for t in times]).to(paths)
        paths[:, self.still] = self._z[self.still]
        self._z = paths[-1].clone()
        if tell is not None:
            tell(len(times), len(times))
        return paths

    def set(self, index: int, z: StateTensor) -> None:
        """Replace one state and wake the object."""
        x = State(z.to(self._z))
        self._z = self._z.clone()
        self._z[index] = replace(self._z[index], p=x.p, q=x.q, v=x.v, w=x.w)
        self.still[index] = False

    def snapshot(self) -> Any:
        """States and sleep."""
        return self._z.clone(), self.still.clone()

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""
        self._z, self.still = (x.clone() for x in snapshot)

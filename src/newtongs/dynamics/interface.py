"""The interface of a dynamics model: how a state changes, and how it responds to contact."""

from typing import Protocol

import torch
from torch import Tensor

from ..base.state import project
from ..base.types import StateTensor
from . import floor
from .analytic import G
from .solvers import rk4


class Dynamics(Protocol):
    """The motion of single objects.

    Derive a class and define :meth:`rates`; the rest has defaults. Any class with the same members
    works too, such as :class:`GaussianNND`.
    """

    def rates(self, z: StateTensor) -> StateTensor:
        """Time derivative of every channel of the states ``z (B, 22)``, gravity included."""
        ...

    def step(self, z: StateTensor, h: float) -> StateTensor:
        """The states ``(B, 22)`` after ``h`` seconds of free motion. Default: one step of RK4."""
        return rk4(self.rates, z, h, project)

    def jump(self, z: StateTensor) -> StateTensor:
        """The states ``(B, 22)`` after contact with the floor. Default: the paper's response.

        The paper's engine calls it, for other planes in their own frame. MuJoCo has its own
        contacts.
        """
        return floor.jump(z)

    @property
    def max_dt(self) -> float:
        """Longest step in seconds. Default: the paper's."""
        return 1 / 30

    @property
    def gravity(self) -> float:
        """The gravity that :meth:`rates` contains, downwards; MuJoCo's contacts need it."""
        return G

    @property
    def like(self) -> Tensor:
        """A tensor with the dtype and on the device that states must have."""
        return torch.zeros(())

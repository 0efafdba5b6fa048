"""One explicit step of ``z' = f(z)``; intermediate states are projected before ``f`` sees them."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Field = Callable[[Tensor], Tensor]
Step = Callable[[Field, Tensor, float, Field], Tensor]


def euler(f: Field, z: Tensor, h: float, project: Field) -> Tensor:
    """First order."""
    return project(z + h * f(z))


def rk4(f: Field, z: Tensor, h: float, project: Field) -> Tensor:
    """The classical fourth-order Runge-Kutta step."""
    k1 = f(z)
    k2 = f(project(z + 0.5 * h * k1))
    k3 = f(project(z + 0.5 * h * k2))
    k4 = f(project(z + h * k3))
    return project(z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))


SOLVERS: dict[str, Step] = {"rk4": rk4, "euler": euler}
STABLE = {"rk4": 2.785, "euler": 2.0}  # rate of decay times step, beyond which a decay grows


class Scheme(NamedTuple):
    """A solver as a table, for code that takes its stages one by one."""

    stages: tuple[tuple[float, float], ...]
    """Of every stage but the last: how far ahead the next is evaluated, and its share in the sum.
    The last has the share one."""
    divisor: int
    """Of the sum: the step goes ``h / divisor`` times it."""


SCHEMES = {
    "rk4": Scheme(((0.5, 1.0), (0.5, 2.0), (1.0, 2.0)), divisor=6),
    "euler": Scheme((), divisor=1),
}

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
STABLE = {"rk4": 2.785, "euler": 2.0}  # decay rate times step: the limit of stability


class Scheme(NamedTuple):
    """A solver as a table, for code that evaluates its stages one by one."""

    stages: tuple[tuple[float, float], ...]
    """For every stage but the last: the fraction of the step at which the next one is evaluated,
    and its weight in the sum. The last has weight one."""
    divisor: int
    """The step is ``h / divisor`` times the sum."""


SCHEMES = {
    "rk4": Scheme(((0.5, 1.0), (0.5, 2.0), (1.0, 2.0)), divisor=6),
    "euler": Scheme((), divisor=1),
}

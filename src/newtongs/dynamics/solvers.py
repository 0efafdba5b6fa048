"""One explicit step of ``z' = f(z)``; intermediate states are projected before ``f`` sees them."""

from collections.abc import Callable

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


# The same as a table, for code that takes the stages one by one: of the first three, how far ahead
# the next one is evaluated, and the share in the sum; the fourth has the share one.
RK4_STAGES = ((0.5, 1.0), (0.5, 2.0), (1.0, 2.0))

SOLVERS: dict[str, Step] = {"rk4": rk4, "euler": euler}

"""How objects accelerate by themselves, asked some fifty times a second of live simulations."""

from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import torch

from ..dynamics.gaussian_nnd import GaussianNND
from ..dynamics.interface import Dynamics
from ..state import LAYOUT, State
from ..types import GRAVITY, StateTensor

Array: TypeAlias = npt.NDArray[Any]

NUMPY: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


def accelerations(dynamics: Dynamics, z: StateTensor) -> tuple[Array, Array]:
    """Of states ``(K, 22)``, float64: the rates of ``v`` and ``w``, each ``(K, 3)`` float64.

    They are those of ``dynamics.rates``, bit for bit.
    """
    if _is_newtons(dynamics):
        return _by_newton(dynamics, z.numpy())
    with torch.no_grad():
        rate = State(dynamics.rates(z.to(dynamics.like)).cpu().double())
    return rate.v.numpy(), rate.w.numpy()


def _is_newtons(dynamics: Dynamics) -> TypeGuard[GaussianNND]:
    """Whether these are Newton's terms alone, on the CPU. A subclass may have others."""
    return (
        type(dynamics) is GaussianNND
        and dynamics.config.prior
        and not dynamics.config.continuous_residual
        and dynamics.like.device.type == "cpu"
        and dynamics.like.dtype in NUMPY
    )


def _by_newton(dynamics: GaussianNND, z: Array) -> tuple[Array, Array]:
    """By numpy: for a few objects torch takes thirty times as long, nearly all of it to be called.

    The order of the operations is that of ``newtongs.dynamics.analytic``.
    """
    number = NUMPY[dynamics.like.dtype]
    z = z.astype(number)
    c_v, c_w = (number(abs(c.item())) for c in (dynamics.c_v, dynamics.c_w))
    linear = np.array(GRAVITY, number) - c_v * z[:, LAYOUT["v"]] / z[:, LAYOUT["m"]]
    return linear.astype(np.float64), (-c_w * z[:, LAYOUT["w"]]).astype(np.float64)

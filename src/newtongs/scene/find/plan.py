"""A surface seen from straight above, cell by cell: how opaque it is, and of which colour.

The cells are columns, square seen from above. Gaussians are laid over them from the highest to the
lowest, as a camera above them would see them.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from ...rotations import to_matrix
from ..gaussians import GaussianScene
from ..world_frame import WorldFrame

Array: TypeAlias = npt.NDArray[Any]

FAINTEST = 0.01  # what a Gaussian adds to a cell, below which the cell is out of its reach
MOST_OPAQUE = 0.99


@dataclass(frozen=True, eq=False)
class Plan:
    """Square cells seen from above."""

    low: Array
    """Lowest x and z ``(2,)``."""
    h: float
    """Edge of a cell."""
    shape: tuple[int, int]

    def cells(self, x: Array) -> Array:
        """The cell ``(N, 2)`` of each point ``(N, 3)``, clipped to the plan."""
        at = np.floor((x[:, ::2] - self.low) / self.h).astype(int)
        return np.asarray(at.clip(0, np.array(self.shape) - 1))

    def at(self, marked: Array, x: Array) -> Array:
        """What a field of the plan holds at points ``(N, 3)``."""
        i, k = self.cells(x).T
        return np.asarray(marked[i, k])


class View(NamedTuple):
    """What is seen of each cell."""

    alpha: Array
    """Opacity, ``plan.shape``."""
    color: Array
    """RGB over that opacity, ``plan.shape`` and 3."""


def arms(scene: GaussianScene, world: WorldFrame) -> Array:
    """The half axes of each Gaussian, a standard deviation long, as columns ``(N, 3, 3)``."""
    turn = to_matrix(world.rotation).numpy()
    axes = turn @ to_matrix(scene.quats.double()).numpy()
    return np.asarray(axes * (world.scale * scene.scales.double().numpy())[:, None, :])


def seen_from_above(scene: GaussianScene, x: Array, arm: Array, plan: Plan) -> View:
    """The Gaussians at ``x (N, 3)`` with half axes ``arm (N, 3, 3)``, seen from straight above."""
    order = np.argsort(-x[:, 1], kind="stable")
    light = np.ones(plan.shape)
    color = np.zeros((*plan.shape, 3))
    flat = arm[order][:, ::2]
    _lay(
        (x[order, ::2] - plan.low) / plan.h, flat @ flat.transpose(0, 2, 1) / plan.h**2,
        scene.opacities.double().numpy()[order], scene.colors.double().numpy()[order], light, color,
    )  # fmt: skip
    alpha = 1 - light
    return View(alpha, color / np.maximum(alpha, 1e-6)[..., None])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _lay(x: Array, c: Array, alphas: Array, colors: Array, light: Array, color: Array) -> None:
    """Lay Gaussians over the cells, the first on top."""
    for n in range(len(x)):
        alpha = min(alphas[n], MOST_OPAQUE)
        if alpha <= FAINTEST:
            continue
        a, b, d = c[n, 0, 0] + 0.25, c[n, 0, 1], c[n, 1, 1] + 0.25  # no narrower than half a cell
        det = a * d - b * b
        reach = 2 * math.log(alpha / FAINTEST)
        u, v = math.sqrt(reach * a), math.sqrt(reach * d)
        for i in range(max(math.ceil(x[n, 0] - u - 0.5), 0), light.shape[0]):
            p = i + 0.5 - x[n, 0]
            if p > u:
                break
            for k in range(max(math.ceil(x[n, 1] - v - 0.5), 0), light.shape[1]):
                q = k + 0.5 - x[n, 1]
                if q > v:
                    break
                far = (d * p * p - 2 * b * p * q + a * q * q) / det
                if far < reach:
                    w = light[i, k] * alpha * math.exp(-0.5 * far)
                    light[i, k] -= w
                    for m in range(3):
                        color[i, k, m] += w * colors[n, m]

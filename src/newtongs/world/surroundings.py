"""Everything in a simulation that does not move."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..dynamics.surfaces import FLOOR, Surface

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Floor, planes and boxes by hand, and the solid parts of a scene."""

    surfaces: tuple[Surface, ...] = (FLOOR,)
    """Floor, planes and boxes; both engines know them."""
    solids: Array = field(default_factory=lambda: np.empty((0, 2, 3)))
    """Lowest and highest corner ``(N, 2, 3)`` of the boxes that a scene was merged into. Only
    MuJoCo knows them."""

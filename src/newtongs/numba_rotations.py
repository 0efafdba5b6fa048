"""Rotations for code that numba compiles."""

from typing import Any, TypeAlias

import numba
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@numba.njit(cache=True, nogil=True)
def write_matrix(q: Array, out: Array) -> None:
    """The rotation matrix ``(3, 3)`` of a unit quaternion ``(4,)``, scalar first, in float64."""
    w, x, y, z = float(q[0]), float(q[1]), float(q[2]), float(q[3])
    out[0, 0], out[0, 1] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z)
    out[0, 2], out[1, 0] = 2 * (x * z + w * y), 2 * (x * y + w * z)
    out[1, 1], out[1, 2] = 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    out[2, 0], out[2, 1] = 2 * (x * z - w * y), 2 * (y * z + w * x)
    out[2, 2] = 1 - 2 * (x * x + y * y)

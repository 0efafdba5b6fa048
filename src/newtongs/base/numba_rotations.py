"""Rotations for code compiled by numba."""

from .jit import njit
from .types import Array


@njit(nogil=True)
def write_matrix(q: Array, out: Array) -> None:
    """The rotation matrix ``(3, 3)`` of a unit quaternion ``(4,)``, scalar first, in float64."""
    w, x, y, z = float(q[0]), float(q[1]), float(q[2]), float(q[3])
    out[0, 0], out[0, 1] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z)
    out[0, 2], out[1, 0] = 2 * (x * z + w * y), 2 * (x * y + w * z)
    out[1, 1], out[1, 2] = 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    out[2, 0], out[2, 1] = 2 * (x * z - w * y), 2 * (y * z + w * x)
    out[2, 2] = 1 - 2 * (x * x + y * y)

"""What the compiled parts of ``ewa`` share: the record of a projected Gaussian, how to compile.

Everything a Gaussian needs to be drawn is one record of 16 float32, a cache line. Its footprint is
``alpha = opacity * 2^-(u^2 + v^2)`` with ``u = a (dx - g dy)`` and ``v = b dy``, the Cholesky form
of the projected covariance: unlike the usual ``A dx^2 + 2 B dx dy + C dy^2`` it does not cancel, so
float32 is enough for a needle that crosses the whole picture.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float32]
Indices: TypeAlias = npt.NDArray[np.int32]
Function = TypeVar("Function", bound=Callable[..., Any])

# Columns: the centre as a whole pixel and half a pixel minus what is left of it, so that the
# distance from a pixel is exact to float32 however large the picture; a, g, b; the exponent at
# which alpha falls to 1/255; the line on which the footprint is widest; opacity, colour, depth;
# half the footprint's box.
IX, HX, IY, HY, A, G, B, P_MAX, DY_WIDEST, OPACITY, RED, GREEN, BLUE, DEPTH, EXT_X, EXT_Y = range(
    16
)
RECORD = 16


class Layer(NamedTuple):
    """Projected Gaussians from near to far."""

    records: Array  # (n, 16)
    rows: Indices  # (n,): which Gaussian each is; of two equally far the lower row is in front


def compiled(*fastmath: str, inside: bool = False) -> Callable[[Function], Function]:
    """Compile on the first call and keep the result on disk.

    ``contract`` permits a fused multiply-add, ``nsz`` to forget the sign of zero. ``inside`` puts
    the function's code where it is called: an array as an argument is seven numbers on the stack.
    """
    decorate: Any = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath), forceinline=inside
    )
    return decorate

"""Type aliases, and the conventions that every module follows.

* Quaternions are unit, scalar first ``(w, x, y, z)``, multiplied by the Hamilton product.
* ``y`` points up, the floor is the plane ``y = 0``, gravity is ``(0, -9.81, 0)``.
* Angular velocity lives in body coordinates: ``q' = 1/2 q (x) [0, w]``.
* Tensors are float32 unless a docstring says otherwise; leading dimensions are free.
* Lengths and masses are in the synthetic units of State-32, times in seconds.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy.typing as npt
from torch import Tensor

Vec3: TypeAlias = Tensor  # (..., 3)
Quat: TypeAlias = Tensor  # (..., 4), scalar first
StateTensor: TypeAlias = Tensor  # (..., 22), see newtongs.base.state
Times: TypeAlias = Tensor  # (T,), seconds, increasing
Array: TypeAlias = npt.NDArray[Any]
Progress: TypeAlias = Callable[[str, int, int], None]  # what is done, how much of it, of how much

X, Y, Z = 0, 1, 2
GRAVITY = (0.0, -9.81, 0.0)

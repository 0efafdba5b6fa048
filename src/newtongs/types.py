"""Shape aliases and the conventions every module follows.

* Quaternions are unit, scalar first ``(w, x, y, z)``, multiplied by the Hamilton product.
* ``y`` points up, the floor is the plane ``y = 0``, gravity is ``(0, -9.81, 0)``.
* Angular velocity lives in body coordinates: ``q' = 1/2 q (x) [0, w]``.
* Tensors are float32 unless a docstring says otherwise; leading dimensions are free.
* Lengths, times and masses are the synthetic units of State-32, with time in seconds.
"""

from typing import TypeAlias

from torch import Tensor

Vec3: TypeAlias = Tensor  # (..., 3)
Quat: TypeAlias = Tensor  # (..., 4), scalar first
StateTensor: TypeAlias = Tensor  # (..., 22), see newtongs.state
Times: TypeAlias = Tensor  # (T,), seconds, increasing

X, Y, Z = 0, 1, 2
GRAVITY = (0.0, -9.81, 0.0)

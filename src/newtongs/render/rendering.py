"""What every renderer returns."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rendering:
    """One view of a scene, float32; row 0 is the top."""

    color: Tensor
    """RGB ``(H, W, 3)`` over the background; values above 1 can occur and are left as they are."""
    depth: Tensor
    """Mean depth ``(H, W)`` along the camera's z axis, weighted by what is seen; 0 where empty."""
    alpha: Tensor
    """Coverage ``(H, W)`` in [0, 1]."""

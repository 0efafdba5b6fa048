"""Which flags of the command line choose another floor or another up direction."""

import math
from collections.abc import Sequence

import torch

from ..scene.gaussians import GaussianScene, quantiles
from ..segment.floor.finding import FloorPlane

TURNED = 10.0  # degrees from which two up directions differ
LOWEST = 0.002  # share of the Gaussians below a floor of which only the direction is known
DIGITS = 4  # of a height


def flags_for(floor: FloorPlane, best: FloorPlane) -> list[str]:
    """The flags that choose a floor where ``best`` would be taken; of ``best``, its own."""
    up = "--up " + " ".join(f"{round(c, 3) + 0:g}" for c in floor.up.tolist())
    height = f"--floor {floor.height:.{DIGITS}g}"
    if floor is best:
        return [up]
    return [height] if alike(floor, best) else [up, height] if floor.kind == "found" else [up]


def alike(a: FloorPlane, b: FloorPlane) -> bool:
    """Whether two floors have the same up direction."""
    return float(a.up @ b.up) > math.cos(math.radians(TURNED))


def with_axes(scene: GaussianScene, floors: Sequence[FloorPlane]) -> list[FloorPlane]:
    """The floors, and one below the scene for every axis along which none of them points up.

    Files of some programs have +z up, of others +y or -y; each of the six can be seen and chosen.
    """
    out, x = list(floors), scene.means[torch.isfinite(scene.means).all(-1)].double()
    for axis in torch.eye(3).double().repeat_interleave(2, 0) * torch.tensor([[1.0], [-1.0]] * 3):
        under = FloorPlane(
            axis, float(quantiles((x @ axis)[:, None], [LOWEST])), 0.0, "virtual", 0.0,
            "not judged: an axis of the file", 0.0,
        )  # fmt: skip
        if not any(alike(under, floor) for floor in out):
            out.append(under)
    return out

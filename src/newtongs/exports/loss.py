"""What a file that rounds costs: how alike pictures of the scene and of the file are, in dB.

10 log10 of 1 over the mean square error of all pixels: 40 dB is one part in a hundred off at the
average pixel, which the eye does not see; 50 dB is less than one step of 8 bits.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..render import render
from ..scene.cameras import Camera
from ..scene.find.floor import find_floor
from ..scene.framing import fit_camera
from ..scene.gaussians import GaussianScene
from ..types import Vec3

SIZE, AZIMUTHS = 512, (25, 115, 205, 295)
SAMPLE = 100_000


def loss(wanted: GaussianScene, got: GaussianScene, cameras: Sequence[Camera]) -> float:
    """Decibels between the pictures of two scenes, a camera at a time."""
    pairs = ((picture(wanted, camera), picture(got, camera)) for camera in cameras)
    return between(pairs)


def between(pictures: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Decibels between the two of each pair, of all pairs together."""
    errors = [(a - b).double().square().mean() for a, b in pictures]
    return to_decibels(torch.stack(errors).mean())


def to_decibels(error: Tensor) -> float:
    """Of a mean square error."""
    return float(-10 * error.clamp_min(1e-12).log10())


def picture(scene: GaussianScene, camera: Camera) -> Tensor:
    """``(H, W, 3)``, clamped as a screen does."""
    return render(scene, camera).color.clamp(0, 1)


def around(scene: GaussianScene, up: Vec3 | None = None, *, size: int = SIZE) -> list[Camera]:
    """Four cameras around the busy part of a scene."""
    up = find_floor(scene).up if up is None else up
    x = scene.means[:: max(1, len(scene) // SAMPLE)].double()
    ends = torch.stack([x.quantile(0.02, dim=0), x.quantile(0.98, dim=0)])
    return [fit_camera(ends, up.double(), width=size, height=size, azimuth=a) for a in AZIMUTHS]

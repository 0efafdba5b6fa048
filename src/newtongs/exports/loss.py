"""The loss of a file that rounds: similarity of pictures of the scene and of the file, in dB.

PSNR: 10 log10 of 1 over the mean squared error of all pixels. 40 dB is an error of one percent in
the average pixel, which is invisible; 50 dB is less than one step of 8 bits.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..base.types import Vec3
from ..render import render
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene
from ..segment.floor.finding import find_floor
from ..views.framing import fit_camera

VIEW_SIZE, AZIMUTHS = 512, (25, 115, 205, 295)
SAMPLE = 100_000


def loss(wanted: GaussianScene, got: GaussianScene, cameras: Sequence[Camera]) -> float:
    """Decibels between the pictures of two scenes from several cameras."""
    pairs = ((picture(wanted, camera), picture(got, camera)) for camera in cameras)
    return between(pairs)


def between(pictures: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Decibels over all pairs of pictures."""
    errors = [(a - b).double().square().mean() for a, b in pictures]
    return to_decibels(torch.stack(errors).mean())


def to_decibels(error: Tensor) -> float:
    """Decibels of a mean squared error."""
    return float(-10 * error.clamp_min(1e-12).log10())


def picture(scene: GaussianScene, camera: Camera) -> Tensor:
    """A rendered picture ``(H, W, 3)``, clamped as on a screen."""
    return render(scene, camera).color.clamp(0, 1)


def around(scene: GaussianScene, up: Vec3 | None = None, *, size: int = VIEW_SIZE) -> list[Camera]:
    """Four cameras around the busy part of a scene."""
    up = find_floor(scene).up if up is None else up
    x = scene.means[:: max(1, len(scene) // SAMPLE)].double()
    ends = torch.stack([x.quantile(0.02, dim=0), x.quantile(0.98, dim=0)])
    return [fit_camera(ends, up.double(), width=size, height=size, azimuth=a) for a in AZIMUTHS]

"""Gaussians with their true covariance on the CPU, by the method and the numbers of gsplat.

Each Gaussian is projected by the Jacobian of the camera at its centre (EWA), sorted once by depth,
binned into tiles of 16 x 16 pixels and blended front to back. Strips of tiles are shared among
threads. ``newtongs.render.reference`` says the same without tiles, slowly, in float64. Needs the
extra ``newtongs[fast]``.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..scene import Camera
from .prepare import Splat
from .rendering import Rendering

try:
    from . import ewa_project, ewa_tiles
    from .ewa_records import RECORD
except ImportError as error:
    raise InputError(
        "the ewa renderer needs numba; install it with: pip install 'newtongs[fast]'"
    ) from error

CHUNK = 4096  # Gaussians projected at a time
Result = TypeVar("Result")


@torch.no_grad()
def draw(splat: Splat) -> Rendering:
    """The picture, on the device of the means."""
    return draw_counting(splat)[0]


@torch.no_grad()
def draw_counting(splat: Splat) -> tuple[Rendering, int, int]:
    """The picture and its work: pairs of a tile and a Gaussian in it, pixels blended in all."""
    splats, view, background = _splats(splat), _view(splat.camera), _array(splat.background)
    n, out = len(splats.means), np.empty((view.height, view.width, 5), np.float32)
    records, seen = np.empty((n, RECORD), np.float32), np.empty(n, np.bool_)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:

        def share(work: Callable[[int], Result], items: range) -> list[Result]:
            # Not numba's own threads: they abort when two Python threads use them at once.
            return list(pool.map(work, items))  # waits, and raises what a thread raised

        share(
            lambda i: ewa_project.project(splats, view, i, min(i + CHUNK, n), records, seen),
            range(0, n, CHUNK),
        )
        records = ewa_tiles.by_depth(records, seen)
        strips = -(-view.height // ewa_tiles.TILE)
        start, members = ewa_tiles.bin_strips(records, strips)
        work = share(
            lambda s: ewa_tiles.draw_strip(
                records, members[start[s] : start[s + 1]], s, background, out
            ),
            range(strips),
        )
    pixels = torch.from_numpy(out).to(splat.means.device)
    picture = Rendering(pixels[..., :3], pixels[..., 3], pixels[..., 4])
    return picture, sum(pairs for pairs, _ in work), sum(blended for _, blended in work)


def _splats(splat: Splat) -> ewa_project.Splats:
    """Arrays for compiled code; those that something else stands in for are empty."""
    scene, none = splat.scene, np.empty((0, 6), np.float32)
    return ewa_project.Splats(
        means=_array(splat.means),
        quats=_array(scene.quats),
        scales=_array(scene.scales),
        covariances=none if splat.covariances is None else _array(splat.covariances),
        opacities=_array(splat.opacities),
        sh=_array(splat.sh if splat.colors is None else splat.sh[:0]),
        colors=_array(scene.means[:0] if splat.colors is None else splat.colors),
    )


def _view(camera: Camera) -> ewa_project.View:
    K = camera.K.double()
    return ewa_project.View(
        w2c=camera.w2c[:3].double().cpu().contiguous().numpy(),
        position=torch.linalg.inv(camera.w2c.double())[:3, 3].cpu().contiguous().numpy(),
        fx=float(K[0, 0]),
        fy=float(K[1, 1]),
        cx=float(K[0, 2]),
        cy=float(K[1, 2]),
        width=camera.width,
        height=camera.height,
    )


def _array(x: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A contiguous float32 array on the CPU, without a copy where it is one already."""
    return x.detach().to("cpu", torch.float32).contiguous().numpy()

"""Gaussians with their true covariance on the CPU, by the method and the numbers of gsplat.

Each Gaussian is projected by the Jacobian of the camera at its centre (EWA), sorted once by depth,
binned into tiles of 16 x 16 pixels and blended front to back. Strips of tiles are shared among
threads. ``newtongs.render.reference`` says the same without tiles, slowly, in float64. Needs the
extra ``newtongs[fast]``.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..scene import Camera
from ..threads import Share, sharing
from .prepare import Splat
from .rendering import Rendering

try:
    from . import ewa_project, ewa_tiles
    from .ewa_records import RECORD, Array, Indices, Layer
except ImportError as error:
    raise InputError(
        "the ewa renderer needs numba; install it with: pip install 'newtongs[fast]'"
    ) from error

CHUNK = 4096  # Gaussians projected at a time


@torch.no_grad()
def draw(splat: Splat) -> Rendering:
    """The picture, on the device of the means."""
    return draw_counting(splat)[0]


@torch.no_grad()
def draw_counting(splat: Splat) -> tuple[Rendering, int, int]:
    """The picture and its work: pairs of a tile and a Gaussian drawn in it, pixels blended."""
    with sharing() as share:
        layer = projected(splats_of(splat), view_of(splat.camera), share)
        drawn = draw_layer(layer, splat.camera, array(splat.background), share)
    picture = rendering(drawn.pixels, splat.means.device)
    return picture, sum(len(x) for _, x in drawn.lists), drawn.blended


class Drawn(NamedTuple):
    """A picture, and which Gaussians made it."""

    pixels: Array
    """``(H, W, 5)``: red, green, blue, depth, alpha."""
    lists: list[tuple[Any, Indices]]
    """For each strip where its tiles' lists start, and the lists, see ``ewa_tiles.draw_strip``."""
    blended: int
    """Pixels, each Gaussian's counted."""


def projected(splats: ewa_project.Splats, view: ewa_project.View, share: Share) -> Layer:
    """What a camera sees, near to far."""
    n = len(splats.means)
    records, seen = np.empty((n, RECORD), np.float32), np.empty(n, np.bool_)
    share(
        lambda i: ewa_project.project(splats, view, i, min(i + CHUNK, n), records, seen),
        range(0, n, CHUNK),
    )
    return ewa_tiles.by_depth(records, seen)


def draw_layer(layer: Layer, camera: Camera, background: Array, share: Share) -> Drawn:
    """All strips of tiles."""
    out = np.empty((camera.height, camera.width, 5), np.float32)
    strips = range(-(-camera.height // ewa_tiles.TILE))
    start, members = ewa_tiles.bin_strips(layer.records, len(strips))
    done = share(
        lambda s: ewa_tiles.draw_strip(
            layer.records, members[start[s] : start[s + 1]], s, background, out
        ),
        strips,
    )
    return Drawn(out, [(at, its) for at, its, _ in done], sum(blended for *_, blended in done))


def rendering(pixels: Array, device: torch.device | str = "cpu") -> Rendering:
    """Pixels ``(H, W, 5)`` as a picture."""
    x = torch.from_numpy(pixels).to(device)
    return Rendering(x[..., :3], x[..., 3], x[..., 4])


def splats_of(splat: Splat) -> ewa_project.Splats:
    """Arrays for compiled code; those that something else stands in for are empty."""
    scene, none = splat.scene, np.empty((0, 6), np.float32)
    return ewa_project.Splats(
        means=array(splat.means),
        quats=array(scene.quats),
        scales=array(scene.scales),
        covariances=none if splat.covariances is None else array(splat.covariances),
        opacities=array(splat.opacities),
        sh=array(splat.sh if splat.colors is None else splat.sh[:0]),
        colors=array(scene.means[:0] if splat.colors is None else splat.colors),
        shade=array(scene.means[:0, 0] if splat.shade is None else splat.shade),
    )


def view_of(camera: Camera) -> ewa_project.View:
    """A camera for compiled code."""
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


def array(x: Tensor) -> Array:
    """A contiguous float32 array on the CPU, without a copy where it is one already."""
    return x.detach().to("cpu", torch.float32).contiguous().numpy()

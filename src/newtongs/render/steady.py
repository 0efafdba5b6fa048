"""Gaussians blended by depth without an order that jumps, on the CPU.

``ewa`` sorts Gaussians by their centres; when a thing turns, two that overlap change places, and
the colour between them jumps. Here each has an interval of depth on a pixel's ray: around where the
ray meets the most of it, which is exact for what is flat, and as long as its standard deviation
there says. Its optical depth is spread evenly over it, and where intervals overlap their light is
mixed, as in the exact rendering of ellipsoids by Mai et al. (EVER, 2024). All of it is continuous
in where the Gaussians are. Intervals that are disjoint give ordinary blending, in the order of the
ray and not of the centres: a large Gaussian of a floor no longer covers what stands on it.

Depth is where the light comes from, in labels and pictures alike: of one Gaussian it lies in front
of the centre, the more so the more opaque it is.

Footprints, colours and cut-offs are those of ``ewa``, except that the last Gaussian of an opaque
pixel is drawn. Needs numba.
"""

from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..scene import Camera
from ..scene.transform import pack_symmetric
from ..threads import Share, sharing
from .prepare import Splat
from .rendering import Rendering

try:
    from . import ewa, ewa_depths, steady_meet, steady_tiles
    from .ewa_records import Array, Layer
    from .ewa_tiles import TILE, bin_strips
except InputError as error:
    raise InputError(str(error).replace("the ewa renderer", "the steady renderer")) from error


@torch.no_grad()
def draw(splat: Splat) -> Rendering:
    """The picture, on the device of the means."""
    camera = splat.camera
    pixels = np.empty((camera.height, camera.width, 5), np.float32)
    with sharing() as share:
        layer, lines = projected(splat, share)
        background = ewa.array(splat.background)
        draw_tiles(layer, lines, background, all_tiles(camera), pixels, share)
    return ewa.rendering(pixels, splat.means.device)


def projected(splat: Splat, share: Share) -> tuple[Layer, Any]:
    """What the camera sees, and how its depth goes on over the picture, lines ``(n, 4)``."""
    view, given = ewa.view_of(splat.camera), splat.covariances
    layer = ewa.projected(ewa.splats_of(splat), view, share)
    covariances = ewa.array(pack_symmetric(splat.scene.covariances) if given is None else given)
    lines = np.zeros((len(layer.rows), steady_meet.COLUMNS))
    ewa_depths.depth_lines(ewa.array(splat.means), covariances, layer.rows, view, lines)
    steady_meet.make_lines(layer.records, lines)
    return layer, lines


def all_tiles(camera: Camera) -> Any:
    """Mask ``(strips, tiles)`` of all tiles of a picture."""
    return np.ones((-(-camera.height // TILE), -(-camera.width // TILE)), np.bool_)


def draw_tiles(
    layer: Layer,
    lines: Any,
    background: Array,
    wanted: Any,
    pixels: Array,
    share: Share,
    naming: steady_tiles.Naming | None = None,
) -> None:
    """Draw the tiles of a mask into ``pixels (H, W, 5)``: red, green, blue, depth, alpha.

    And into ``naming`` their labels, if it is given.
    """
    start, members = bin_strips(layer.records, len(wanted))

    def draw_strip(s: int) -> None:
        its = members[start[s] : start[s + 1]]
        steady_tiles.draw_strip(
            layer.records, lines, its, s, wanted[s], background, pixels, naming
        )  # fmt: skip

    share(draw_strip, range(len(wanted)))

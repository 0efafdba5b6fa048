"""The blending of ``steady``, compiled: tile by tile, in blocks, one row of pixels at a time.

A pixel's Gaussians are intervals of depth, each with its optical depth spread evenly over it:
``steady_meet`` finds them, and ``steady_walk`` blends them.
"""

from typing import Any

import numpy as np

from ..base.jit import compiled
from ..base.types import Array
from .ewa_project import DEPTH, EXT_X, EXT_Y, HX, HY, IX, IY, Indices
from .ewa_tiles import BLOCK_X, BLOCK_Y, MARGIN, TILE, bin_tiles
from .labels import Labelling, decide
from .splat import NEAR
from .steady_meet import (
    BY_FRONT,
    FRONT,
    GRAZING,
    HALF,
    SLOPE_X,
    SLOPE_Y,
    SPARE,
    TOUCHING,
    Numbers,
    make_room,
    meet,
    sort,
)  # fmt: skip
from .steady_walk import FAR, FAR_TWICE, SUMS, WEIGHT, WEIGHT_TWICE, follow


@compiled("contract")
def _touching(
    records: Array, lines: Numbers, its: Indices, x0: int, y0: int, numbers: Numbers,
    places: Indices,
) -> int:  # fmt: skip
    """Find those of a tile's Gaussians whose box touches the block from pixel ``x0, y0``.

    Nearness is linear in the picture, so it is largest in a corner of the block.
    """
    count = 0
    for j in range(len(its)):
        n = its[j]
        dx = (x0 - records[n, IX]) + np.float64(records[n, HX])
        dy = (y0 - records[n, IY]) + np.float64(records[n, HY])
        reach_x, reach_y = records[n, EXT_X] + MARGIN, records[n, EXT_Y] + MARGIN
        wide = -reach_x - (BLOCK_X - 1) <= dx <= reach_x
        if not (wide and -reach_y - (BLOCK_Y - 1) <= dy <= reach_y):
            continue
        x, y = lines[n, SLOPE_X], lines[n, SLOPE_Y]
        nearness = 1 - min(x * dx, x * (dx + BLOCK_X - 1)) - min(y * dy, y * (dy + BLOCK_Y - 1))
        places[TOUCHING, count] = n
        numbers[FRONT, count] = records[n, DEPTH] / max(nearness, GRAZING) - lines[n, HALF]
        count += 1
    return count


@compiled()
def _label(labelling: Labelling, sums: Numbers, light: float, y: int, x: int) -> None:
    """Label a pixel.

    Depth is where the light comes from, not the middles of the intervals, which ``ewa`` uses. The
    factory's ball is slightly translucent: the middles lie 1.5 percent of its radius below the
    surface, this depth 0.1 percent. For a thick opaque Gaussian it is the front.
    """
    best, at, share = decide(labelling.objects, light, sums, 0, SUMS)
    z, flow_z = 0.0, 0.0
    if best >= 0:  # an interval around the camera starts behind it
        z = max(sums[at + FAR] / sums[at + WEIGHT], NEAR)
        flow_z = max(sums[at + FAR_TWICE] / sums[at + WEIGHT_TWICE], NEAR)
    labelling.slot[y, x], labelling.share[y, x] = best, share
    labelling.depth[y, x], labelling.flow_depth[y, x] = z, flow_z


@compiled()
def draw_strip(
    records: Array,
    lines: Numbers,
    members: Indices,
    strip: int,
    wanted: Any,
    background: Array,
    out: Array,
    labelling: Labelling | None,
) -> None:
    """Draw the ``wanted (tiles,)`` tiles of a strip with Gaussians ``members``.

    With ``labelling`` they are labelled too.
    """
    y0, tiles = strip * TILE, -(-out.shape[1] // TILE)
    if not wanted.any():
        return
    start, filled = bin_tiles(records, members, y0, tiles)
    longest = 0
    for t in range(tiles):
        if wanted[t]:
            longest = max(longest, start[t + 1] - start[t])
    numbers, places = make_room(longest)
    slots, sums = None, np.empty(0)
    if labelling is not None:
        slots, sums = labelling.slots, np.empty(SUMS * (labelling.objects + 1))
    for t in range(tiles):
        if not wanted[t]:
            continue
        its = filled[start[t] : start[t + 1]]
        for top in range(y0, min(y0 + TILE, out.shape[0]), BLOCK_Y):
            for left in range(t * TILE, min((t + 1) * TILE, out.shape[1]), BLOCK_X):
                count = _touching(records, lines, its, left, top, numbers, places)
                sort(numbers[FRONT], count, places[BY_FRONT], places[SPARE])
                wide = min(BLOCK_X, out.shape[1] - left)
                for y in range(top, min(top + BLOCK_Y, out.shape[0])):
                    meet(records, lines, count, left, y, wide, numbers, places)
                    for i in range(wide):
                        x = left + i
                        light = follow(
                            records, numbers, places, i, background, out, y, x, slots, sums
                        )
                        if labelling is not None:
                            _label(labelling, sums, light, y, x)

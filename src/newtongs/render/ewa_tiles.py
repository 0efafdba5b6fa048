"""The blending of ``ewa``, compiled: sort records by depth, bin them into tiles, blend, label.

Labels are computed in the pass that draws. For them a Gaussian's depth differs from pixel to pixel:
it is the depth at which its density along the pixel's ray is largest, not that of its centre as in
a rendered depth. On a curved surface the front one of two overlapping Gaussians always lies nearer
to the camera's axis, and its centre nearer than the surface: with centres, a ball's surface would
lie too far forward by a fraction of a Gaussian's width, and flow would be wrong with it.
"""

import math
from typing import Any

import numpy as np

from ..base.jit import compiled
from ..base.types import Array
from .ewa_project import (
    BLUE,
    DEPTH,
    DY_WIDEST,
    EXT_X,
    EXT_Y,
    GREEN,
    HX,
    HY,
    IX,
    IY,
    OPACITY,
    P_MAX,
    RECORD,
    RED,
    A,
    B,
    G,
    Indices,
)  # fmt: skip
from .labels import Labelling, decide
from .splat import ALPHA_CAP, ALPHA_MIN, T_MIN

TILE = 16  # pixels per side of a tile, which has its own list of Gaussians
BLOCK_X, BLOCK_Y = 8, 4  # pixels that are blended together, without branches
CHECK_EVERY = 16  # Gaussians between two tests whether a tile is opaque
MARGIN = 1e-3  # pixels added to a footprint before culling, to allow for rounding

# A bare Python number would turn float32 arithmetic into float64.
ZERO, ONE, CAP, LOW, STOP = map(np.float32, (0, 1, ALPHA_CAP, ALPHA_MIN, T_MIN))
# Adding 1.5 * 2^23 rounds to an integer, which then is in the lowest bits of the sum.
ROUND, MANTISSA, UNIT_BITS = np.float32(1.5 * 2**23), np.int32(23), np.int32(127 << 23)
FAINT = np.float32(40)  # 2^-40 is below any threshold
# 2^f for |f| <= 1/2 to 2e-7: interpolation at Chebyshev nodes.
E0, E1, E2, E3, E4, E5 = map(
    np.float32,
    np.polynomial.Chebyshev.interpolate(lambda f: 2.0**f, 5, domain=[-0.5, 0.5])
    .convert(kind=np.polynomial.Polynomial)
    .coef,
)


# --- sort and bin ---------------------------------------------------------------------------------


@compiled()
def by_depth(records: Array, seen: Any) -> Indices:
    """The rows ``(n,)`` that are seen, near to far; equal depths keep their order.

    A radix sort: the bits of positive floats have the order of the floats. The records, the largest
    array of a picture, are sorted in place: those of the rows become the first ``n``.
    """
    n = 0
    for i in range(len(seen)):
        n += seen[i]
    keys, order, rows = np.empty(n, np.uint32), np.empty(n, np.int32), np.empty(n, np.int32)
    n = 0
    for i in range(len(seen)):
        if seen[i]:
            keys[n] = np.float32(records[i, DEPTH]).view(np.uint32)
            order[n], rows[n] = n, i
            for c in range(RECORD):
                records[n, c] = records[i, c]
            n += 1
    for shift in (0, 11, 22):
        keys, order = _radix_pass(keys, order, np.uint32(shift))
    out = np.empty(n, np.int32)
    for i in range(n):
        out[i] = rows[order[i]]
    _permute(records, order)
    return out


@compiled()
def _permute(records: Array, source: Indices) -> None:
    """Replace record ``i`` by record ``source[i]``, cycle by cycle; ``source`` is used up."""
    kept = np.empty(RECORD, np.float32)
    for first in range(len(source)):
        if source[first] < 0:
            continue
        for c in range(RECORD):
            kept[c] = records[first, c]
        at = first
        while source[at] != first:
            there = source[at]
            for c in range(RECORD):
                records[at, c] = records[there, c]
            source[at], at = -1, there
        for c in range(RECORD):
            records[at, c] = kept[c]
        source[at] = -1


@compiled()
def _radix_pass(keys: Any, order: Indices, shift: Any) -> Any:
    """Stable counting sort by eleven bits."""
    mask = np.uint32(2047)
    start = np.zeros(2049, np.int64)
    for i in range(len(keys)):
        start[((keys[i] >> shift) & mask) + 1] += 1
    for b in range(2048):
        start[b + 1] += start[b]
    new_keys, new_order = np.empty_like(keys), np.empty_like(order)
    for i in range(len(keys)):
        b = (keys[i] >> shift) & mask
        new_keys[start[b]], new_order[start[b]] = keys[i], order[i]
        start[b] += 1
    return new_keys, new_order


@compiled()
def _tiles(low: float, high: float, count: int) -> tuple[int, int]:
    """Tiles (first, one past the last) with a pixel centre between two coordinates."""
    first = math.floor((max(low, 0.0) - 0.5) / TILE)  # up to half a pixel too many: harmless
    last = math.floor((min(high, 1.0 * TILE * count) - 0.5) / TILE) + 1
    return max(int(first), 0), min(int(last), count)


@compiled()
def bin_strips(records: Array, strips: int) -> tuple[Any, Indices]:
    """Gaussians that touch each strip of tiles: the start of each list, and the lists, near first.

    The first pass counts, the second fills.
    """
    start = np.zeros(strips + 1, np.int64)
    filled = np.empty(0, np.int32)
    for fill in (False, True):
        for i in range(len(records)):
            y = np.float64(records[i, IY]) + 0.5 - records[i, HY]
            reach = records[i, EXT_Y] + MARGIN
            first, last = _tiles(y - reach, y + reach, strips)
            for s in range(first, last):
                if fill:
                    filled[start[s]] = i
                start[s + (not fill)] += 1
        if not fill:
            for s in range(strips):
                start[s + 1] += start[s]
            filled = np.empty(start[strips], np.int32)
    for s in range(strips, 0, -1):  # filling moved every start to that of the next list
        start[s] = start[s - 1]
    start[0] = 0
    return start, filled


@compiled("contract")
def _edge(records: Array, n: int, dy: float) -> float:
    """How far the footprint reaches in +x of its centre, on the line ``dy`` below it."""
    v = records[n, B] * dy
    return (
        records[n, G] * dy
        + math.sqrt(max(np.float64(records[n, P_MAX]) - v * v, 0.0)) / records[n, A]
    )


@compiled("contract")
def _tile_span(records: Array, n: int, y0: int, tiles: int) -> tuple[int, int]:
    """Tiles of the strip from row ``y0`` that the footprint touches.

    Exact for the ellipse: its widest point in the strip is its widest point or on the border.
    """
    top = max(np.float64(y0 - records[n, IY] + records[n, HY]), -np.float64(records[n, EXT_Y]))
    bottom = min(
        np.float64(y0 - records[n, IY] + records[n, HY] + (TILE - 1)), np.float64(records[n, EXT_Y])
    )
    if top > bottom + MARGIN:
        return 0, 0
    x, widest = np.float64(records[n, IX]) + 0.5 - records[n, HX], np.float64(records[n, DY_WIDEST])
    right = _edge(records, n, min(max(widest, top), bottom))
    left = -_edge(records, n, -min(max(-widest, top), bottom))
    return _tiles(x + left - MARGIN, x + right + MARGIN, tiles)


@compiled()
def bin_tiles(records: Array, members: Indices, y0: int, tiles: int) -> tuple[Any, Indices]:
    """The same for the tiles of one strip with Gaussians ``members``."""
    spans = np.empty((len(members), 2), np.int32)
    start = np.zeros(tiles + 1, np.int64)
    for j in range(len(members)):
        first, last = _tile_span(records, members[j], y0, tiles)
        spans[j, 0], spans[j, 1] = first, last
        for t in range(first, last):
            start[t + 1] += 1
    for t in range(tiles):
        start[t + 1] += start[t]
    filled, place = np.empty(start[tiles], np.int32), start.copy()
    for j in range(len(members)):
        for t in range(spans[j, 0], spans[j, 1]):
            filled[place[t]] = members[j]
            place[t] += 1
    return start, filled


# --- blend ----------------------------------------------------------------------------------------

# Records are passed as array and index: a view would be reference-counted, and all threads share
# one counter per array.

# A tile consists of blocks, a block of planes: transmittance, colour, depth. Indices are unsigned
# because numba tests signed ones for being negative, which prevents vectorisation.
BLOCK = np.uint64(BLOCK_X * BLOCK_Y)
T_PLANE, R_PLANE, G_PLANE, B_PLANE, D_PLANE = (np.uint64(i) * BLOCK for i in range(5))
PLANES = np.uint64(5)
# With labels each slot has the same blocks. Their planes are sums over its Gaussians: the weight,
# the weight times depth, and both again for the squared transmittance (light that passes twice).
WEIGHT, FAR, WEIGHT_TWICE, FAR_TWICE = (np.uint64(i) * BLOCK for i in range(4))
SUMS = np.uint64(4)
SLOT = SUMS * np.uint64(TILE * TILE)  # numbers of a slot
WIDE, HIGH = TILE // BLOCK_X, TILE // BLOCK_Y  # blocks in a tile
ALL = (1 << WIDE * HIGH) - 1  # of them, as bits
GRID_Y, GRID_X = np.divmod(np.arange(BLOCK, dtype=np.float32), np.float32(BLOCK_X))


@compiled()
def _splat(
    records: Array,
    n: int,
    x0: int,
    y0: int,
    tile: Array,
    closed: int,
    slopes: Array | None,
    slot: int,
    sums: Array,
) -> int:
    """Blend one Gaussian into the blocks of a tile that its box touches; returns how many.

    The bits of ``closed`` are blocks that are already opaque.
    """
    blocks, first = 0, np.uint64(slot) * SLOT
    hx, hy = (
        np.float32(x0 - records[n, IX]) + records[n, HX],
        np.float32(y0 - records[n, IY]) + records[n, HY],
    )
    reach_x, reach_y = (
        records[n, EXT_X] + np.float32(MARGIN),
        records[n, EXT_Y] + np.float32(MARGIN),
    )
    for j in range(HIGH):
        dy = hy + np.float32(j * BLOCK_Y)
        if dy > reach_y or dy < -reach_y - np.float32(BLOCK_Y - 1):
            continue
        for i in range(WIDE):
            dx = hx + np.float32(i * BLOCK_X)
            if dx > reach_x or dx < -reach_x - np.float32(BLOCK_X - 1):
                continue
            if (closed >> (j * WIDE + i)) & 1:
                continue
            at = np.uint64(j * WIDE + i) * BLOCK
            _blend(records, n, dx, dy, at * PLANES, tile, slopes, first + at * SUMS, sums)
            blocks += 1
    return blocks


@compiled("contract", "nsz")
def _blend(
    records: Array,
    n: int,
    hx: np.float32,
    hy: np.float32,
    at: Any,
    tile: Array,
    slopes: Array | None,
    base: Any,
    sums: Array,
) -> None:
    """Blend one Gaussian into the block at index ``at``, whose first pixel is ``hx, hy`` from it.

    A pixel that has become opaque keeps its transmittance with the sign changed, so that the same
    test discards every later weight. With ``slopes`` its weight and depth are added to the sums of
    its slot, from ``base`` on: a sheet that reduces the light from ``t`` to ``left`` reduces its
    square from ``t^2`` to ``left^2``. Without them this code is not compiled.
    """
    ux, vy, o, slope = (
        records[n, A],
        records[n, B],
        records[n, OPACITY],
        -records[n, G] * records[n, A],
    )
    red, green, blue, depth = (
        records[n, RED],
        records[n, GREEN],
        records[n, BLUE],
        records[n, DEPTH],
    )
    zx, zy = ZERO, ZERO
    if slopes is not None:
        zx, zy = slopes[n, 0], slopes[n, 1]
    for k in range(BLOCK):
        dx, dy = GRID_X[k] + hx, GRID_Y[k] + hy
        u, v = ux * dx + slope * dy, vy * dy
        p = u * u + v * v
        p = p if p < FAINT else FAINT
        shifted = ROUND - p
        f = (ROUND - shifted) - p
        e = ((((E5 * f + E4) * f + E3) * f + E2) * f + E1) * f + E0
        power = np.int32((np.float32(shifted).view(np.int32) << MANTISSA) + UNIT_BITS)
        alpha = o * (e * power.view(np.float32))
        alpha = alpha if alpha < CAP else CAP
        alpha = alpha if alpha >= LOW else ZERO
        t = tile[at + k + T_PLANE]
        left = t - alpha * t
        w = t - left if left > STOP else ZERO
        tile[at + k + T_PLANE] = left if left > STOP else -abs(t)
        tile[at + k + R_PLANE] += w * red
        tile[at + k + G_PLANE] += w * green
        tile[at + k + B_PLANE] += w * blue
        tile[at + k + D_PLANE] += w * depth
        if slopes is not None:
            here = depth + zx * dx + zy * dy
            sums[base + k + WEIGHT] += w
            sums[base + k + FAR] += w * here
            w *= t + left
            sums[base + k + WEIGHT_TWICE] += w
            sums[base + k + FAR_TWICE] += w * here


@compiled()
def _closed(tile: Array, closed: int) -> int:
    """Opaque blocks, as bits; those already ``closed`` stay."""
    for block in range(WIDE * HIGH):
        if (closed >> block) & 1:
            continue
        at, hidden = np.uint64(block) * PLANES * BLOCK, 1
        for k in range(BLOCK):  # stops at an open pixel; a maximum takes minutes to compile
            if tile[at + k] > ZERO:
                hidden = 0
                break
        closed |= hidden << block
    return closed


@compiled()
def _pixel(x: int, y: int) -> Any:
    """Index of the first plane of a tile's pixel."""
    block = (y // BLOCK_Y) * WIDE + x // BLOCK_X
    return np.uint64(block) * PLANES * BLOCK + np.uint64((y % BLOCK_Y) * BLOCK_X + x % BLOCK_X)


@compiled()
def _clear(tile: Array, wide: int, high: int) -> None:
    """Full transmittance and no colour; pixels outside the picture are opaque."""
    tile[:] = ZERO
    for y in range(TILE):
        for x in range(TILE):
            tile[_pixel(x, y)] = ONE if x < wide and y < high else -ONE


@compiled()
def _store(tile: Array, x0: int, y0: int, background: Array, out: Array) -> None:
    """Write red, green, blue, expected depth and alpha ``(H, W, 5)``."""
    for y in range(min(TILE, out.shape[0] - y0)):
        for x in range(min(TILE, out.shape[1] - x0)):
            k, pixel = _pixel(x, y), out[y0 + y, x0 + x]
            t = abs(tile[k + T_PLANE])
            alpha = ONE - t
            pixel[0] = tile[k + R_PLANE] + t * background[0]
            pixel[1] = tile[k + G_PLANE] + t * background[1]
            pixel[2] = tile[k + B_PLANE] + t * background[2]
            pixel[3] = tile[k + D_PLANE] / alpha if alpha > ZERO else ZERO
            pixel[4] = alpha


@compiled()
def _label(tile: Array, sums: Array, x0: int, y0: int, labelling: Labelling) -> None:
    """Label the pixels of a tile."""
    for y in range(min(TILE, labelling.slot.shape[0] - y0)):
        for x in range(min(TILE, labelling.slot.shape[1] - x0)):
            block = np.uint64((y // BLOCK_Y) * WIDE + x // BLOCK_X)
            k = np.uint64((y % BLOCK_Y) * BLOCK_X + x % BLOCK_X)
            light = abs(tile[block * PLANES * BLOCK + k])
            best, at, share = decide(
                labelling.objects, light, sums, block * SUMS * BLOCK + k, SLOT
            )  # fmt: skip
            far, flow_far = ZERO, ZERO
            if best >= 0:
                far = sums[at + FAR] / sums[at + WEIGHT]
                flow_far = sums[at + FAR_TWICE] / sums[at + WEIGHT_TWICE]
            labelling.slot[y0 + y, x0 + x], labelling.share[y0 + y, x0 + x] = best, share
            labelling.depth[y0 + y, x0 + x], labelling.flow_depth[y0 + y, x0 + x] = far, flow_far


@compiled()
def _room(labelling: Labelling | None) -> Array:
    """Room for the sums of a tile."""
    if labelling is None:
        return np.empty(0, np.float32)
    return np.empty(np.uint64(labelling.objects + 1) * SLOT, np.float32)


@compiled()
def _blend_lists(
    records: Array,
    rows: Indices,
    a: Indices,
    b: Indices,
    x0: int,
    y0: int,
    tile: Array,
    labelling: Labelling | None,
    sums: Array,
) -> tuple[int, int]:
    """Blend two lists of records, each near to far, as if they had been sorted together.

    At equal depth the lower row is in front. Returns how many of the first list were needed, and
    the number of blended blocks.
    """
    i, j, blocks, closed = 0, 0, 0, 0
    if labelling is not None:
        sums[:] = ZERO
    while i < len(a) or j < len(b):
        if (i + j) % CHECK_EVERY == 0:
            closed = _closed(tile, closed)
            if closed == ALL:
                break
        first = j == len(b)
        if not first and i < len(a):
            near, far = records[a[i], DEPTH], records[b[j], DEPTH]
            first = near < far or (near == far and rows[a[i]] < rows[b[j]])
        at = a[i] if first else b[j]
        i, j = i + first, j + (not first)
        if labelling is None:
            blocks += _splat(records, at, x0, y0, tile, closed, None, 0, sums)
        else:
            slot = labelling.slots[at]
            blocks += _splat(records, at, x0, y0, tile, closed, labelling.slopes, slot, sums)
    return i, blocks


@compiled()
def draw_strip(
    records: Array,
    members: Indices,
    strip: int,
    background: Array,
    out: Array,
    labelling: Labelling | None,
) -> tuple[Any, Indices, int]:
    """Draw one strip of tiles; returns each tile's list as far as it was needed, blended pixels.

    The lists come as their starts ``(tiles + 1,)`` and as one array. With ``labelling`` the strip
    is labelled too.
    """
    y0, tiles = strip * TILE, -(-out.shape[1] // TILE)
    start, filled = bin_tiles(records, members, y0, tiles)
    tile, none = np.empty(5 * TILE * TILE, np.float32), filled[:0]
    needed, kept, blocks, sums = np.zeros(tiles + 1, np.int64), 0, 0, _room(labelling)
    for t in range(tiles):
        _clear(tile, out.shape[1] - t * TILE, out.shape[0] - y0)
        its = filled[start[t] : start[t + 1]]
        count, more = _blend_lists(
            records, none, its, none, t * TILE, y0, tile, labelling, sums
        )  # fmt: skip
        for j in range(count):  # moves to the left, so nothing unread is overwritten
            filled[kept + j] = its[j]
        kept, blocks = kept + count, blocks + more
        needed[t + 1] = kept
        _store(tile, t * TILE, y0, background, out)
        if labelling is not None:
            _label(tile, sums, t * TILE, y0, labelling)
    return needed, filled[:kept], blocks * BLOCK_X * BLOCK_Y


# --- draw again what has changed ------------------------------------------------------------------


@compiled()
def _any(marks: Any, rows: Indices) -> bool:
    for i in range(len(rows)):  # noqa: SIM110 (numba knows no any)
        if marks[rows[i]]:
            return True
    return False


@compiled()
def redraw_strip(
    records: Array,
    rows: Indices,
    start: Any,
    lists: Indices,
    changed: Any,
    members: Indices,
    strip: int,
    background: Array,
    out: Array,
    labelling: Labelling | None,
) -> int:
    """Draw the tiles of a strip that ``members`` touch, or that hold a static one that ``changed``.

    ``start`` and ``lists`` are what :func:`draw_strip` returned for the static Gaussians, which
    come first among the records. Gaussians in between only make a tile opaque earlier, so the lists
    are long enough. Returns the number of blended pixels. With ``labelling`` the tiles that
    ``members`` touch are labelled too; the others changed because of a shadow, which affects only
    colours.
    """
    y0, tiles = strip * TILE, -(-out.shape[1] // TILE)
    begin, filled = bin_tiles(records, members, y0, tiles)
    tile, blocks, sums = np.empty(5 * TILE * TILE, np.float32), 0, _room(labelling)
    for t in range(tiles):
        its, new = lists[start[t] : start[t + 1]], filled[begin[t] : begin[t + 1]]
        if not (len(new) or _any(changed, its)):
            continue
        _clear(tile, out.shape[1] - t * TILE, out.shape[0] - y0)
        x0 = t * TILE
        if labelling is not None and len(new):
            blocks += _blend_lists(records, rows, its, new, x0, y0, tile, labelling, sums)[1]
            _label(tile, sums, x0, y0, labelling)
        else:
            blocks += _blend_lists(records, rows, its, new, x0, y0, tile, None, sums)[1]
        _store(tile, x0, y0, background, out)
    return blocks * BLOCK_X * BLOCK_Y

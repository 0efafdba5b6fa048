"""The second half of ``ewa``, compiled: sort records by depth, bin them into tiles, blend.

Numba's cache knows this file's own text alone: after changing a constant that is imported here,
remove the ``__pycache__`` beside it.
"""

import math
from typing import Any

import numpy as np

from .ewa_records import (
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
    Array,
    B,
    G,
    Indices,
    Layer,
    compiled,
)  # fmt: skip
from .footprint import ALPHA_CAP, ALPHA_MIN, T_MIN

TILE = 16  # pixels a side of what has its own list of Gaussians
BLOCK_X, BLOCK_Y = 8, 4  # pixels that are blended together, without a branch
CHECK_EVERY = 16  # Gaussians between two looks at whether a tile is opaque already
MARGIN = 1e-3  # pixels by which a footprint is widened before culling, against rounding

# A bare Python number would turn float32 arithmetic into float64.
ZERO, ONE, CAP, LOW, STOP = map(np.float32, (0, 1, ALPHA_CAP, ALPHA_MIN, T_MIN))
# Adding 1.5 * 2^23 rounds to an integer, whose bits then are the lowest of the sum.
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
def by_depth(records: Array, seen: Any) -> Layer:
    """The visible Gaussians from near to far; equal depths keep their order.

    A radix sort: the bits of positive floats are ordered as the floats are.
    """
    n = 0
    for i in range(len(seen)):
        n += seen[i]
    keys, order = np.empty(n, np.uint32), np.empty(n, np.int32)
    n = 0
    for i in range(len(seen)):
        if seen[i]:
            keys[n] = np.float32(records[i, DEPTH]).view(np.uint32)
            order[n] = i
            n += 1
    for shift in (0, 11, 22):
        keys, order = _radix_pass(keys, order, np.uint32(shift))
    out = np.empty((n, RECORD), np.float32)
    for i in range(n):
        for c in range(RECORD):
            out[i, c] = records[order[i], c]
    return Layer(out, order)


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
    """Tiles, first and one past the last, with a pixel centre between two coordinates."""
    first = math.floor((max(low, 0.0) - 0.5) / TILE)  # up to half a pixel too many: harmless
    last = math.floor((min(high, 1.0 * TILE * count) - 0.5) / TILE) + 1
    return max(int(first), 0), min(int(last), count)


@compiled()
def bin_strips(records: Array, strips: int) -> tuple[Any, Indices]:
    """Gaussians that touch each strip of tiles: where its list starts, and the lists, near first.

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
    for s in range(strips, 0, -1):  # filling moved every start to the next one's place
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

    Exact for the ellipse: its widest point in the strip is the widest of all or on the border.
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
    """The same for the tiles of one strip, whose Gaussians are ``members``."""
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

# Records are passed as array and index: a view of one would be counted, and all threads count the
# views of an array in one place.

# A tile is its blocks one after the other, and a block its planes: transmittance, colour, depth.
# Unsigned, because numba guards a signed index against being negative, which stops the compiler
# from taking eight pixels at a time.
BLOCK = np.uint64(BLOCK_X * BLOCK_Y)
T_PLANE, R_PLANE, G_PLANE, B_PLANE, D_PLANE = (np.uint64(i) * BLOCK for i in range(5))
PLANES = np.uint64(5)
WIDE, HIGH = TILE // BLOCK_X, TILE // BLOCK_Y  # blocks in a tile
ALL = (1 << WIDE * HIGH) - 1  # of them, as bits
GRID_Y, GRID_X = np.divmod(np.arange(BLOCK, dtype=np.float32), np.float32(BLOCK_X))


@compiled()
def _splat(records: Array, n: int, x0: int, y0: int, tile: Array, closed: int) -> int:
    """Blend one Gaussian into the blocks of a tile that its box touches; returns how many.

    The bits of ``closed`` are blocks in which nothing can be seen any more.
    """
    blocks = 0
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
            _blend(records, n, dx, dy, np.uint64(j * WIDE + i) * PLANES * BLOCK, tile)
            blocks += 1
    return blocks


@compiled("contract", "nsz")
def _blend(records: Array, n: int, hx: np.float32, hy: np.float32, at: Any, tile: Array) -> None:
    """Blend one Gaussian into the block at index ``at``, whose first pixel is ``hx, hy`` from it.

    A pixel that has become opaque keeps its transmittance with the sign changed: every later weight
    is then discarded by the same test.
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


@compiled()
def _closed(tile: Array, closed: int) -> int:
    """Blocks, as bits, behind which nothing can be seen any more; those ``closed`` before stay."""
    for block in range(WIDE * HIGH):
        if (closed >> block) & 1:
            continue
        at, hidden = np.uint64(block) * PLANES * BLOCK, 1
        for k in range(BLOCK):  # stops at an open pixel; a maximum would compile for minutes
            if tile[at + k] > ZERO:
                hidden = 0
                break
        closed |= hidden << block
    return closed


@compiled()
def _pixel(x: int, y: int) -> Any:
    """Where the first plane of a pixel of a tile stands."""
    block = (y // BLOCK_Y) * WIDE + x // BLOCK_X
    return np.uint64(block) * PLANES * BLOCK + np.uint64((y % BLOCK_Y) * BLOCK_X + x % BLOCK_X)


@compiled()
def _clear(tile: Array, wide: int, high: int) -> None:
    """Full transmittance and no colour; pixels outside the picture count as opaque."""
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
def _blend_lists(
    records: Array, rows: Indices, a: Indices, b: Indices, x0: int, y0: int, tile: Array
) -> tuple[int, int]:
    """Blend two lists of records, each near to far, as if they had been sorted together.

    Of two equally far the lower row is in front. Returns how many of the first list were needed,
    and the blocks blended.
    """
    i, j, blocks, closed = 0, 0, 0, 0
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
        blocks += _splat(records, at, x0, y0, tile, closed)
    return i, blocks


@compiled()
def draw_strip(
    records: Array, members: Indices, strip: int, background: Array, out: Array
) -> tuple[Any, Indices, int]:
    """Draw one strip of tiles; returns each tile's list as far as it was needed, blended pixels.

    The lists are where each one starts ``(tiles + 1,)`` and all of them in one.
    """
    y0, tiles = strip * TILE, -(-out.shape[1] // TILE)
    start, filled = bin_tiles(records, members, y0, tiles)
    tile, none = np.empty(5 * TILE * TILE, np.float32), filled[:0]
    needed, kept, blocks = np.zeros(tiles + 1, np.int64), 0, 0
    for t in range(tiles):
        _clear(tile, out.shape[1] - t * TILE, out.shape[0] - y0)
        its = filled[start[t] : start[t + 1]]
        count, more = _blend_lists(records, none, its, none, t * TILE, y0, tile)
        for j in range(count):  # to the left: nothing that is still to be read is overwritten
            filled[kept + j] = its[j]
        kept, blocks = kept + count, blocks + more
        needed[t + 1] = kept
        _store(tile, t * TILE, y0, background, out)
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
) -> int:
    """Draw the tiles of a strip that ``members`` touch, or that have a still one that ``changed``.

    ``start`` and ``lists`` are those that :func:`draw_strip` gave for the still Gaussians, which
    come first among the records. Whatever comes in between only makes a tile opaque earlier, so the
    lists are long enough. Returns how many pixels were blended.
    """
    y0, tiles = strip * TILE, -(-out.shape[1] // TILE)
    begin, filled = bin_tiles(records, members, y0, tiles)
    tile, blocks = np.empty(5 * TILE * TILE, np.float32), 0
    for t in range(tiles):
        its, new = lists[start[t] : start[t + 1]], filled[begin[t] : begin[t + 1]]
        if not (len(new) or _any(changed, its)):
            continue
        _clear(tile, out.shape[1] - t * TILE, out.shape[0] - y0)
        blocks += _blend_lists(records, rows, its, new, t * TILE, y0, tile)[1]
        _store(tile, t * TILE, y0, background, out)
    return blocks * BLOCK_X * BLOCK_Y

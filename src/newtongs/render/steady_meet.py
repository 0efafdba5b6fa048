"""Which Gaussians the pixels of ``steady`` meet, and at which depths, compiled.

Eight pixels of a row are processed together so that the compiler can vectorise them; exponentials
and logarithms are written out for the same reason. Everything is float64.

A pixel's data are the lines of two arrays. With separate arrays, passing them and counting their
references would cost more than a pixel's arithmetic.
"""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.jit import compiled
from ..base.types import Array
from .ewa_project import (
    DEPTH,
    HX,
    HY,
    IX,
    IY,
    OPACITY,
    P_MAX,
    A,
    B,
    G,
    Indices,
)  # fmt: skip
from .ewa_tiles import BLOCK_X
from .splat import ALPHA_CAP, T_MIN

Numbers: TypeAlias = npt.NDArray[np.float64]

# Columns of a Gaussian's line: relative change of its depth with x and y at its centre; half its
# interval, and one over the whole interval.
SLOPE_X, SLOPE_Y, HALF, SPARSE = range(4)
COLUMNS = 4
# A uniform interval with the Gaussian's variance is twice this many standard deviations long.
SPREAD = math.sqrt(3)
LEAST = 1e-6  # half an interval over its depth, at least: shorter ones have infinite density

# The inverse depth of a plane is linear in the picture. A large Gaussian of a floor would reach the
# horizon, so its nearness is at least this fraction of that at the centre.
GRAZING = 0.1

LN2 = math.log(2)
OPAQUE = -math.log(T_MIN)  # optical depth that hides everything behind it
FIRST_LOOK = 16  # Gaussians of a pixel before the first test whether it is opaque
LOOK_EVERY = 8  # Gaussians of a block between two tests
RUN = 12  # keys up to which insertion sort beats merging

# Adding 1.5 * 2^52 rounds to an integer, which then is in the lowest bits of the sum.
ROUND, MANTISSA, UNIT_BITS = 1.5 * 2.0**52, np.int64(52), np.int64(1023 << 52)
ROOT_BITS = np.float64(math.sqrt(0.5)).view(np.int64)
MOST_TURNS = 1000.0  # 2^-1000 is nothing
# Unsigned, because numba tests signed indices for being negative, which prevents vectorisation.
WIDTH = np.uint64(BLOCK_X)
ACROSS = np.arange(BLOCK_X, dtype=np.float64)

# Lines of the array of numbers. First those of each pixel of the row: where its intervals begin and
# end, and their density, which is optical depth over length.
BEGIN, END, DENSITY = range(0, 3 * BLOCK_X, BLOCK_X)
(
    FRONT,  # the least depth at which each Gaussian of the block begins in it
    CROSSED,  # what the row meets of one Gaussian: exponents, densities, depths
    # Of one pixel: where intervals begin and end, in order; then event after event, how the density
    # changes, where, and to what. Of the segment behind each event, if all light came in: what it
    # lets through; the integral of the transmittance over it; that of the transmittance times the
    # way into it; and both of the square of the transmittance.
    BEGINS, ENDS, CHANGE, AT, DENSE, KEPT, LIT, AHEAD, LIT_TWICE, AHEAD_TWICE, LINES,
) = range(3 * BLOCK_X, 3 * BLOCK_X + 13)  # fmt: skip
P_PLANE, DENSITY_PLANE, Z_PLANE = (np.uint64(i) * WIDTH for i in range(3))

# Lines of the array of places: of each pixel of the row, which Gaussians it meets; then
(
    TOUCHING,  # Gaussians that touch the block
    BY_FRONT,  # places in ``TOUCHING``, in the order of the fronts
    SPARE,  # for sorting
    COUNT,  # how many each pixel of the row has met
    LOOK,  # how many it must have met for the next look at whether it is opaque
    # Of one pixel: its intervals as they begin, as they end, the place of each in the latter, and
    # the interval of each event.
    FIRST, LAST, RANK, WHICH, PLACES,
) = range(BLOCK_X, BLOCK_X + 10)  # fmt: skip


@compiled()
def make_room(longest: int) -> tuple[Numbers, Indices]:
    """The two arrays, for lists of this length: twice as many events, and some more."""
    n = 2 * longest + 4 * BLOCK_X
    return np.empty((LINES, n), np.float64), np.empty((PLACES, n), np.int32)


@compiled()
def make_lines(records: Array, lines: Any) -> None:
    """Turn the slopes and deviations of ``depth_lines`` into lines, in place."""
    for i in range(len(records)):
        x, y, deviation = lines[i, SLOPE_X], lines[i, SLOPE_Y], lines[i, HALF]
        if not (abs(x) + abs(y) + deviation < np.inf):  # NaN fails too: taken as flat and facing us
            x, y, deviation = 0.0, 0.0, 0.0
        z = np.float64(records[i, DEPTH])
        lines[i, SLOPE_X], lines[i, SLOPE_Y] = x / z, y / z
        lines[i, HALF] = max(SPREAD * deviation, LEAST * z)
        lines[i, SPARSE] = 0.5 / lines[i, HALF]


# --- functions of which the compiler takes several at a time --------------------------------------


@compiled("contract", inside=True)
def halved(p: float) -> tuple[float, float]:
    """``2^-p`` for ``p >= 0``, to 1e-11, and ``1 - 2^-p`` to a relative 3e-11."""
    p = p if p < MOST_TURNS else MOST_TURNS
    shifted = ROUND - p
    turns = ROUND - shifted
    x = LN2 * (turns - p)
    y = x * x
    change = x + y * (
        (1 / 2 + x / 6)
        + y * ((1 / 24 + x / 120) + y * ((1 / 720 + x / 5040) + y * (1 / 40320 + x / 362880)))
    )
    power = np.int64((np.float64(shifted).view(np.int64) << MANTISSA) + UNIT_BITS)
    left = (1 + change) * power.view(np.float64)
    return left, 1 - left if turns > 0 else -change


@compiled("contract", inside=True)
def _optical_depth(alpha: float) -> float:
    """``-log(1 - alpha)``, to a relative 1e-11 for every alpha that is drawn."""
    bits = np.float64(1 - alpha).view(np.int64)
    power = (bits - ROOT_BITS) >> MANTISSA
    m = np.int64(bits - (power << MANTISSA)).view(np.float64)  # from sqrt(1/2) to sqrt(2)
    s = (m - 1) / (m + 1)
    q = s * s
    series = 1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q / 13))))
    return -LN2 * np.float64(power) - 2 * s * (1 + q * series)


# --- a row of pixels ------------------------------------------------------------------------------


@compiled(inside=True)
def _least(records: Array, n: int, dx: float, dy: float) -> float:
    """A lower bound of the exponents of a row of pixels: that of the nearest point between them."""
    slant, v = records[n, G] * dy, records[n, B] * dy
    u = records[n, A] * max(max(dx - slant, slant - dx - (BLOCK_X - 1)), 0.0)
    return u * u + v * v


@compiled("contract", "nsz", inside=True)
def _cross(records: Array, lines: Numbers, n: int, hx: float, dy: float, numbers: Numbers) -> None:
    """Exponents, densities and depths of a Gaussian for a row of pixels from ``hx, dy`` on."""
    a, o, z = float(records[n, A]), float(records[n, OPACITY]), records[n, DEPTH]
    v, slant = records[n, B] * dy, records[n, G] * dy
    slope_x, left, sparse = lines[n, SLOPE_X], 1 - lines[n, SLOPE_Y] * dy, lines[n, SPARSE]
    for k in range(WIDTH):
        dx = ACROSS[k] + hx
        u = a * (dx - slant)
        p = u * u + v * v
        alpha = o * halved(p)[0]
        alpha = alpha if alpha < ALPHA_CAP else ALPHA_CAP
        nearness = left - slope_x * dx
        nearness = nearness if nearness > GRAZING else GRAZING
        numbers[CROSSED, k + P_PLANE] = p
        numbers[CROSSED, k + DENSITY_PLANE] = _optical_depth(alpha) * sparse
        numbers[CROSSED, k + Z_PLANE] = z / nearness


@compiled()
def _opaque(numbers: Numbers, i: int, count: int, front: float) -> bool:
    """Whether the intervals that end before ``front`` are opaque together."""
    total = 0.0
    for k in range(count):
        if numbers[END + i, k] <= front:
            length = numbers[END + i, k] - numbers[BEGIN + i, k]
            total += numbers[DENSITY + i, k] * length
    return total > OPAQUE


@compiled()
def _look(numbers: Numbers, places: Indices, front: float, closed: int) -> int:
    """Pixels of the row, as bits, that are opaque before ``front``, or ``closed`` already."""
    for i in range(BLOCK_X):
        count = places[COUNT, i]
        if not (closed >> i) & 1 and count >= places[LOOK, i]:
            places[LOOK, i] += count // 2
            closed |= _opaque(numbers, i, count, front) << i
    return closed


@compiled()
def meet(
    records: Array,
    lines: Numbers,
    count: int,
    x0: int,
    y: int,
    wide: int,
    numbers: Numbers,
    places: Indices,
) -> None:
    """The intervals of the Gaussians that the ``wide`` pixels of a row meet, from ``x0`` on.

    The block's ``count`` Gaussians are visited in the order of their fronts: a pixel that is opaque
    before the next front is done.
    """
    for i in range(BLOCK_X):
        places[COUNT, i], places[LOOK, i] = 0, FIRST_LOOK
    everything = (1 << BLOCK_X) - 1
    closed = everything & ~((1 << wide) - 1)
    for j in range(count):
        at = places[BY_FRONT, j]
        if j % LOOK_EVERY == 0:
            closed = _look(numbers, places, numbers[FRONT, at], closed)
            if closed == everything:
                break
        n = places[TOUCHING, at]
        dx = (x0 - records[n, IX]) + np.float64(records[n, HX])
        dy = (y - records[n, IY]) + np.float64(records[n, HY])
        p_max, half = records[n, P_MAX], lines[n, HALF]
        if _least(records, n, dx, dy) > p_max:
            continue
        _cross(records, lines, n, dx, dy, numbers)
        for i in range(BLOCK_X):  # stored unconditionally: a branch would be mispredicted too often
            k, z = places[COUNT, i], numbers[CROSSED, i + Z_PLANE]
            places[i, k], numbers[DENSITY + i, k] = n, numbers[CROSSED, i + DENSITY_PLANE]
            numbers[BEGIN + i, k], numbers[END + i, k] = z - half, z + half
            met = (numbers[CROSSED, i + P_PLANE] <= p_max) & ~(closed >> i) & 1
            places[COUNT, i] = k + met


# --- sorting --------------------------------------------------------------------------------------


@compiled()
def _merge(keys: Any, source: Indices, first: int, middle: int, last: int, out: Indices) -> None:
    """Merge two sorted runs, stably."""
    i, j = first, middle
    for k in range(first, last):
        if i < middle and (j >= last or keys[source[i]] <= keys[source[j]]):
            out[k] = source[i]
            i += 1
        else:
            out[k] = source[j]
            j += 1


@compiled()
def sort(keys: Any, n: int, order: Indices, spare: Indices) -> None:
    """Sort indices of the first ``n`` keys into ``order``, stably.

    Short runs by insertion, then merged: the keys of a pixel are few and nearly sorted.
    """
    for first in range(0, n, RUN):
        for i in range(first, min(first + RUN, n)):
            key, j = keys[i], i
            while j > first and keys[order[j - 1]] > key:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    width = RUN
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            _merge(keys, order, first, middle, last, spare)
        for i in range(n):
            order[i] = spare[i]
        width *= 2

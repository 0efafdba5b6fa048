"""The blending of ``steady``, compiled: one pixel after the other, in float64.

A pixel's Gaussians are intervals of depth, each with its optical depth spread evenly over it. The
ends of all intervals are sorted; between two of them everything is constant, so that the light of
a segment is exact: its transmittance times ``1 - exp(-optical depth)``, in the mean colour of what
is there.

Numba's cache knows this file's own text alone: after changing a constant that is imported here,
remove the ``__pycache__`` beside it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .ewa_records import (
    BLUE,
    DEPTH,
    EXT_X,
    EXT_Y,
    GREEN,
    HX,
    HY,
    IX,
    IY,
    OPACITY,
    P_MAX,
    RED,
    A,
    Array,
    B,
    G,
    Indices,
    compiled,
)  # fmt: skip
from .ewa_tiles import BLOCK_X, BLOCK_Y, MARGIN, TILE, bin_tiles
from .footprint import ALPHA_CAP, NEAR, T_MIN
from .labels import decide

# Columns of a Gaussian's line: by what part its depth changes with x and y, at its centre, and half
# its interval.
SLOPE_X, SLOPE_Y, HALF = range(3)
LINE = 3
# The evenly filled interval with the same variance as the Gaussian is this many deviations long.
SPREAD = math.sqrt(3)
LEAST = 1e-6  # of its depth: half an interval is no shorter, or its density would be infinite

# The inverse of the depth of a plane is linear in the picture. A large Gaussian of a floor would
# reach the horizon; this part of its nearness at the centre is the least.
GRAZING = 0.1

LN2 = math.log(2)
OPAQUE = -math.log(T_MIN)  # optical depth behind which nothing is seen
FIRST_LOOK = 16  # Gaussians of a pixel before the first look at whether it is opaque already
THIN = 1e-3  # optical depth of a segment whose light comes from all of it alike, nearly
LOST = 1e-9  # part of a sum, or of its largest value so far, that rounding may have spoilt
RUN = 12  # keys that insertion sorts faster than merging does


class Room(NamedTuple):
    """What one thread needs for a block and a pixel, as long as the longest list of a tile."""

    block: Indices  # (n,): Gaussians that touch the block
    front: npt.NDArray[np.float64]  # (n,): the least depth at which each begins in the block
    near: Indices  # (n,): places in ``block``, in the order of the fronts
    met: Indices  # (n,): Gaussians that the pixel meets
    density: npt.NDArray[np.float64]  # (n,): their optical depth over the length of the interval
    begin: npt.NDArray[np.float64]  # (n,)
    end: npt.NDArray[np.float64]  # (n,)
    order: Indices  # (n,): as they begin
    open: Indices  # (n,): those that have begun and not ended, the next to end last


class Naming(NamedTuple):
    """What the labels of a picture need, and where they are written."""

    slots: Any  # (n,) int16: slot of each record
    objects: int
    slot: Any  # this and the next three as in Labels
    depth: Array
    share: Array
    flow_depth: Array


# Integrals over depth: of the transmittance, of it times the depth, and both of its square, as for
# light that goes through twice.
LIT, FAR, LIT_TWICE, FAR_TWICE = range(4)
INTEGRALS = 4


class Slate(NamedTuple):
    """The same with room for a pixel. Not in ``Room``: pictures without labels would be slower."""

    naming: Naming
    passed: npt.NDArray[np.float64]  # (INTEGRALS,): up to here
    its: npt.NDArray[np.float64]  # (n, INTEGRALS): over each interval
    slots: npt.NDArray[np.float64]  # (INTEGRALS, slots): of what each has, times its density


@compiled()
def make_lines(records: Array, lines: Any) -> None:
    """From slopes and deviations as ``depth_lines`` gives them to lines, in place."""
    for i in range(len(records)):
        x, y, deviation = lines[i, SLOPE_X], lines[i, SLOPE_Y], lines[i, HALF]
        if not (abs(x) + abs(y) + deviation < np.inf):  # NaN fails too: taken as flat and facing us
            x, y, deviation = 0.0, 0.0, 0.0
        z = np.float64(records[i, DEPTH])
        lines[i, SLOPE_X], lines[i, SLOPE_Y] = x / z, y / z
        lines[i, HALF] = max(SPREAD * deviation, LEAST * z)


# --- one pixel ------------------------------------------------------------------------------------


@compiled()
def _opaque(room: Room, met: int, front: float) -> bool:
    """Whether nothing from ``front`` on can be seen behind what ends before it."""
    total = 0.0
    for k in range(met):
        if room.end[k] <= front:
            total += room.density[k] * (room.end[k] - room.begin[k])
    return total > OPAQUE


@compiled("contract")
def _meet(records: Array, lines: Any, count: int, x: int, y: int, room: Room) -> int:
    """The intervals of the Gaussians that a pixel meets; returns how many.

    Those of the block come in the order of their fronts: a pixel that is opaque before the next
    front is done.
    """
    met, look = 0, FIRST_LOOK
    for j in range(count):
        n = room.block[room.near[j]]
        if met >= look:
            if _opaque(room, met, room.front[room.near[j]]):
                break
            look += met // 2
        dx = (x - records[n, IX]) + np.float64(records[n, HX])
        dy = (y - records[n, IY]) + np.float64(records[n, HY])
        u, v = records[n, A] * (dx - records[n, G] * dy), records[n, B] * dy
        p = u * u + v * v
        if p > records[n, P_MAX]:
            continue
        alpha = min(records[n, OPACITY] * math.exp(-LN2 * p), ALPHA_CAP)
        z = records[n, DEPTH] / max(1 - lines[n, SLOPE_X] * dx - lines[n, SLOPE_Y] * dy, GRAZING)
        begin, end = z - lines[n, HALF], z + lines[n, HALF]
        room.met[met], room.density[met] = n, -math.log(1 - alpha) / (end - begin)
        room.begin[met], room.end[met] = begin, end
        met += 1
    return met


@compiled()
def _merge(keys: Any, source: Indices, first: int, middle: int, last: int, out: Indices) -> None:
    """Two sorted runs into one; of equal keys the first run's come first."""
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
    """Indices of the first ``n`` keys into ``order``, smallest first; equal ones stay in order.

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


@compiled()
def _opened(room: Room, k: int, count: int) -> None:
    """Put interval ``k`` among the ``count`` open ones, so that the next to end is the last."""
    at = count
    while at > 0 and room.end[room.open[at - 1]] < room.end[k]:
        room.open[at] = room.open[at - 1]
        at -= 1
    room.open[at] = k


@compiled()
def _summed(records: Array, room: Room, count: int) -> tuple[float, float, float, float]:
    """Density of what is open, and its colour times that, added up anew."""
    density, r, g, b = 0.0, 0.0, 0.0, 0.0
    for j in range(count):
        k = room.open[j]
        n, its = room.met[k], room.density[k]
        density += its
        r, g, b = r + its * records[n, RED], g + its * records[n, GREEN], b + its * records[n, BLUE]
    return density, r, g, b


@compiled()
def _middle(density: float, length: float, light: float, left: float) -> float:
    """How far into a segment its light comes from, in the mean.

    ``light`` enters it and ``left`` leaves it. Where next to nothing is lost the formula cancels.
    """
    tau = density * length
    if tau < THIN:
        return length * (0.5 - tau / 12)
    return 1 / density - length * left / (light - left)


@compiled()
def _pass_segment(
    passed: Any, at: float, density: float, length: float, light: float, left: float
) -> None:
    """Add a segment, which ``light`` enters and ``left`` leaves, to the integrals."""
    w = (light - left) / density
    passed[LIT] += w
    passed[FAR] += w * (at + _middle(density, length, light, left))
    w *= (light + left) / 2
    passed[LIT_TWICE] += w
    passed[FAR_TWICE] += w * (at + _middle(2 * density, length, light * light, left * left))


@compiled()
def _count_anew(room: Room, slate: Slate, count: int) -> None:
    """Let the integrals begin with 0 here, for an interval that adds too little to them.

    What it adds to the square's is the least of all, in proportion.
    """
    for j in range(count):
        slate.its[room.open[j]] -= slate.passed
    slate.passed[:] = 0.0


@compiled()
def _name(room: Room, slate: Slate, begun: int, count: int, light: float, y: int, x: int) -> None:
    """Label a pixel after its walk, which ended with ``count`` intervals open.

    In a segment a Gaussian has the part of the light that its density is of the whole. Over its
    interval that is its density times the integral of the transmittance.

    Depth is where the light comes from and not the middles of the intervals, which are those that
    ``ewa`` takes. The factory's ball is not opaque at once: middles lie 1.5 percent of its radius
    below its skin, and this 0.1. Of a thick Gaussian that is opaque, it is the front.
    """
    naming, passed, its, slots = slate
    for j in range(count):
        k = room.open[j]
        for q in range(INTEGRALS):
            its[k, q] = passed[q] - its[k, q]
    slots[:] = 0.0
    for j in range(begun):
        k = room.order[j]
        slot, density = naming.slots[room.met[k]], room.density[k]
        for q in range(INTEGRALS):
            slots[q, slot] += density * its[k, q]
    best, at, share = decide(naming.objects, light, slots[LIT], 0, 1)
    z, flow_z = 0.0, 0.0
    if best >= 0:  # what surrounds the camera begins behind it
        z = max(slots[FAR, at] / slots[LIT, at], NEAR)
        flow_z = max(slots[FAR_TWICE, at] / slots[LIT_TWICE, at], NEAR)
    naming.slot[y, x], naming.share[y, x] = best, share
    naming.depth[y, x], naming.flow_depth[y, x] = z, flow_z


@compiled("contract")
def _walk(
    records: Array,
    met: int,
    room: Room,
    background: Array,
    out: Array,
    y: int,
    x: int,
    slate: Slate | None,
) -> None:
    """Add up the segments between the ends: red, green, blue, depth and alpha of a pixel.

    Without ``slate`` the compiler leaves out what labels need.
    """
    first = room.begin[room.order[0]] if met else 0.0
    light, density, at, begun, count = 1.0, 0.0, first, 0, 0
    most = 0.0  # density since the sums were added up anew
    r, g, b = 0.0, 0.0, 0.0  # of what is here, times its density
    red, green, blue = 0.0, 0.0, 0.0
    whole = 0.0  # integral of the transmittance from the first begin on
    if slate is not None:
        slate.passed[:] = 0.0
    while begun < met or count:
        k = room.order[begun] if begun < met else room.open[count - 1]
        begins = begun < met
        if begins and count and room.end[room.open[count - 1]] <= room.begin[k]:
            k, begins = room.open[count - 1], False
        to = room.begin[k] if begins else room.end[k]
        if count and to > at:
            left = light * math.exp(-density * (to - at))
            w = (light - left) / density
            red, green, blue, whole = red + w * r, green + w * g, blue + w * b, whole + w
            if slate is not None:
                _pass_segment(slate.passed, at, density, to - at, light, left)
            light, at = left, to
            if light < T_MIN:
                break
        elif not count:
            whole += light * (to - at)
        at, n, change = to, room.met[k], room.density[k]
        if slate is not None:
            length = room.end[k] - room.begin[k]
            if begins and light * light * length < LOST * slate.passed[LIT_TWICE]:
                _count_anew(room, slate, count)
            for q in range(INTEGRALS):
                before = 0.0 if begins else slate.its[k, q]
                slate.its[k, q] = slate.passed[q] - before
        if begins:
            _opened(room, k, count)
            begun, count = begun + 1, count + 1
        else:
            count, change = count - 1, -change
        density += change
        r, g, b = (
            r + change * records[n, RED],
            g + change * records[n, GREEN],
            b + change * records[n, BLUE],
        )
        most = max(most, density)
        if density < LOST * most or not count:  # what rounding has left would add up
            density, r, g, b = _summed(records, room, count)
            most = density
    out[y, x, 0] = red + light * background[0]
    out[y, x, 1] = green + light * background[1]
    out[y, x, 2] = blue + light * background[2]
    depth = first - light * at + whole  # of all light, by parts
    out[y, x, 3] = max(depth / (1 - light), NEAR) if light < 1 else 0.0
    out[y, x, 4] = 1 - light
    if slate is not None:
        _name(room, slate, begun, count, light, y, x)


# --- strips ---------------------------------------------------------------------------------------


@compiled("contract")
def _touching(
    records: Array, lines: Any, its: Indices, x0: int, y0: int, block: Indices, front: Any
) -> int:
    """Those of a tile's Gaussians whose box touches the block from pixel ``x0, y0``.

    Nearness is linear in the picture, so that it is largest in a corner of the block.
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
        block[count] = n
        front[count] = records[n, DEPTH] / max(nearness, GRAZING) - lines[n, HALF]
        count += 1
    return count


@compiled()
def _draw_block(
    records: Array,
    lines: Any,
    its: Indices,
    x0: int,
    y0: int,
    room: Room,
    background: Array,
    out: Array,
    slate: Slate | None,
) -> None:
    count = _touching(records, lines, its, x0, y0, room.block, room.front)
    sort(room.front, count, room.near, room.open)
    for y in range(y0, min(y0 + BLOCK_Y, out.shape[0])):
        for x in range(x0, min(x0 + BLOCK_X, out.shape[1])):
            met = _meet(records, lines, count, x, y, room)
            sort(room.begin, met, room.order, room.open)
            _walk(records, met, room, background, out, y, x, slate)


@compiled()
def draw_strip(
    records: Array,
    lines: Any,
    members: Indices,
    strip: int,
    wanted: Any,
    background: Array,
    out: Array,
    naming: Naming | None,
) -> None:
    """Draw the ``wanted (tiles,)`` tiles of a strip, whose Gaussians are ``members``.

    With ``naming`` they are labelled too.
    """
    y0, tiles = strip * TILE, -(-out.shape[1] // TILE)
    start, filled = bin_tiles(records, members, y0, tiles)
    longest = 0
    for t in range(tiles):
        longest = max(longest, start[t + 1] - start[t])
    i32, f64 = np.int32, np.float64
    room = Room(
        np.empty(longest, i32), np.empty(longest, f64), np.empty(longest, i32),
        np.empty(longest, i32), np.empty(longest, f64), np.empty(longest, f64),
        np.empty(longest, f64), np.empty(longest, i32), np.empty(longest, i32),
    )  # fmt: skip
    slate = None
    if naming is not None:
        slots = naming.objects + 1
        slate = Slate(
            naming, np.empty(INTEGRALS, f64), np.empty((longest, INTEGRALS), f64),
            np.empty((INTEGRALS, slots), f64),
        )  # fmt: skip
    for t in range(tiles):
        if not wanted[t]:
            continue
        its = filled[start[t] : start[t + 1]]
        for y in range(y0, min(y0 + TILE, out.shape[0]), BLOCK_Y):
            for x in range(t * TILE, min((t + 1) * TILE, out.shape[1]), BLOCK_X):
                _draw_block(records, lines, its, x, y, room, background, out, slate)

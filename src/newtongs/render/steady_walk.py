"""The light of one pixel of ``steady``, compiled.

The ends of all its intervals are sorted. Between two of them everything is constant, so the light
of a segment is exact: its transmittance times ``1 - exp(-optical depth)``, in the mean colour of
the Gaussians there. The ray is cut into segments, then the exponentials of all segments are
computed, several at a time, and then the light is accumulated along the ray.
"""

from typing import Any, TypeAlias

import numpy as np

from ..base.jit import compiled
from ..base.types import Array
from .ewa_project import BLUE, GREEN, RED, Indices
from .splat import NEAR
from .steady_meet import (
    AHEAD,
    AHEAD_TWICE,
    AT,
    BEGIN,
    BEGINS,
    CHANGE,
    COUNT,
    DENSE,
    DENSITY,
    END,
    ENDS,
    FIRST,
    KEPT,
    LAST,
    LIT,
    LIT_TWICE,
    LN2,
    OPAQUE,
    RANK,
    SPARE,
    WHICH,
    Numbers,
    halved,
    sort,
)  # fmt: skip

THIN = 1e-3  # optical depth below which a segment emits almost uniformly
LOST = 1e-9  # fraction of the largest density so far that may be rounding error
SAFE = 1e8  # largest product of a density and an integral: its rounding error is 1e-8
SHIFTS = 8  # per key, after which insertion sort gives way to merging
AT_ONCE, ONE = 8, np.uint64(1)

# Sums of a slot: its Gaussians' densities times integrals over their intervals, of the
# transmittance, of the transmittance times depth, and of both for the squared transmittance.
WEIGHT, FAR, WEIGHT_TWICE, FAR_TWICE = range(4)
SUMS = 4
Passed: TypeAlias = tuple[float, float, float, float]
"""The integrals up to a point of the ray."""


# --- the segments ---------------------------------------------------------------------------------


@compiled(inside=True)
def _put_in_order(
    numbers: Numbers, places: Indices, line: int, n: int, values: int, order: int
) -> None:
    """Sort the ``n`` keys of a ``line`` into that of their ``values``, and ``order``.

    By insertion, since they are usually nearly sorted; otherwise by merging.
    """
    left = SHIFTS * n
    for k in range(n):
        key, at = numbers[line, k], k
        while at > 0 and numbers[values, at - 1] > key:
            numbers[values, at] = numbers[values, at - 1]
            places[order, at] = places[order, at - 1]
            at -= 1
        numbers[values, at], places[order, at] = key, k
        left -= k - at
        if left < 0:
            break
    if left < 0:
        sort(numbers[line], n, places[order], places[SPARE])
        for k in range(n):
            numbers[values, k] = numbers[line, places[order, k]]


@compiled()
def _put_in_orders(numbers: Numbers, places: Indices, i: int) -> None:
    """Intervals of pixel ``i`` as they begin and as they end."""
    met = places[COUNT, i]
    _put_in_order(numbers, places, BEGIN + i, met, BEGINS, FIRST)
    _put_in_order(numbers, places, END + i, met, ENDS, LAST)
    for k in range(met):
        places[RANK, places[LAST, k]] = k
    numbers[BEGINS, met], places[FIRST, met] = np.inf, 0  # every open interval ends before


@compiled()
def _added_up(numbers: Numbers, places: Indices, i: int, begun: int, ended: int) -> float:
    """Total density of the open intervals."""
    density = 0.0
    for j in range(begun if begun > ended else 0):
        k = places[FIRST, j]
        if places[RANK, k] >= ended:
            density += numbers[DENSITY + i, k]
    return density


@compiled(inside=True)
def _whole(count: int) -> int:
    """The next multiple of the vector length."""
    return (count + AT_ONCE - 1) & -AT_ONCE


@compiled("contract")
def _cut(numbers: Numbers, places: Indices, i: int) -> tuple[int, int, bool]:
    """Cut the ray of pixel ``i`` where intervals begin or end, as far as light comes.

    Returns how many of these events there are, of which how many are begins, and whether some
    interval is so dense that its part of an integral over all of the ray might be lost. Where the
    last segment ends is stored behind the last event.
    """
    met, begun, ended, count = places[COUNT, i], 0, 0, 0
    at, density, tau, most, densest = 0.0, 0.0, 0.0, 0.0, 0.0
    while ended < met:
        begin, end = numbers[BEGINS, begun], numbers[ENDS, ended]
        next_begun, next_ended = places[FIRST, begun], places[LAST, ended]
        ends = int(end <= begin)  # a number: a branch would be mispredicted too often
        to, k = min(begin, end), next_begun + ends * (next_ended - next_begun)
        tau += density * (to - at)
        at = to
        if tau > OPAQUE:
            break
        change = (1 - 2 * ends) * numbers[DENSITY + i, k]
        begun, ended = begun + 1 - ends, ended + ends
        density += change
        most, densest = max(most, density), max(densest, change)
        if density < LOST * most:  # rounding errors would accumulate
            density = _added_up(numbers, places, i, begun, ended)
            most = density
        places[WHICH, count], numbers[CHANGE, count] = k, change
        numbers[AT, count], numbers[DENSE, count] = to, density
        count += 1
    for e in range(count, _whole(count) + 1):
        numbers[AT, e], numbers[DENSE, e] = at, 0.0
    start = numbers[AT, 0]
    safe = start > 0 and densest * (at - start) * (1 + at / start) < SAFE
    return count, begun, not safe


@compiled("contract")
def _light_up(numbers: Numbers, count: int) -> None:
    """Transmittance of each segment, and its integral over the segment."""
    for e in range(np.uint64(_whole(count))):
        density, length = numbers[DENSE, e], numbers[AT, e + ONE] - numbers[AT, e]
        left, lost = halved(density * length / LN2)
        numbers[KEPT, e] = left
        numbers[LIT, e] = lost / density if density > 0 else length


@compiled("contract", inside=True)
def _ahead(density: float, length: float, left: float, lit: float) -> float:
    """The integral of the transmittance times the way into a segment, over it.

    For thin segments the formula cancels, and a series takes its place.
    """
    tau = density * length
    return (lit - length * left) / density if tau > THIN else lit * length * (0.5 - tau / 12)


@compiled("contract")
def _look_into(numbers: Numbers, count: int) -> None:
    """The integrals over each segment that labels need."""
    for e in range(np.uint64(_whole(count))):
        density, length = numbers[DENSE, e], numbers[AT, e + ONE] - numbers[AT, e]
        left, lit = numbers[KEPT, e], numbers[LIT, e]
        twice = 0.5 * lit * (1 + left)
        numbers[AHEAD, e] = _ahead(density, length, left, lit)
        numbers[LIT_TWICE, e] = twice
        numbers[AHEAD_TWICE, e] = _ahead(2 * density, length, left * left, twice)


# --- the light ------------------------------------------------------------------------------------


@compiled("contract", inside=True)
def _note(sums: Numbers, slot: int, change: float, passed: Passed) -> None:
    """Subtract ``change`` times the integrals from the sums of a slot."""
    for q in range(SUMS):
        sums[SUMS * slot + q] -= change * passed[q]


@compiled("contract")
def _settle(
    records: Array,
    numbers: Numbers,
    places: Indices,
    i: int,
    begun: int,
    ended: int,
    passed: Passed,
    slots: Any,
    sums: Numbers,
) -> tuple[float, float, float]:
    """The colours that the open intervals have added so far; their slots' sums are updated."""
    lit, r, g, b = passed[0], 0.0, 0.0, 0.0
    for j in range(begun if begun > ended else 0):
        k = places[FIRST, j]
        if places[RANK, k] >= ended:
            n, density = places[i, k], numbers[DENSITY + i, k]
            its = density * lit
            r, g, b = (
                r + its * records[n, RED],
                g + its * records[n, GREEN],
                b + its * records[n, BLUE],
            )
            if slots is not None:
                _note(sums, slots[n], -density, passed)
    return r, g, b


@compiled()
def _begun(numbers: Numbers, count: int) -> int:
    """How many of the first ``count`` events are starts of intervals."""
    begun = 0
    for e in range(count):
        begun += numbers[CHANGE, e] > 0
    return begun


@compiled("contract")
def follow(
    records: Array,
    numbers: Numbers,
    places: Indices,
    i: int,
    background: Array,
    out: Array,
    y: int,
    x: int,
    slots: Any,
    sums: Numbers,
) -> float:
    """Accumulate the light of pixel ``i``: colour, depth and alpha. Returns the transmittance.

    In a segment a Gaussian contributes in proportion to its density. Over its interval that is its
    density times the integral of the transmittance: its value at the end minus that at the start.

    Without ``slots`` the code for labels is not compiled.
    """
    _put_in_orders(numbers, places, i)
    count, begins, careful = _cut(numbers, places, i)
    _light_up(numbers, count)
    light, red, green, blue = 1.0, 0.0, 0.0, 0.0
    start, whole = numbers[AT, 0], 0.0  # integral of the transmittance from the first begin on
    lit, far, lit_twice, far_twice = 0.0, 0.0, 0.0, 0.0  # since the last reset
    if slots is not None:
        _look_into(numbers, count)
        sums[:] = 0.0
    for e in range(count):
        at, change, n = numbers[AT, e], numbers[CHANGE, e], places[i, places[WHICH, e]]
        # A bound of the integral times depth; the same with labels and without.
        if careful and abs(change) * lit * max(abs(at), abs(start)) > SAFE * abs(at):
            begun = _begun(numbers, e)
            passed = lit, far, lit_twice, far_twice
            r, g, b = _settle(
                records, numbers, places, i, begun, e - begun, passed, slots, sums
            )  # fmt: skip
            red, green, blue = red + r, green + g, blue + b
            lit, far, lit_twice, far_twice = 0.0, 0.0, 0.0, 0.0
        its = change * lit
        red, green, blue = (
            red - its * records[n, RED],
            green - its * records[n, GREEN],
            blue - its * records[n, BLUE],
        )
        if slots is not None:
            _note(sums, slots[n], change, (lit, far, lit_twice, far_twice))
            far += light * (numbers[LIT, e] * at + numbers[AHEAD, e])
            lit_twice += light * light * numbers[LIT_TWICE, e]
            far_twice += light * light * (numbers[LIT_TWICE, e] * at + numbers[AHEAD_TWICE, e])
        its = light * numbers[LIT, e]
        lit, whole = lit + its, whole + its
        light *= numbers[KEPT, e]
    passed = lit, far, lit_twice, far_twice
    r, g, b = _settle(
        records, numbers, places, i, begins, count - begins, passed, slots, sums
    )  # fmt: skip
    out[y, x, 0] = max(red + r, 0.0) + light * background[0]
    out[y, x, 1] = max(green + g, 0.0) + light * background[1]
    out[y, x, 2] = max(blue + b, 0.0) + light * background[2]
    depth = start - light * numbers[AT, count] + whole  # of all light, by parts
    out[y, x, 3] = max(depth / (1 - light), NEAR) if light < 1 else 0.0
    out[y, x, 4] = 1 - light
    return light

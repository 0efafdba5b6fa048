"""The training objective and its gradient in one pass over the states, as a Triton kernel.

Each of a program's sums has a row: the mean squares of p, v, w, s and u, then orientation,
penetration, curvature of p and of s, material.
"""

import triton
import triton.language as tl


@triton.jit
def _of_target(target, row, inside, channel):
    """A channel of the target, whose states are stored one after the other."""
    return tl.load(target + row + channel, inside, other=0.0)


@triton.jit
def _sum_to(sums, at, count, x):
    """Store to the program's own element of the sums: no atomics, a fixed order."""
    tl.store(sums + at * count, tl.sum(x))


@triton.jit
def _norm(q):
    square = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]
    return tl.sqrt(tl.maximum(square, 1e-16))


@triton.jit
def _bend(x, n22, t, T, at, inside):
    """Second difference over time around frame ``t``, zero at the ends."""
    there = inside & (t > 0) & (t < T - 1)
    before = tl.load(x + (t - 1) * n22 + at, there, other=0.0)
    middle = tl.load(x + t * n22 + at, there, other=0.0)
    after = tl.load(x + (t + 1) * n22 + at, there, other=0.0)
    return after - 2 * middle + before


@triton.jit
def objective_kernel(
    states, target, gradient, sums, n, T, floor,
    to_p, to_v, to_w, to_s, to_u, to_q, to_penetration, to_bend_p, to_bend_s,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Programs (i, t): rows ``ROWS i`` and on of frame t. ``to_x`` are the terms' factors."""
    t = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    n22 = tl.cast(n, tl.int64) * 22
    a, b = states + t * n22 + rows, (rows.to(tl.int64) * T + t) * 22
    out = gradient + t * n22 + rows
    here = sums + t * tl.num_programs(0) + tl.program_id(0)
    count = T * tl.num_programs(0)
    none = tl.zeros((ROWS,), tl.float32)

    # Penetration of the floor, from the scale and the position along y.
    s_y = tl.load(a + 14 * n, inside, other=0.0)
    deep = tl.maximum(floor + tl.abs(s_y) - tl.load(a + n, inside, other=0.0), 0.0)
    deep = tl.where(inside, deep, 0.0)
    _sum_to(here, 6, count, deep * deep)
    side = tl.where(s_y > 0, 1.0, tl.where(s_y < 0, -1.0, 0.0))

    first, factors = (0, 7, 10, 13, 16), (to_p, to_v, to_w, to_s, to_u)
    for group in tl.static_range(5):
        squares, bends = none, none
        for i in tl.static_range(3):
            channel = first[group] + i
            d = tl.load(a + channel * n, inside, other=0.0)
            d -= _of_target(target, b, inside, channel)
            squares += d * d
            g = factors[group] * d
            if group == 0 or group == 3:
                at = channel * n + rows
                bend = _bend(states, n22, t, T, at, inside)
                bends += bend * bend
                bend = _bend(states, n22, t - 1, T, at, inside) - 2 * bend
                bend += _bend(states, n22, t + 1, T, at, inside)
                g += (to_bend_p if group == 0 else to_bend_s) * bend
            if group == 0 and i == 1:
                g -= to_penetration * deep
            if group == 3 and i == 1:
                g += to_penetration * deep * side
            tl.store(out + channel * n, g, inside)
        _sum_to(here, group, count, squares)
        if group == 0:
            _sum_to(here, 7, count, bends)
        if group == 3:
            _sum_to(here, 8, count, bends)

    _orientation(a, out, target, b, inside, n, here, count, to_q)

    squares = none
    for i in tl.static_range(3):
        d = tl.load(a + (19 + i) * n, inside, other=0.0)
        d -= _of_target(target, b, inside, 19 + i)
        squares += d * d
        tl.store(out + (19 + i) * n, none, inside)
    _sum_to(here, 9, count, squares)


@triton.jit
def _orientation(a, out, target, b, inside, n, here, count, to_q):
    """``1 - <q, q'>^2`` of normalised quaternions, independent of their signs."""
    q, p = (), ()
    for i in tl.static_range(4):
        q = q + (tl.load(a + (3 + i) * n, inside, other=0.0),)
        p = p + (_of_target(target, b, inside, 3 + i),)
    length, other = _norm(q), _norm(p)
    along = (q[0] * p[0] + q[1] * p[1] + q[2] * p[2] + q[3] * p[3]) / (length * other)
    # Values beyond one are rounding errors: clamped, without gradient.
    beyond = tl.abs(along) > 1
    square = tl.where(beyond, 1.0, along * along)
    _sum_to(here, 5, count, tl.where(inside, 1 - square, 0.0))
    factor = tl.where(beyond, 0.0, -to_q * along)
    # At the floor of the norm the division is by a constant.
    kept = tl.where(length > 1e-8, along, 0.0)
    for i in tl.static_range(4):
        g = factor * (p[i] / other - kept * q[i] / length) / length
        tl.store(out + (3 + i) * n, g, inside)

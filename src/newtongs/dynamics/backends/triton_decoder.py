"""ContextNND's decoder as two Triton kernels: closed-form tracks, and all that is made of them.

``closed_forms`` is one thread a frame and writes what the network reads and what it weighs, channel
by channel. ``decode`` keeps all layers of an object's frames on the chip and writes states. They
compute what :mod:`newtongs.dynamics.context.tracks` and ``context.model.assemble`` say; ``dx`` is
the rate in time of ``x``.
"""

import triton
import triton.language as tl

from ...types import GRAVITY, Y
from ..context.model import GROWTH, SETTLING
from ..context.tracks import ONSET, TINY

G = tl.constexpr(-GRAVITY[Y])
LEAST = tl.constexpr(TINY)
LATE = tl.constexpr(ONSET)
FORGET = tl.constexpr(SETTLING)
LARGEST = tl.constexpr(GROWTH)
KEEP_NAN = tl.constexpr(tl.PropagateNan.ALL)


@triton.jit
def _tanh(x, dx, factor):
    """``tanh(factor x)`` and its rate."""
    y = 1 - 2 / (tl.exp(2 * factor * x) + 1)
    return y, (1 - y * y) * factor * dx


@triton.jit
def _power(base, exponent):
    """Of a positive base."""
    return tl.exp2(exponent * tl.log2(base))


@triton.jit
def _saturated(x, dx):
    """``x / (1 + x)``."""
    below = 1 / (1 + x)
    return x * below, below * below * dx


@triton.jit
def _store(pointer, n, at, there, values):
    """Channel by channel: ``(len(values), n)``."""
    for k in tl.static_range(len(values)):
        tl.store(pointer + k * n + at, values[k].to(pointer.dtype.element_ty), mask=there)


@triton.jit
def _landing(height, up, e, keep, t, flight, dflight):
    """``tracks.landing`` in its letters: height, rest, travel and what is left, each with its rate.

    The time of the first contact comes last.
    """
    speed = tl.sqrt(up * up + 2 * G * height + LEAST * LEAST)
    first, period = (up + speed) / G, 2 * e * speed / G
    after = tl.maximum(t - first, 0.0)
    left = tl.maximum(1 - after * (1 - e) / period, LEAST)
    bounces = tl.floor(tl.log2(left) / tl.log2(e))
    power = _power(e, bounces)
    since = tl.maximum(after - period * (1 - power) / (1 - e), 0.0)
    bounce = e * power * speed
    hop = since * (bounce - 0.5 * G * since)
    air, ended = after <= 0, left <= LEAST
    still = ended | (hop < 0)
    over = tl.where(air, flight, tl.where(still, 0.0, hop))
    dover = tl.where(air, dflight, tl.where(still, 0.0, bounce - G * since))
    rest, drest = tl.where(air, flight, 0.0), tl.where(air, dflight, 0.0)
    slow, kept = keep * e, _power(keep, bounces + 1)
    lost = period * keep * (1 - _power(slow, bounces)) / (1 - slow)
    travel = tl.where(air, t, since * kept + first + lost)
    dtravel = tl.where(air, 1.0, kept)
    dleft = tl.where(air | ended, 0.0, -(1 - e) / period)
    return over, dover, rest, drest, travel, dtravel, left, dleft, first


@triton.jit
def closed_forms(z0, times, fx, fdx, tracks, T, n, ROWS: tl.constexpr):
    """An object's features ``(21, n)`` and their rates; its tracks and their rates ``(10, n)``.

    ``n`` is objects times frames.
    """
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = at < n
    z, t = z0 + (at // T) * 22, tl.load(times + at % T, mask=there, other=0.0)
    x, y, vx = tl.load(z, there, 0.0), tl.load(z + 1, there, 0.0), tl.load(z + 7, there, 0.0)
    up, vz, w = tl.load(z + 8, there, 0.0), tl.load(z + 9, there, 0.0), tl.load(z + 11, there, 0.0)
    side, s = tl.load(z + 2, there, 0.0), tl.load(z + 14, there, 0.0)
    mu = tl.load(z + 21, there, 0.0)
    e = tl.minimum(tl.maximum(tl.load(z + 20, there, 0.5), 0.02), 0.98)
    keep = 1 - tl.minimum(tl.maximum(mu, 0.0), 0.98)

    height = tl.maximum(y - s, 0.0)
    flight, dflight = height + t * (up - 0.5 * G * t), up - G * t
    over, dover, rest, drest, travel, dtravel, left, dleft, first = _landing(
        height, up, e, keep, t, flight, dflight
    )
    dbrake = G * mu / tl.sqrt(vx * vx + vz * vz + LEAST)
    dpass = 1 / tl.maximum(first, LEAST)
    brake, passed = dbrake * t, dpass * t
    far, aside = x + vx * t, side + vz * t
    f0, d0 = _tanh(flight, dflight, 1 / 0.15)
    f1, d1 = _tanh(flight, dflight, 1.0)
    f2, d2 = _tanh(flight, dflight, 0.25)
    f3, d3 = _tanh(far, vx, 1 / 1.5)
    f4, d4 = _tanh(far, vx, 1 / 6.0)
    f5, d5 = _tanh(aside, vz, 1 / 1.5)
    f6, d6 = _tanh(aside, vz, 1 / 6.0)
    f7, d7 = _saturated(brake, dbrake)
    f8, d8 = _saturated(passed, dpass)
    f9, d9 = _tanh(brake, dbrake, 1.0)
    f10, d10 = _tanh(passed, dpass, 1.0)
    f11, d11 = _tanh(over, dover, 1 / 0.3)
    f12, d12 = _tanh(over, dover, 0.5)
    half, dhalf = tl.sin(0.5 * w * t), tl.cos(0.5 * w * t)
    sine, cosine = tl.sin(w * t), tl.cos(w * t)
    double, ddouble = tl.sin(2 * w * t), tl.cos(2 * w * t)
    read = (
        f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, left, 0.5 * travel,
        half, dhalf, sine, cosine, double, ddouble,
    )  # fmt: skip
    rates = (
        d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, dleft, 0.5 * dtravel,
        0.5 * w * dhalf, -0.5 * w * half, w * cosine, -w * sine, 2 * w * ddouble, -2 * w * double,
    )  # fmt: skip
    _store(fx, n, at, there, read)
    _store(fdx, n, at, there, rates)
    ahead = height + up * t
    _store(tracks, n, at, there, (
        over - ahead, rest - ahead, travel - t, cosine - 1, sine,
        dover - up, drest - up, dtravel - 1, -w * sine, w * cosine,
    ))  # fmt: skip


@triton.jit
def _sigmoid(a, APPROXIMATE: tl.constexpr):
    """Off by up to 2.4e-4 where the card's own hyperbolic tangent makes it."""
    if APPROXIMATE:
        tanh = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=r,r", [0.5 * a], dtype=tl.float32, is_pure=True, pack=1
        )
        sigma = 0.5 * tanh + 0.5
    else:
        sigma = 1 / (1 + tl.exp(-a))
    return sigma


@triton.jit
def _layer(a, da, context, layer: tl.constexpr, H: tl.constexpr, APPROXIMATE: tl.constexpr):
    """SiLU of a modulated layer and its rate, both in half precision.

    ``context`` points to the gains and offsets of each layer's units.
    """
    h = 2 * layer * H + tl.arange(0, H)
    gain = 1 + tl.load(context + h).to(tl.float32)[None, :]
    a = a * gain + tl.load(context + H + h).to(tl.float32)[None, :]
    sigma = _sigmoid(a, APPROXIMATE)
    x = a * sigma
    return x.to(tl.float16), ((sigma + x * (1 - sigma)) * (da * gain)).to(tl.float16)


@triton.jit
def _fetch(pointers):
    """Into the cache, while something else is computed."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers.to(tl.uint64)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _fetch_object(z, context, tracks, row, T, n, SIZE: tl.constexpr):
    """What an object needs and no product waits for: its context, and of each track two lines."""
    line, half = tl.arange(0, 16), tl.arange(0, 2)
    _fetch(z)
    _fetch(context + tl.minimum(line * 64, SIZE - 1))
    at = tl.minimum(row + half * 32, T - 1)
    _fetch(tracks + (line % 10)[:, None] * n + at[None, :])


@triton.jit
def _halved(x, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Even and odd columns; of two, vectors."""
    if WIDTH > 2:
        x = tl.reshape(x, (ROWS, WIDTH // 2, 2))
    return tl.split(x)


@triton.jit
def _columns(x, ROWS: tl.constexpr):
    """The 32 columns of ``(ROWS, 32)``, number k at the place whose bits are k's reversed."""
    parts = (x,)
    for level in tl.static_range(5):
        finer = ()
        for k in tl.static_range(len(parts)):
            finer = finer + _halved(parts[k], ROWS, 32 >> level)
        parts = finer
    return parts


@triton.jit
def _clocks(t, omega, phase):
    """Features that depend on time alone, and their rates: half the time, sines, cosines."""
    c = tl.arange(0, 16)
    w, angle = tl.load(omega + c)[None, :], t[:, None] * tl.load(omega + c)[None, :]
    angle += tl.load(phase + c)[None, :]
    first, filled = (c == 0)[None, :], (c < 15)[None, :]
    x = tl.where(first, 0.5 * t[:, None], tl.sin(angle))
    dx = tl.where(first, 0.5, w * tl.cos(angle))
    return tl.where(filled, x, 0.0).to(tl.float16), tl.where(filled, dx, 0.0).to(tl.float16)


@triton.jit
def decode(
    z0, times, fx, fdx, tracks, chosen, contexts, omega, phase, first, first_clock, later, out,
    bias, states, objects, T, n, of_object,
    LAYERS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, CHOSEN: tl.constexpr,
    APPROXIMATE: tl.constexpr,
):  # fmt: skip
    """Programs (., k, i): frames ``ROWS i`` and on of future k, states ``(B, K, T, 22)``.

    A program takes objects one after the other and keeps the weights at hand. With CHOSEN the
    future is the object's own, ``chosen (B,)``. ``contexts`` is ``(B, K, LAYERS, 2, H)``.
    APPROXIMATE needs a card: it uses instructions that Triton's interpreter does not know.
    """
    k, rows = tl.program_id(1), tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    f, c, h, o = tl.arange(0, 32), tl.arange(0, 16), tl.arange(0, H), tl.arange(0, 32)
    there = rows < T
    inside = there[:, None] & (f < 21)[None, :]
    at = rows[:, None] + f[None, :].to(tl.int64) * n
    t = tl.load(times + rows, mask=there, other=0.0)
    clock, dclock = _clocks(t, omega, phase)
    w_first = tl.load(first + f[:, None] * H + h[None, :])
    w_clock = tl.load(first_clock + c[:, None] * H + h[None, :])
    w = ()
    for layer in tl.static_range(LAYERS - 1):
        w = w + (tl.load(later + layer * H * H + h[:, None] * H + h[None, :]),)
    w_out = tl.load(out + h[:, None] * 32 + o[None, :])
    biases = tl.load(bias + o)[None, :]
    future = tl.load(chosen + tl.program_id(0)) if CHOSEN else k
    for object in range(tl.program_id(0), objects, tl.num_programs(0)):
        b = object + tl.full((), 0, tl.int64)  # places may be beyond 32 bits
        x = tl.load(fx + b * T + at, mask=inside, other=0.0)
        dx = tl.load(fdx + b * T + at, mask=inside, other=0.0)
        context = contexts + b * of_object + future * LAYERS * 2 * H
        if CHOSEN:
            following = tl.minimum(b + tl.num_programs(0), objects - 1)
            future = tl.load(chosen + following)
            if APPROXIMATE:
                ahead = contexts + following * of_object + future * LAYERS * 2 * H
                row = tl.program_id(2) * ROWS
                here = tracks + following * T
                _fetch_object(z0 + following * 22, ahead, here, row, T, n, LAYERS * 2 * H)
        a, da = tl.dot(clock, w_clock), tl.dot(dclock, w_clock)
        a, da = tl.dot(x, w_first, a), tl.dot(dx, w_first, da)
        x, dx = _layer(a, da, context, 0, H, APPROXIMATE)
        for layer in tl.static_range(1, LAYERS):
            a, da = tl.dot(x, w[layer - 1]), tl.dot(dx, w[layer - 1])
            x, dx = _layer(a, da, context, layer, H, APPROXIMATE)
        weights = _columns(tl.dot(x, w_out) + biases, ROWS)
        rates = _columns(tl.dot(dx, w_out), ROWS)
        to = states + ((b * tl.num_programs(1) + k) * T + rows) * 22
        _assemble(z0 + b * 22, t, tracks + b * T + rows, n, weights, rates, to, there)


@triton.jit
def _turned(q, phi, to, there):
    """The orientation at ``q`` turned by the rotation vector ``phi``."""
    square = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2]
    half = 0.5 * tl.sqrt(square)
    over = tl.where(half > 1e-6, 0.5 * tl.sin(half) / tl.maximum(half, 1e-6), 0.5)
    bw, bx, by, bz = tl.cos(half), over * phi[0], over * phi[1], over * phi[2]
    aw, ax, ay, az = tl.load(q), tl.load(q + 1), tl.load(q + 2), tl.load(q + 3)
    tl.store(to, aw * bw - ax * bx - ay * by - az * bz, mask=there)
    tl.store(to + 1, aw * bx + ax * bw + ay * bz - az * by, mask=there)
    tl.store(to + 2, aw * by - ax * bz + ay * bw + az * bx, mask=there)
    tl.store(to + 3, aw * bz + ax * by - ay * bx + az * bw, mask=there)


@triton.jit
def _assemble(z, t, tracks, n, o, do, to, there):
    """States of the decoder's output, see ``model.assemble``; 31 weights in its order."""
    vx, vy, vz = tl.load(z + 7), tl.load(z + 8), tl.load(z + 9)
    track = ()
    for k in tl.static_range(10):
        track = track + (tl.load(tracks + k * n, mask=there, other=0.0),)
    start, dstart = t / (t + LATE), LATE / ((t + LATE) * (t + LATE))
    late, dlate = start * t, dstart * t + start
    bounce, rest, drag, cosine, sine, dbounce, drest, ddrag, dcosine, dsine = track
    dcosine, dsine = dstart * cosine + start * dcosine, dstart * sine + start * dsine
    cosine, sine = start * cosine, start * sine
    known = (
        drag * o[14] * vx, bounce * o[12] + rest * o[13], drag * o[15] * vz,
    )  # fmt: skip
    dknown = (
        (ddrag * o[14] + drag * do[14]) * vx,
        dbounce * o[12] + bounce * do[12] + drest * o[13] + rest * do[13],
        (ddrag * o[15] + drag * do[15]) * vz,
    )
    fade = t * tl.exp(-FORGET * t)
    dfade = (1 - FORGET * t) * tl.exp(-FORGET * t)
    spin = ()
    for k in tl.static_range(3):
        a, da = o[9 + k], do[9 + k]
        a += o[3 * k] * vx + o[3 * k + 1] * vy + o[3 * k + 2] * vz
        da += do[3 * k] * vx + do[3 * k + 1] * vy + do[3 * k + 2] * vz
        swing = cosine * o[16 + 2 * k] + sine * o[17 + 2 * k]
        dswing = dcosine * o[16 + 2 * k] + cosine * do[16 + 2 * k]
        dswing += dsine * o[17 + 2 * k] + sine * do[17 + 2 * k]
        p, v = tl.load(z + k), tl.load(z + 7 + k)
        tl.store(to + k, p + v * t + late * a + swing + known[k], mask=there)
        tl.store(to + 7 + k, v + dlate * a + late * da + dswing + dknown[k], mask=there)
        w = tl.load(z + 10 + k)
        w = w + start * (o[22 + k] * w + o[25 + k])
        tl.store(to + 10 + k, w, mask=there)
        spin = spin + (w * t,)
        s, u = tl.load(z + 13 + k), tl.load(z + 16 + k)
        growth = fade * (u / s) + late * o[28 + k]
        growth = tl.minimum(tl.maximum(growth, -LARGEST, KEEP_NAN), LARGEST, KEEP_NAN)
        grown = s * tl.exp(growth)
        tl.store(to + 13 + k, grown, mask=there)
        rate = dfade * (u / s) + dlate * o[28 + k] + late * do[28 + k]
        tl.store(to + 16 + k, grown * rate, mask=there)
        tl.store(to + 19 + k, tl.load(z + 19 + k) + 0 * t, mask=there)
    _turned(z + 3, spin, to + 3, there)

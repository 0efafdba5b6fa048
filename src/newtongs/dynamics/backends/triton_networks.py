"""Triton kernels of the two residual networks: a whole network in one kernel, forward and backward.

Products run on tensor cores in half precision with float32 accumulation. An operand is split into
``hi + lo`` halves; PASSES says how much of the product is kept:

* 1: ``hi hi``, a relative rounding of 2^-12 on both sides;
* 2: ``hi (hi + lo)``, exact weights, rounded activations (whose errors average out over a batch);
* 3: also ``lo hi``, close to float32.

Trained weights need three passes forward: measured against float64, the gradient is off by 2e-2
with one, by 6e-3 with two and by 4e-5 with three, where float32 itself is off by 2e-5. Backward the
high halves are enough, but for the last layer's weights, which are narrow.

Backward, a program takes TURNS blocks of rows one after the other and sums up the narrow weight
gradients itself; it owns its place in the sums, so that there are no atomics and the order is
fixed. The wide one, W2's, is left to a large matrix product over ``d2`` and ``h1``, which go to
memory in half precision. Gradients come in scaled, so that half precision can hold them, with most
of its range left above a typical one: with 256 times less room two full runs ended in NaN.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(pointer, rows, columns, stride: tl.constexpr):
    """Pointers to a block of a row-major matrix."""
    return pointer + rows[:, None] * stride + columns[None, :]


@triton.jit
def _load_narrow(pointer, rows, columns, n, WIDTH: tl.constexpr):
    """A block (rows, columns) of a channel-major matrix (WIDTH, n), zero outside of it."""
    inside = (rows[:, None] < n) & (columns[None, :] < WIDTH)
    return tl.load(pointer + columns[None, :] * n + rows[:, None], inside, other=0.0)


@triton.jit
def _store_narrow(pointer, rows, columns, n, WIDTH: tl.constexpr, values):
    inside = (rows[:, None] < n) & (columns[None, :] < WIDTH)
    tl.store(pointer + columns[None, :] * n + rows[:, None], values, inside)


@triton.jit
def _bounded(d):
    """Within half precision: a gradient beyond its range saturates instead of becoming infinite."""
    return tl.minimum(tl.maximum(d, -65504.0), 65504.0)


@triton.jit
def _sigmoid(a, PTX: tl.constexpr):
    """By two instructions of the card, exact to a few ulps, instead of a full division.

    Triton's interpreter does not have them.
    """
    if PTX:
        sigma = tl.inline_asm_elementwise(
            """{
            .reg .f32 e;
            mul.f32 e, $1, 0fBFB8AA3B;
            ex2.approx.ftz.f32 e, e;
            add.f32 e, e, 0f3F800000;
            rcp.approx.ftz.f32 $0, e;
            }""",
            "=r,r", [a], dtype=tl.float32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        sigma = tl.sigmoid(a)
    return sigma


@triton.jit
def _tanh(x):
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def _output(o, TANH: tl.constexpr):
    """The output of a network's last layer, bounded if TANH."""
    if TANH:
        o = _tanh(o)
    return o


@triton.jit
def _output_adjoint(g, r, TANH: tl.constexpr):
    """Gradient before :func:`_output`, given the one after it and its result ``r``."""
    if TANH:
        g = g * (1 - r * r)
    return _bounded(g)


@triton.jit
def _dot_weight(x, w_hi, w_lo, rows, columns, stride: tl.constexpr, acc, PASSES: tl.constexpr):
    """``acc + x w`` for a block of a weight in memory; its low half is read only when used."""
    hi = x.to(tl.float16)
    w = tl.load(_tile(w_hi, rows, columns, stride))
    acc = tl.dot(hi, w, acc)
    if PASSES >= 3:
        acc = tl.dot((x - hi.to(tl.float32)).to(tl.float16), w, acc)
    if PASSES >= 2:
        acc = tl.dot(hi, tl.load(_tile(w_lo, rows, columns, stride)), acc)
    return acc


@triton.jit
def _hidden(x, w_hi, w_lo, bias, inputs, columns, HIDDEN: tl.constexpr):
    """Pre-activations of some units of the first layer, in all three passes: it is cheap."""
    a = tl.zeros((x.shape[0], columns.shape[0]), tl.float32)
    a = _dot_weight(x, w_hi, w_lo, inputs, columns, HIDDEN, a, 3)
    return a + tl.load(bias + columns)[None, :]


@triton.jit
def _add_to(pointers, values):
    """Add to sums that no other program touches."""
    tl.store(pointers, tl.load(pointers) + values)


@triton.jit
def _with_one(x, inputs):
    """Inputs as a factor of W1's gradient; the last column, of ones, gives its bias's."""
    return tl.where(inputs[None, :] == 31, 1.0, x).to(tl.float16)


@triton.jit
def two_layer_forward(
    x_ptr, r_ptr, a2_out, n,
    w1_hi, w1_lo, b1, w2_hi, w2_lo, b2, w3_hi, w3_lo, b3,
    STATE: tl.constexpr, OUT: tl.constexpr, HIDDEN: tl.constexpr, SAVE: tl.constexpr,
    ROWS: tl.constexpr, CHUNK: tl.constexpr, PASSES: tl.constexpr, TANH: tl.constexpr,
    PTX: tl.constexpr,
):  # fmt: skip
    """``r = tanh(W3 silu(W2 silu(W1 x)))``; weights stand as (inputs, outputs), padded to 32, 16.

    Without TANH the last layer's output is ``r`` itself, here and in the kernels below.
    With SAVE the second layer's pre-activations are kept for the backward pass, in half precision.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    wide, narrow, chunk = tl.arange(0, HIDDEN), tl.arange(0, 16), tl.arange(0, CHUNK)
    inputs = tl.arange(0, 32)
    x = _load_narrow(x_ptr, rows, inputs, n, STATE)
    a2 = tl.zeros((ROWS, HIDDEN), tl.float32)
    for start in range(0, HIDDEN, CHUNK):
        c = start + chunk
        a1 = _hidden(x, w1_hi, w1_lo, b1, inputs, c, HIDDEN)
        a2 = _dot_weight(a1 * _sigmoid(a1, PTX), w2_hi, w2_lo, c, wide, HIDDEN, a2, PASSES)
    a2 += tl.load(b2 + wide)[None, :]
    if SAVE:
        tl.store(_tile(a2_out, rows, wide, HIDDEN), a2.to(tl.float16), rows[:, None] < n)
    h2 = a2 * _sigmoid(a2, PTX)
    o = tl.zeros((ROWS, 16), tl.float32) + tl.load(b3 + narrow)[None, :]
    o = _dot_weight(h2, w3_hi, w3_lo, wide, narrow, 16, o, PASSES)
    _store_narrow(r_ptr, rows, narrow, n, OUT, _output(o, TANH))


@triton.jit
def two_layer_backward_top(
    r_ptr, g_ptr, a2_ptr, n, scale, w3t_hi, w3t_lo, d2_out, w3_sums, b3_sums, b2_sums,
    OUT: tl.constexpr, HIDDEN: tl.constexpr, TURNS: tl.constexpr, AHEAD: tl.constexpr,
    ROWS: tl.constexpr, CHUNK: tl.constexpr, TANH: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """From the outputs' gradient to the second layer's, ``d2``, for CHUNK units of some rows.

    Sums: W3's gradient (programs, 16, HIDDEN), the biases' (programs, 16) and (programs, HIDDEN).
    """
    program, part = tl.program_id(0), tl.program_id(1)
    narrow, c = tl.arange(0, 16), part * CHUNK + tl.arange(0, CHUNK)
    w_sum = tl.zeros((16, CHUNK), tl.float32)
    d3_sum, d2_sum = tl.zeros((16,), tl.float32), tl.zeros((CHUNK,), tl.float32)
    for turn in tl.range(0, TURNS, num_stages=AHEAD):
        rows = (turn * tl.num_programs(0) + program) * ROWS + tl.arange(0, ROWS)
        real = rows[:, None] < n
        r = _load_narrow(r_ptr, rows, narrow, n, OUT)
        d3 = _output_adjoint(_load_narrow(g_ptr, rows, narrow, n, OUT) * scale, r, TANH)
        g2 = tl.zeros((ROWS, CHUNK), tl.float32)
        g2 = _dot_weight(d3, w3t_hi, w3t_lo, narrow, c, HIDDEN, g2, 3)
        a2 = tl.load(_tile(a2_ptr, rows, c, HIDDEN), real, other=0.0).to(tl.float32)
        sigma = _sigmoid(a2, PTX)
        h2 = a2 * sigma
        d2 = _bounded(g2 * (sigma + h2 * (1 - sigma)))
        tl.store(_tile(d2_out, rows, c, HIDDEN), d2.to(tl.float16), real)
        w_sum = tl.dot(tl.trans(d3.to(tl.float16)), h2.to(tl.float16), w_sum)
        d3_sum += tl.sum(d3, 0)
        d2_sum += tl.sum(d2, 0)
    _add_to(_tile(w3_sums + program * 16 * HIDDEN, narrow, c, HIDDEN), w_sum)
    _add_to(b2_sums + program * HIDDEN + c, d2_sum)
    if part == 0:
        _add_to(b3_sums + program * 16 + narrow, d3_sum)


@triton.jit
def two_layer_backward_bottom(
    x_ptr, d2_ptr, gx_ptr, n, scale, w1_hi, w1_lo, w1t, b1, w2t, h1_out, w1_sums,
    STATE: tl.constexpr, HIDDEN: tl.constexpr, TURNS: tl.constexpr,
    ROWS: tl.constexpr, CHUNK: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """From the second layer's gradient to the inputs'; the first layer's activations on the way.

    The high halves of W2 and W1 suffice: ``d2`` and ``d1`` have lost as many bits.
    Sums: W1's gradient and, in the last column, its bias's: (programs, HIDDEN, 32).
    """
    program = tl.program_id(0)
    wide, chunk, inputs = tl.arange(0, HIDDEN), tl.arange(0, CHUNK), tl.arange(0, 32)
    for turn in range(TURNS):
        rows = (turn * tl.num_programs(0) + program) * ROWS + tl.arange(0, ROWS)
        real = rows[:, None] < n
        x = _load_narrow(x_ptr, rows, inputs, n, STATE)
        factor = _with_one(x, inputs)
        d2 = tl.load(_tile(d2_ptr, rows, wide, HIDDEN), real, other=0.0)
        gx = tl.zeros((ROWS, 32), tl.float32)
        for start in range(0, HIDDEN, CHUNK):
            c = start + chunk
            at = _tile(w1_sums + program * HIDDEN * 32, c, inputs, 32)
            w1_sum = tl.load(at)
            g1 = tl.dot(d2, tl.load(_tile(w2t, wide, c, HIDDEN)))
            a1 = _hidden(x, w1_hi, w1_lo, b1, inputs, c, HIDDEN)
            s1 = _sigmoid(a1, PTX)
            h1 = a1 * s1
            tl.store(_tile(h1_out, rows, c, HIDDEN), h1.to(tl.float16), real)
            d1 = _bounded(g1 * (s1 + h1 * (1 - s1))).to(tl.float16)
            gx = tl.dot(d1, tl.load(_tile(w1t, c, inputs, 32)), gx)
            tl.store(at, tl.dot(tl.trans(d1), factor, w1_sum))
        _store_narrow(gx_ptr, rows, inputs, n, STATE, gx / scale)


@triton.jit
def one_layer_forward(
    x_ptr, r_ptr, n, w1_hi, w1_lo, b1, w2_hi, w2_lo, b2,
    STATE: tl.constexpr, OUT: tl.constexpr, HIDDEN: tl.constexpr,
    ROWS: tl.constexpr, CHUNK: tl.constexpr, PASSES: tl.constexpr, TANH: tl.constexpr,
    PTX: tl.constexpr,
):  # fmt: skip
    """``r = tanh(W2 silu(W1 x))``."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    narrow, chunk, inputs = tl.arange(0, 16), tl.arange(0, CHUNK), tl.arange(0, 32)
    x = _load_narrow(x_ptr, rows, inputs, n, STATE)
    o = tl.zeros((ROWS, 16), tl.float32) + tl.load(b2 + narrow)[None, :]
    for start in range(0, HIDDEN, CHUNK):
        c = start + chunk
        a1 = _hidden(x, w1_hi, w1_lo, b1, inputs, c, HIDDEN)
        o = _dot_weight(a1 * _sigmoid(a1, PTX), w2_hi, w2_lo, c, narrow, 16, o, PASSES)
    _store_narrow(r_ptr, rows, narrow, n, OUT, _output(o, TANH))


@triton.jit
def one_layer_backward(
    x_ptr, r_ptr, g_ptr, gx_ptr, n, scale,
    w1_hi, w1_lo, w1t, b1, w2t_hi, w2t_lo, w1_sums, w2_sums, b2_sums,
    STATE: tl.constexpr, OUT: tl.constexpr, HIDDEN: tl.constexpr, TURNS: tl.constexpr,
    ROWS: tl.constexpr, CHUNK: tl.constexpr, TANH: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Gradient of the inputs; besides it only sums are written to memory.

    Sums: W1's gradient with its bias's (programs, HIDDEN, 32), W2's (programs, 16, HIDDEN), its
    bias's (programs, 16).
    """
    program = tl.program_id(0)
    narrow, chunk, inputs = tl.arange(0, 16), tl.arange(0, CHUNK), tl.arange(0, 32)
    d2_sum = tl.zeros((16,), tl.float32)
    for turn in range(TURNS):
        rows = (turn * tl.num_programs(0) + program) * ROWS + tl.arange(0, ROWS)
        x = _load_narrow(x_ptr, rows, inputs, n, STATE)
        factor = _with_one(x, inputs)
        r = _load_narrow(r_ptr, rows, narrow, n, OUT)
        d2 = _output_adjoint(_load_narrow(g_ptr, rows, narrow, n, OUT) * scale, r, TANH)
        d2_sum += tl.sum(d2, 0)
        gx = tl.zeros((ROWS, 32), tl.float32)
        for start in range(0, HIDDEN, CHUNK):
            c = start + chunk
            at_w1 = _tile(w1_sums + program * HIDDEN * 32, c, inputs, 32)
            at_w2 = _tile(w2_sums + program * 16 * HIDDEN, narrow, c, HIDDEN)
            w1_sum, w2_sum = tl.load(at_w1), tl.load(at_w2)
            a1 = _hidden(x, w1_hi, w1_lo, b1, inputs, c, HIDDEN)
            s1 = _sigmoid(a1, PTX)
            h1 = a1 * s1
            g1 = tl.zeros((ROWS, CHUNK), tl.float32)
            g1 = _dot_weight(d2, w2t_hi, w2t_lo, narrow, c, HIDDEN, g1, 3)
            d1 = _bounded(g1 * (s1 + h1 * (1 - s1))).to(tl.float16)
            gx = tl.dot(d1, tl.load(_tile(w1t, c, inputs, 32)), gx)
            tl.store(at_w1, tl.dot(tl.trans(d1), factor, w1_sum))
            tl.store(at_w2, tl.dot(tl.trans(d2.to(tl.float16)), h1.to(tl.float16), w2_sum))
        _store_narrow(gx_ptr, rows, inputs, n, STATE, gx / scale)
    _add_to(b2_sums + program * 16 + narrow, d2_sum)

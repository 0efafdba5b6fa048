"""Kernels of the residual networks for Hopper GPUs (H100, H200), beside ``triton_networks``.

They compute what the Triton kernels of the same names compute, with all three passes, and pass the
same tests. They are faster by means that Triton does not offer: a program keeps
the first layer's weights in shared memory, streams the second layer's through a ring of buffers
with the tensor memory accelerator, and works on two blocks of 64 rows at once, each in a group of
four warps of its own. While one group's products are on the tensor cores, the other computes its
activations. A program takes its blocks in turn. ``ready`` signals that a buffer of the ring is
filled, ``empty`` that both groups are done with it.

Weights stand as (inputs, outputs), padded to 32 and 16, in blocks of CHUNK columns or rows. The
inputs' last column is set to one, so that row 31 of W1 is its bias and the last column of W1's
gradient the bias's. States come as matrices (22, n), whose blocks are 32 by 64.

An asynchronous product reads its registers after it was issued: every wait names them, so that the
compiler does not reuse them.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from ...base.state import DIM
from ...base.types import StateTensor
from .precompile import launch
from .triton_rollout import INPUTS, OUTPUTS, TritonNetwork, halves, multiprocessors, padded

# A program's groups of warps, and the rows of each: those of one product of four warps.
GROUPS, ROWS = 2, 64

# Later versions of Triton than 3.6 gave them other names.
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


# --- shared by all --------------------------------------------------------------------------------


@gluon.jit
def _sigmoid(a):
    """Of two neighbours at once: the reciprocal of their denominators' product does for both.

    Below -41 the result stays at 2^-60, so that the product cannot overflow.
    """
    return gl.inline_asm_elementwise(
        """{
        .reg .f32 e, f, p;
        mul.f32 e, $2, 0fBFB8AA3B;
        mul.f32 f, $3, 0fBFB8AA3B;
        min.f32 e, e, 0f42700000;
        min.f32 f, f, 0f42700000;
        ex2.approx.ftz.f32 e, e;
        ex2.approx.ftz.f32 f, f;
        add.f32 e, e, 0f3F800000;
        add.f32 f, f, 0f3F800000;
        mul.f32 p, e, f;
        rcp.approx.ftz.f32 p, p;
        mul.f32 $0, p, f;
        mul.f32 $1, p, e;
        }""",
        "=r,=r,r,r", [a], dtype=gl.float32, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _bounded(d):
    """Within half precision, as in ``triton_networks``."""
    return gl.minimum(gl.maximum(d, -65504.0), 65504.0)


@gluon.jit
def _halves(x):
    """``x = hi + lo`` to about 22 bits."""
    hi = x.to(gl.float16)
    return hi, (x - hi.to(gl.float32)).to(gl.float16)


@gluon.jit
def _turns(n):
    """How many pairs of blocks this program takes."""
    return gl.cdiv(gl.cdiv(n, 128) - gl.program_id(0), gl.num_programs(0))


@gluon.jit
def _barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(made.index(i), count=ARRIVALS)
    return made


@gluon.jit
def _copy(matrix, row, column, to, arrived):
    """Start copying a block of a matrix into shared memory."""
    mbarrier.expect(arrived, matrix.block_type.nbytes)
    load(matrix, [row, column], arrived, to)


@gluon.jit
def _copy_columns(hi, lo, to_hi, to_lo, arrived, CHUNKS: gl.constexpr, CHUNK: gl.constexpr):
    """Start copying both halves of a weight, CHUNK columns to a buffer."""
    mbarrier.expect(arrived, CHUNKS * (hi.block_type.nbytes + lo.block_type.nbytes))
    for i in range(CHUNKS):
        load(hi, [0, i * CHUNK], arrived, to_hi.index(i))
        load(lo, [0, i * CHUNK], arrived, to_lo.index(i))


@gluon.jit
def _inputs(tile, layout: gl.constexpr):
    """Inputs (rows, 32) of a tile (32, rows); the last column is ones."""
    c = gl.arange(0, 32, gl.SliceLayout(0, layout))
    return gl.where(c[None, :] == 31, 1.0, tile.permute((1, 0)).load(layout))


@gluon.jit
def _narrow_product(x_hi, x_lo, w_hi, w_lo, CHUNK: gl.constexpr, layout: gl.constexpr):
    """Start ``x w`` in three passes for CHUNK columns of a weight with few rows."""
    a = gl.zeros([64, CHUNK], gl.float32, layout)
    a = warpgroup_mma(x_hi, w_hi, a, use_acc=False, is_async=True)
    a = warpgroup_mma(x_lo, w_hi, a, is_async=True)
    return warpgroup_mma(x_hi, w_lo, a, is_async=True)


# --- two layers, forward --------------------------------------------------------------------------


@gluon.jit
def _copy_rows(weights, ring_hi, ring_lo, ready, g, CHUNKS: gl.constexpr, RING: gl.constexpr):
    """Start filling the buffer of the ``g``-th block of rows, counted through all turns."""
    hi, lo = weights
    slot = g % RING
    row = (g % CHUNKS) * hi.block_type.shape[0]
    mbarrier.expect(ready.index(slot), hi.block_type.nbytes + lo.block_type.nbytes)
    load(hi, [row, 0], ready.index(slot), ring_hi.index(slot))
    load(lo, [row, 0], ready.index(slot), ring_lo.index(slot))


@gluon.jit
def _activated(a, layout: gl.constexpr):
    """Both halves of ``silu(a)``, as the left factor of a product."""
    hi, lo = _halves(a * _sigmoid(a))
    return gl.convert_layout(hi, layout), gl.convert_layout(lo, layout)


@gluon.jit
def _forward_rows(
    given, buffers, signals, GROUP: gl.constexpr, OUT: gl.constexpr, HIDDEN: gl.constexpr,
    SAVE: gl.constexpr, CHUNK: gl.constexpr, RING: gl.constexpr, TANH: gl.constexpr,
):  # fmt: skip
    """One group's blocks of rows."""
    x, r_ptr, kept, n, w2, b2, b3 = given
    first_hi, first_lo, ring_hi, ring_lo, last_hi, last_lo, tiles, outs = buffers
    here, loaded, ready, empty = signals
    CHUNKS: gl.constexpr = HIDDEN // CHUNK
    part: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, CHUNK, 16])
    wide: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HIDDEN, 16])
    narrow: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 16, 16])
    to_part: gl.constexpr = gl.DotOperandLayout(0, part, 2)
    to_wide: gl.constexpr = gl.DotOperandLayout(0, wide, 2)
    to_narrow: gl.constexpr = gl.DotOperandLayout(0, narrow, 2)
    tile, out, arrived = tiles.index(GROUP), outs.index(GROUP), loaded.index(GROUP)
    programs, turns = gl.num_programs(0), _turns(n)
    start, stride = (gl.program_id(0) * 2 + GROUP) * 64, 128 * programs
    _copy(x, 0, start, tile, arrived)
    mbarrier.wait(here.index(0), 0)
    for turn in range(turns):
        first = start + turn * stride
        mbarrier.wait(arrived, turn & 1)
        x_hi, x_lo = _halves(_inputs(tile, to_part))
        a1 = _narrow_product(x_hi, x_lo, first_hi.index(0), first_lo.index(0), CHUNK, part)
        bias = gl.load(b2 + gl.arange(0, HIDDEN, gl.SliceLayout(0, wide)))
        a2 = gl.zeros([64, HIDDEN], gl.float32, wide) + bias[None, :]
        a1, x_hi, x_lo = warpgroup_mma_wait(0, deps=(a1, x_hi, x_lo))
        h_hi, h_lo = _activated(a1, to_wide)
        for i in range(CHUNKS):
            # The next units are activated while the present ones are multiplied.
            g, ahead = turn * CHUNKS + i, (i + 1) % CHUNKS
            slot = g % RING
            a1 = _narrow_product(
                x_hi, x_lo, first_hi.index(ahead), first_lo.index(ahead), CHUNK, part
            )
            mbarrier.wait(ready.index(slot), (g // RING) & 1)
            a2 = warpgroup_mma(h_hi, ring_hi.index(slot), a2, is_async=True)
            a2 = warpgroup_mma(h_lo, ring_hi.index(slot), a2, is_async=True)
            a2 = warpgroup_mma(h_hi, ring_lo.index(slot), a2, is_async=True)
            if GROUP == 0:  # noqa: SIM102 (decided when compiled, the other when run)
                if (g >= 1) & (g + RING - 1 < turns * CHUNKS):
                    mbarrier.wait(empty.index((g - 1) % RING), ((g - 1) // RING) & 1)
                    _copy_rows(w2, ring_hi, ring_lo, ready, g + RING - 1, CHUNKS, RING)
            a1, x_hi, x_lo = warpgroup_mma_wait(3, deps=(a1, x_hi, x_lo))
            next_hi, next_lo = _activated(a1, to_wide)
            a2, h_hi, h_lo = warpgroup_mma_wait(0, deps=(a2, h_hi, h_lo))
            mbarrier.arrive(empty.index(slot), count=1)
            h_hi, h_lo = next_hi, next_lo
        if SAVE:
            tma.store_wait(0)
            barrier()
            out.store(a2.to(gl.float16))
            fence_async_shared()
            barrier()
            store(kept, [first, 0], out)
        h_out, l_out = _activated(a2, to_narrow)
        if turn + 1 < turns:
            _copy(x, 0, first + stride, tile, arrived)
        bias = gl.load(b3 + gl.arange(0, 16, gl.SliceLayout(0, narrow)))
        o = gl.zeros([64, 16], gl.float32, narrow) + bias[None, :]
        # An index that is always zero, but not to the compiler: it would compute the addresses of
        # all 48 products before the loop, and run out of registers.
        zero = turn >> 24
        mbarrier.wait(here.index(1), 0)
        mbarrier.wait(here.index(2), 0)
        o = warpgroup_mma(h_out, last_hi.index(zero), o, is_async=True)
        o = warpgroup_mma(l_out, last_hi.index(zero), o, is_async=True)
        o = warpgroup_mma(h_out, last_lo.index(zero), o, is_async=True)
        o, h_out, l_out = warpgroup_mma_wait(0, deps=(o, h_out, l_out))
        if TANH:
            o = 1 - 2 / (gl.exp(2 * o) + 1)
        _store_narrow(r_ptr, first, n, o, OUT, 16, narrow)
    if SAVE:
        tma.store_wait(0)


@gluon.jit
def _store_narrow(
    pointer, first, n, values, WIDTH: gl.constexpr, PADDED: gl.constexpr, layout: gl.constexpr
):
    """A block (rows, PADDED) into a channel-major matrix (WIDTH, n)."""
    rows = first + gl.arange(0, 64, gl.SliceLayout(1, layout))
    c = gl.arange(0, PADDED, gl.SliceLayout(0, layout))
    inside = (rows[:, None] < n) & (c[None, :] < WIDTH)
    gl.store(pointer + c[None, :] * n + rows[:, None], values, inside)


@gluon.jit
def two_layer_forward(
    x, r_ptr, kept, n, w1_hi, w1_lo, w2_hi, w2_lo, b2, w3_hi, w3_lo, b3,
    OUT: gl.constexpr, HIDDEN: gl.constexpr, SAVE: gl.constexpr, CHUNK: gl.constexpr,
    RING: gl.constexpr, TANH: gl.constexpr,
):  # fmt: skip
    """``r = tanh(W3 silu(W2 silu(W1 x)))``; with SAVE the second pre-activations go to ``kept``."""
    half: gl.constexpr = gl.float16
    CHUNKS: gl.constexpr = HIDDEN // CHUNK
    first_hi = gl.allocate_shared_memory(half, [CHUNKS, 32, CHUNK], w1_hi.layout)
    first_lo = gl.allocate_shared_memory(half, [CHUNKS, 32, CHUNK], w1_lo.layout)
    ring_hi = gl.allocate_shared_memory(half, [RING, CHUNK, HIDDEN], w2_hi.layout)
    ring_lo = gl.allocate_shared_memory(half, [RING, CHUNK, HIDDEN], w2_lo.layout)
    last_hi = gl.allocate_shared_memory(half, [1, HIDDEN, 16], w3_hi.layout)
    last_lo = gl.allocate_shared_memory(half, [1, HIDDEN, 16], w3_lo.layout)
    tiles = gl.allocate_shared_memory(gl.float32, [2, 32, 64], x.layout)
    staged: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, HIDDEN], half)
    outs = gl.allocate_shared_memory(half, [2, 64, HIDDEN] if SAVE else [2, 8, HIDDEN], staged)
    here, loaded = _barriers(3, 1), _barriers(2, 1)
    ready, empty = _barriers(RING, 1), _barriers(RING, 2)
    fence_async_shared()
    barrier()
    _copy_columns(w1_hi, w1_lo, first_hi, first_lo, here.index(0), CHUNKS, CHUNK)
    for g in range(RING):
        _copy_rows((w2_hi, w2_lo), ring_hi, ring_lo, ready, g, CHUNKS, RING)
    _copy(w3_hi, 0, 0, last_hi.index(0), here.index(1))
    _copy(w3_lo, 0, 0, last_lo.index(0), here.index(2))
    given = (x, r_ptr, kept, gl.to_tensor(n), (w2_hi, w2_lo), b2, b3)
    buffers = (first_hi, first_lo, ring_hi, ring_lo, last_hi, last_lo, tiles, outs)
    signals = (here, loaded, ready, empty)
    gl.warp_specialize(
        [
            (_forward_rows, (given, buffers, signals, 0, OUT, HIDDEN, SAVE, CHUNK, RING, TANH)),
            (_forward_rows, (given, buffers, signals, 1, OUT, HIDDEN, SAVE, CHUNK, RING, TANH)),
        ],
        [4],
        [240],
    )


# --- backward -------------------------------------------------------------------------------------


@gluon.jit
def _sums_at(pointer, group, HIDDEN: gl.constexpr, CHUNK: gl.constexpr, layout: gl.constexpr):
    """Where a group's sums of W1's gradient stand, (CHUNK, 32), for the first units."""
    units = gl.arange(0, CHUNK, gl.SliceLayout(1, layout))
    inputs = gl.arange(0, 32, gl.SliceLayout(0, layout))
    return pointer + group * HIDDEN * 32 + units[:, None] * 32 + inputs[None, :]


@gluon.jit
def _through_units(g1, a1, gx, w1_sum, w1, h1_s, d1_s, factor, layout: gl.constexpr):
    """Back through some units of the first layer, whose activations are left in ``h1_s``.

    The products with W1 and with the inputs, ``factor``, have begun; high halves are enough. There
    are as many units as a product has rows, since W1's gradient is one of ``d1`` transposed.
    """
    s = _sigmoid(a1)
    h1 = a1 * s
    d1 = _bounded(g1 * (s + h1 * (1 - s))).to(gl.float16)
    h1_s.store(h1.to(gl.float16))
    d1_s.store(d1)
    fence_async_shared()
    barrier()
    d1 = gl.convert_layout(d1, layout)
    gx = warpgroup_mma(d1, w1.permute((1, 0)), gx, is_async=True)
    w1_sum = warpgroup_mma(d1_s.permute((1, 0)), factor, w1_sum, is_async=True)
    return gx, w1_sum, d1


@gluon.jit
def _bottom_rows(
    given, buffers, signals, GROUP: gl.constexpr, STATE: gl.constexpr, HIDDEN: gl.constexpr,
    CHUNK: gl.constexpr, RING: gl.constexpr,
):  # fmt: skip
    """One group's blocks of rows."""
    x, d2, gx_ptr, n, scale, w2t, h1_out, w1_sums = given
    first_hi, first_lo, ring, d2_tiles, h1_tiles, d1_tiles, x_tiles, x_halves = buffers
    here, loaded, ready, empty = signals
    CHUNKS: gl.constexpr = HIDDEN // CHUNK
    part: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, CHUNK, 16])
    narrow: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16])
    to_part: gl.constexpr = gl.DotOperandLayout(0, part, 2)
    to_narrow: gl.constexpr = gl.DotOperandLayout(0, narrow, 2)
    d2_s, h1_s, d1_s = d2_tiles.index(GROUP), h1_tiles.index(GROUP), d1_tiles.index(GROUP)
    x_s, hi_s, lo_s = x_tiles.index(GROUP), x_halves.index(GROUP), x_halves.index(2 + GROUP)
    x_here, d2_here = loaded.index(GROUP), loaded.index(2 + GROUP)
    group, turns = gl.program_id(0) * 2 + GROUP, _turns(n)
    start, stride = group * 64, 128 * gl.num_programs(0)
    at = _sums_at(w1_sums, group, HIDDEN, CHUNK, narrow)
    inverse = 1 / scale
    _copy(x, 0, start, x_s, x_here)
    _copy(d2, start, 0, d2_s, d2_here)
    mbarrier.wait(here.index(0), 0)
    for turn in range(turns):
        first = start + turn * stride
        mbarrier.wait(x_here, turn & 1)
        x_hi, x_lo = _halves(_inputs(x_s, to_part))
        barrier()
        hi_s.store(x_hi)
        lo_s.store(x_lo)
        mbarrier.wait(d2_here, turn & 1)
        d = d2_s.load(to_part)
        fence_async_shared()
        barrier()
        if turn + 1 < turns:
            _copy(x, 0, first + stride, x_s, x_here)
            _copy(d2, first + stride, 0, d2_s, d2_here)
        gx = gl.zeros([64, 32], gl.float32, narrow)
        for i in range(CHUNKS):
            g = turn * CHUNKS + i
            slot, phase = g % RING, (g // RING) & 1
            mbarrier.wait(ready.index(slot), phase)
            g1 = gl.zeros([64, CHUNK], gl.float32, part)
            g1 = warpgroup_mma(d, ring.index(slot), g1, use_acc=False, is_async=True)
            a1 = _narrow_product(hi_s, lo_s, first_hi.index(i), first_lo.index(i), CHUNK, part)
            # Before the barrier: the compiler would put it where it is used, and wait for it there.
            w1_sum = gl.load(at + i * CHUNK * 32, volatile=True)
            barrier()
            g1, a1, d = warpgroup_mma_wait(0, deps=(g1, a1, d))
            mbarrier.arrive(empty.index(slot), count=1)
            tma.store_wait(0)
            barrier()
            gx, w1_sum, d1 = _through_units(
                g1, a1, gx, w1_sum, first_hi.index(i), h1_s, d1_s, hi_s, to_narrow
            )
            store(h1_out, [first, i * CHUNK], h1_s)
            if GROUP == 0:  # noqa: SIM102 (decided when compiled, the other when run)
                if g + RING < turns * CHUNKS:
                    mbarrier.wait(empty.index(slot), phase)
                    column = ((g + RING) % CHUNKS) * CHUNK
                    _copy(w2t, 0, column, ring.index(slot), ready.index(slot))
            gx, w1_sum, d1 = warpgroup_mma_wait(0, deps=(gx, w1_sum, d1))
            gl.store(at + i * CHUNK * 32, w1_sum)
        _store_narrow(gx_ptr, first, n, gx * inverse, STATE, 32, narrow)
    tma.store_wait(0)


@gluon.jit
def two_layer_backward_bottom(
    x, d2, gx_ptr, n, scale, w1_hi, w1_lo, w2t, h1, w1_sums,
    STATE: gl.constexpr, HIDDEN: gl.constexpr, CHUNK: gl.constexpr, RING: gl.constexpr,
):  # fmt: skip
    """From the second layer's gradient to the inputs'; the first layer's activations on the way.

    Sums: W1's gradient and, in the last column, its bias's: (groups, HIDDEN, 32).
    """
    gl.static_assert(CHUNK == 64)
    half: gl.constexpr = gl.float16
    CHUNKS: gl.constexpr = HIDDEN // CHUNK
    first_hi = gl.allocate_shared_memory(half, [CHUNKS, 32, CHUNK], w1_hi.layout)
    first_lo = gl.allocate_shared_memory(half, [CHUNKS, 32, CHUNK], w1_lo.layout)
    ring = gl.allocate_shared_memory(half, [RING, HIDDEN, CHUNK], w2t.layout)
    d2_tiles = gl.allocate_shared_memory(half, [2, 64, HIDDEN], d2.layout)
    h1_tiles = gl.allocate_shared_memory(half, [2, 64, CHUNK], h1.layout)
    d1_tiles = gl.allocate_shared_memory(half, [2, 64, CHUNK], h1.layout)
    x_tiles = gl.allocate_shared_memory(gl.float32, [2, 32, 64], x.layout)
    staged: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 32], half)
    x_halves = gl.allocate_shared_memory(half, [4, 64, 32], staged)
    here, loaded = _barriers(1, 1), _barriers(4, 1)
    ready, empty = _barriers(RING, 1), _barriers(RING, 2)
    fence_async_shared()
    barrier()
    _copy_columns(w1_hi, w1_lo, first_hi, first_lo, here.index(0), CHUNKS, CHUNK)
    for g in range(RING):
        _copy(w2t, 0, g * CHUNK, ring.index(g), ready.index(g))
    given = (x, d2, gx_ptr, gl.to_tensor(n), gl.to_tensor(scale), w2t, h1, w1_sums)
    buffers = (first_hi, first_lo, ring, d2_tiles, h1_tiles, d1_tiles, x_tiles, x_halves)
    signals = (here, loaded, ready, empty)
    gl.warp_specialize(
        [
            (_bottom_rows, (given, buffers, signals, 0, STATE, HIDDEN, CHUNK, RING)),
            (_bottom_rows, (given, buffers, signals, 1, STATE, HIDDEN, CHUNK, RING)),
        ],
        [4],
        [240],
    )


@gluon.jit
def _outputs(pointer, first, n, OUT: gl.constexpr, layout: gl.constexpr):
    """A block (rows, 16) of a channel-major matrix (OUT, n), zero outside of it."""
    rows = first + gl.arange(0, 64, gl.SliceLayout(1, layout))
    c = gl.arange(0, 16, gl.SliceLayout(0, layout))
    inside = (rows[:, None] < n) & (c[None, :] < OUT)
    return gl.load(pointer + c[None, :] * n + rows[:, None], inside, other=0.0)


@gluon.jit
def _one_layer_rows(
    given, buffers, signals, GROUP: gl.constexpr, STATE: gl.constexpr, OUT: gl.constexpr,
    HIDDEN: gl.constexpr, CHUNK: gl.constexpr, TANH: gl.constexpr,
):  # fmt: skip
    """One group's blocks of rows."""
    x, r_ptr, g_ptr, gx_ptr, n, scale, w1_sums, w2_sums, b2_sums = given
    first_hi, first_lo, last_hi, last_lo, h1_tiles, d1_tiles, x_tiles, x_halves, d2_tiles = buffers
    here, loaded = signals
    CHUNKS: gl.constexpr = HIDDEN // CHUNK
    part: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, CHUNK, 16])
    narrow: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16])
    last: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 16, 16])
    to_part: gl.constexpr = gl.DotOperandLayout(0, part, 2)
    to_narrow: gl.constexpr = gl.DotOperandLayout(0, narrow, 2)
    h1_s, d1_s, d2_s = h1_tiles.index(GROUP), d1_tiles.index(GROUP), d2_tiles.index(GROUP)
    x_s, hi_s, arrived = x_tiles.index(GROUP), x_halves.index(GROUP), loaded.index(GROUP)
    group, turns = gl.program_id(0) * 2 + GROUP, _turns(n)
    start, stride = group * 64, 128 * gl.num_programs(0)
    at_w1 = _sums_at(w1_sums, group, HIDDEN, CHUNK, narrow)
    units = gl.arange(0, CHUNK, gl.SliceLayout(1, last))
    outputs = gl.arange(0, 16, gl.SliceLayout(0, last))
    at_w2 = w2_sums + group * HIDDEN * 16 + outputs[None, :] * HIDDEN + units[:, None]
    inverse = 1 / scale
    _copy(x, 0, start, x_s, arrived)
    mbarrier.wait(here.index(0), 0)
    mbarrier.wait(here.index(1), 0)
    total = gl.zeros([64, 16], gl.float32, to_part)
    for turn in range(turns):
        first = start + turn * stride
        d2 = _outputs(g_ptr, first, n, OUT, to_part) * scale
        if TANH:
            r = _outputs(r_ptr, first, n, OUT, to_part)
            d2 = d2 * (1 - r * r)
        d2 = _bounded(d2)
        total += d2
        d_hi, d_lo = _halves(d2)
        barrier()
        d2_s.store(d_hi)
        mbarrier.wait(arrived, turn & 1)
        x_hi, x_lo = _halves(_inputs(x_s, to_part))
        hi_s.store(x_hi)
        fence_async_shared()
        barrier()
        if turn + 1 < turns:
            _copy(x, 0, first + stride, x_s, arrived)
        gx = gl.zeros([64, 32], gl.float32, narrow)
        for i in range(CHUNKS):
            a1 = _narrow_product(x_hi, x_lo, first_hi.index(i), first_lo.index(i), CHUNK, part)
            g1 = _narrow_product(d_hi, d_lo, last_hi.index(i), last_lo.index(i), CHUNK, part)
            w1_sum, w2_sum = gl.load(at_w1 + i * CHUNK * 32), gl.load(at_w2 + i * CHUNK)
            g1, a1, d_hi, d_lo, x_hi, x_lo = warpgroup_mma_wait(
                0, deps=(g1, a1, d_hi, d_lo, x_hi, x_lo)
            )
            barrier()
            gx, w1_sum, d1 = _through_units(
                g1, a1, gx, w1_sum, first_hi.index(i), h1_s, d1_s, hi_s, to_narrow
            )
            w2_sum = warpgroup_mma(h1_s.permute((1, 0)), d2_s, w2_sum, is_async=True)
            gx, w1_sum, w2_sum, d1 = warpgroup_mma_wait(0, deps=(gx, w1_sum, w2_sum, d1))
            gl.store(at_w1 + i * CHUNK * 32, w1_sum)
            gl.store(at_w2 + i * CHUNK, w2_sum)
        _store_narrow(gx_ptr, first, n, gx * inverse, STATE, 32, narrow)
    at = b2_sums + group * 16 + gl.arange(0, 16, gl.SliceLayout(0, to_part))
    gl.store(at, gl.load(at) + gl.sum(total, 0))


@gluon.jit
def one_layer_backward(
    x, r_ptr, g_ptr, gx_ptr, n, scale, w1_hi, w1_lo, w2t_hi, w2t_lo, w1_sums, w2_sums, b2_sums,
    STATE: gl.constexpr, OUT: gl.constexpr, HIDDEN: gl.constexpr, CHUNK: gl.constexpr,
    TANH: gl.constexpr,
):  # fmt: skip
    """Gradient of the inputs; besides it only sums are written to memory.

    Sums: W1's gradient with its bias's (groups, HIDDEN, 32), W2's (groups, 16, HIDDEN), its bias's
    (groups, 16).
    """
    gl.static_assert(CHUNK == 64)
    half: gl.constexpr = gl.float16
    CHUNKS: gl.constexpr = HIDDEN // CHUNK
    first_hi = gl.allocate_shared_memory(half, [CHUNKS, 32, CHUNK], w1_hi.layout)
    first_lo = gl.allocate_shared_memory(half, [CHUNKS, 32, CHUNK], w1_lo.layout)
    last_hi = gl.allocate_shared_memory(half, [CHUNKS, 16, CHUNK], w2t_hi.layout)
    last_lo = gl.allocate_shared_memory(half, [CHUNKS, 16, CHUNK], w2t_lo.layout)
    units: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, CHUNK], half)
    h1_tiles = gl.allocate_shared_memory(half, [2, 64, CHUNK], units)
    d1_tiles = gl.allocate_shared_memory(half, [2, 64, CHUNK], units)
    x_tiles = gl.allocate_shared_memory(gl.float32, [2, 32, 64], x.layout)
    inputs: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 32], half)
    x_halves = gl.allocate_shared_memory(half, [2, 64, 32], inputs)
    outputs: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 16], half)
    d2_tiles = gl.allocate_shared_memory(half, [2, 64, 16], outputs)
    here, loaded = _barriers(2, 1), _barriers(2, 1)
    fence_async_shared()
    barrier()
    _copy_columns(w1_hi, w1_lo, first_hi, first_lo, here.index(0), CHUNKS, CHUNK)
    _copy_columns(w2t_hi, w2t_lo, last_hi, last_lo, here.index(1), CHUNKS, CHUNK)
    given = (
        x, r_ptr, g_ptr, gx_ptr, gl.to_tensor(n), gl.to_tensor(scale), w1_sums, w2_sums, b2_sums,
    )  # fmt: skip
    buffers = (
        first_hi, first_lo, last_hi, last_lo, h1_tiles, d1_tiles, x_tiles, x_halves, d2_tiles,
    )  # fmt: skip
    gl.warp_specialize(
        [
            (_one_layer_rows, (given, buffers, (here, loaded), 0, STATE, OUT, HIDDEN, CHUNK, TANH)),
            (_one_layer_rows, (given, buffers, (here, loaded), 1, STATE, OUT, HIDDEN, CHUNK, TANH)),
        ],
        [4],
        [240],
    )


# --- launching ------------------------------------------------------------------------------------

# What has no kernel here, the backward pass's top and the contact network's forward pass, stays
# with Triton: there is little to gain.

# Hidden units at a time, and how many of the second layer's blocks a program holds: as many as
# shared memory has room for.
FORWARD = {"CHUNK": 32, "RING": 3}
BOTTOM = {"CHUNK": 64, "RING": 2}
ONE_LAYER = {"CHUNK": 64}


def blocks(matrix: Tensor, *shape: int) -> TensorDescriptor:
    """A matrix whose blocks are copied into shared memory by the tensor memory accelerator."""
    return TensorDescriptor.from_tensor(matrix, [*shape], _layout(matrix.dtype, *shape))


@lru_cache
def _layout(dtype: torch.dtype, *shape: int) -> Any:
    """Layout of a block in shared memory."""
    of = {torch.float16: gl.float16, torch.float32: gl.float32}[dtype]
    return gl.NVMMASharedLayout.get_default_for([*shape], of)


def columns(weight: tuple[Tensor, ...], chunk: int) -> list[TensorDescriptor]:
    """Blocks of ``chunk`` columns of both halves."""
    return [blocks(half, len(half), chunk) for half in weight]


class HopperNetwork(TritonNetwork):
    """A residual network of a multiple of four rows, see :class:`TritonNetwork`; three passes."""

    @torch.no_grad()
    def prepare(self) -> None:
        """Copy the parameters' current values."""
        super().prepare()
        w1 = padded(self.layers[0].weight.T, INPUTS, self.hidden)
        w1[-1] = self.b1  # the kernels' inputs end with a one
        self.w1_with_bias = halves(w1)
        self.weights = self._deep_weights() if self.deep else self._shallow_weights()

    # Descriptors of the weights are made once for all launches of an update: a launch takes tens of
    # microseconds, and so would they.

    def _deep_weights(self) -> dict[str, list[TensorDescriptor]]:
        assert self.w2t is not None
        forward, bottom = FORWARD["CHUNK"], BOTTOM["CHUNK"]
        return {
            "w1 forward": columns(self.w1_with_bias, forward),
            "w2": [blocks(half, forward, self.hidden) for half in self.w2],
            "w_out": columns(self.w_out, OUTPUTS),
            "w1": columns(self.w1_with_bias, bottom),
            "w2t": [blocks(self.w2t, self.hidden, bottom)],
        }

    def _shallow_weights(self) -> dict[str, list[TensorDescriptor]]:
        chunk = ONE_LAYER["CHUNK"]
        return {
            "w1": columns(self.w1_with_bias, chunk),
            "w_out_t": columns(self.w_out_t, chunk),
        }

    def _inputs(self, x: StateTensor) -> TensorDescriptor:
        return blocks(x, INPUTS, ROWS)

    @property
    def _grid(self) -> tuple[int]:
        return (min(multiprocessors(self.device), -(-self.rows // (GROUPS * ROWS))),)

    def _owners(self, part: str) -> int:
        return GROUPS * self._grid[0] if part == "bottom" else super()._owners(part)

    def _two_layers(self, x: StateTensor, r: Tensor, kept: Tensor | None) -> None:
        weights = self.weights
        w2 = weights["w2"]
        launch(two_layer_forward, self._grid)(
            self._inputs(x), r, w2[0] if kept is None else blocks(kept, ROWS, self.hidden),
            self.rows, *weights["w1 forward"], *w2, *self.b2, *weights["w_out"], self.b_out,
            OUT=self.out, HIDDEN=self.hidden, SAVE=kept is not None, TANH=self.tanh, num_warps=4,
            **FORWARD,
        )  # fmt: skip

    def _bottom(self, x: StateTensor, d2: Tensor, h1: Tensor, gx: Tensor) -> None:
        weights, chunk = self.weights, BOTTOM["CHUNK"]
        launch(two_layer_backward_bottom, self._grid)(
            self._inputs(x), blocks(d2, ROWS, self.hidden), gx, self.rows, self.scale,
            *weights["w1"], *weights["w2t"], blocks(h1[: self.rows], ROWS, chunk),
            self._sums()["w1"], STATE=DIM, HIDDEN=self.hidden, num_warps=4, **BOTTOM,
        )  # fmt: skip

    def _one_layer_back(self, x: StateTensor, r: Tensor, g: Tensor, gx: Tensor) -> None:
        sums, weights = self._sums(), self.weights
        launch(one_layer_backward, self._grid)(
            self._inputs(x), r, g, gx, self.rows, self.scale,
            *weights["w1"], *weights["w_out_t"], sums["w1"], sums["w_out"], sums["b_out"],
            STATE=DIM, OUT=self.out, HIDDEN=self.hidden, TANH=self.tanh, num_warps=4, **ONE_LAYER,
        )  # fmt: skip

"""ContextNND's decoder as a Triton kernel: all layers of one object's frames stay on the chip."""

import triton
import triton.language as tl


@triton.jit
def _layer(x, dx, w, gain, offset, H: tl.constexpr):
    """SiLU of a layer and its derivative by time, both in half precision."""
    a = tl.dot(x, w) * gain[None, :] + offset[None, :]
    da = tl.dot(dx, w) * gain[None, :]
    sigma = 1 / (1 + tl.exp(-a))
    return (a * sigma).to(tl.float16), (sigma * (1 + a * (1 - sigma)) * da).to(tl.float16)


@triton.jit
def decode(
    fx, fdx, gains, offsets, first, later, out, bias, ox, odx, T,
    LAYERS: tl.constexpr, ROWS: tl.constexpr, F: tl.constexpr, H: tl.constexpr,
    OUT: tl.constexpr,
):  # fmt: skip
    """Program (b, i): frames ``ROWS i`` and on of object b."""
    b = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = (rows < T)[:, None]
    f, h, o = tl.arange(0, F), tl.arange(0, H), tl.arange(0, OUT)
    at = (b * T + rows)[:, None]
    x = tl.load(fx + at * F + f[None, :], mask=there, other=0.0)
    dx = tl.load(fdx + at * F + f[None, :], mask=there, other=0.0)
    modulation = b * LAYERS * H + h
    gain = 1 + tl.load(gains + modulation).to(tl.float32)
    offset = tl.load(offsets + modulation).to(tl.float32)
    x, dx = _layer(x, dx, tl.load(first + f[:, None] * H + h[None, :]), gain, offset, H)
    for layer in tl.static_range(1, LAYERS):
        gain = 1 + tl.load(gains + modulation + layer * H).to(tl.float32)
        offset = tl.load(offsets + modulation + layer * H).to(tl.float32)
        w = tl.load(later + (layer - 1) * H * H + h[:, None] * H + h[None, :])
        x, dx = _layer(x, dx, w, gain, offset, H)
    w = tl.load(out + h[:, None] * OUT + o[None, :])
    tl.store(ox + at * OUT + o[None, :], tl.dot(x, w) + tl.load(bias + o)[None, :], mask=there)
    tl.store(odx + at * OUT + o[None, :], tl.dot(dx, w), mask=there)

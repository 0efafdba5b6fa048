"""ContextNND's decoder as one Triton kernel: all layers of one object's frames stay on the chip.

The same numbers as :meth:`newtongs.dynamics.context.ContextNND.futures` with half-precision
products; what stands before and after the kernel is torch's, compiled.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from ...state import StateTensor
from ..context.dual import Dual
from ..context.model import OUTPUTS, ContextNND, Mixture, assemble, prepared
from ..context.tracks import FEATURES, tracks

ROWS = 64  # frames of an object that a program takes
PADDED_IN, PADDED_OUT = 64, 32  # sizes that the tensor cores take
HALF = torch.float16


@triton.jit
def _layer(x, dx, w, gain, offset, H: tl.constexpr):
    """SiLU of a layer and its derivative by time, both in half precision."""
    a = tl.dot(x, w) * gain[None, :] + offset[None, :]
    da = tl.dot(dx, w) * gain[None, :]
    sigma = 1 / (1 + tl.exp(-a))
    return (a * sigma).to(tl.float16), (sigma * (1 + a * (1 - sigma)) * da).to(tl.float16)


@triton.jit
def _decode(
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


class FusedContext:
    """Predicts on CUDA; a model of 64 or 128 hidden units.

    ``likeliest=True`` decodes the likeliest future alone, a third of the work.
    """

    def __init__(self, model: ContextNND, *, compiled: bool = True) -> None:
        self.model, c = model, model.config
        d = model.decoder
        self.first = _padded(d.hidden[0].weight.T, PADDED_IN, c.hidden).to(HALF)
        self.later = torch.stack([layer.weight.T for layer in d.hidden[1:]]).to(HALF).contiguous()
        self.out = _padded(d.out.weight.T, c.hidden, PADDED_OUT).to(HALF)
        self.bias = _padded(d.out.bias[None], 1, PADDED_OUT)[0].float()
        self.reader = _half_reader(model)
        make: Callable[..., Callable[..., object]] = torch.compile if compiled else lambda f: f
        self.features, self.finish = make(_features), make(_finish)
        self.read = make(self._read)

    @staticmethod
    def supports(model: ContextNND) -> bool:
        """Whether the kernel takes such a model."""
        return model.config.hidden in (64, 128) and model.config.layers > 1

    @torch.no_grad()
    def __call__(
        self,
        observed: StateTensor,
        times: Tensor,
        *,
        seen: Tensor | int | None = None,
        likeliest: bool = False,
    ) -> Mixture:
        """As :meth:`ContextNND.forward`."""
        observed, count = prepared(observed, seen)
        elapsed = (times - times[0]).to(observed)
        probability, gains, offsets = self.read(observed, count, likeliest)
        return Mixture(probability, self.decode(observed[:, 0], elapsed, gains, offsets))

    def _read(
        self, observed: StateTensor, seen: Tensor, likeliest: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits, gains, offsets = self.reader(self.model.readings(observed, seen))
        probability = torch.softmax(logits.float(), -1)
        if likeliest:
            best = probability.argmax(-1)[:, None, None, None]
            index = best.expand(-1, 1, *gains.shape[2:])
            gains, offsets = gains.gather(1, index), offsets.gather(1, index)
            probability = torch.ones_like(probability[:, :1])
        return probability, gains.contiguous(), offsets.contiguous()

    def decode(self, z0: StateTensor, times: Tensor, gains: Tensor, offsets: Tensor) -> StateTensor:
        """States ``(B, K, T, 22)``, one hypothesis after the other."""
        fx, fdx = self.features(z0, times)
        futures = []
        for k in range(gains.shape[1]):
            weights = self.launch(fx, fdx, gains[:, k].contiguous(), offsets[:, k].contiguous())
            futures.append(self.finish(z0, times, *weights))
        return futures[0] if len(futures) == 1 else torch.cat(futures, 1)

    def launch(
        self, fx: Tensor, fdx: Tensor, gains: Tensor, offsets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Weights of the tracks and their rates ``(B, T, 32)``."""
        batch, frames, _ = fx.shape
        out = [fx.new_empty(batch, frames, PADDED_OUT, dtype=torch.float32) for _ in range(2)]
        c = self.model.config
        _decode[(batch, triton.cdiv(frames, ROWS))](
            fx, fdx, gains, offsets, self.first, self.later, self.out, self.bias, *out, frames,
            LAYERS=c.layers, ROWS=ROWS, F=PADDED_IN, H=c.hidden, OUT=PADDED_OUT, num_warps=8,
        )  # fmt: skip
        return out[0], out[1]


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    y = x.detach().new_zeros(rows, columns)
    y[: x.shape[0], : x.shape[1]] = x.detach()
    return y.contiguous()


def _half_reader(model: ContextNND) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """The reader with weights in half precision; its input is made in single precision."""
    import copy

    half = copy.deepcopy(model)
    for part in (half.read, half.blocks, half.norm, half.logits, half.context):
        part.to(HALF)
    inner = half.read
    half.read = nn.Sequential(_ToHalf(), inner)
    return half.contexts


class _ToHalf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to(HALF)


def _features(z0: StateTensor, times: Tensor) -> tuple[Tensor, Tensor]:
    """Features of the decoder and their rates in half precision ``(B, T, 64)``."""
    found = tracks(z0, times).features
    pad = (0, PADDED_IN - FEATURES)
    x, dx = (nn.functional.pad(part, pad).to(HALF).contiguous() for part in found)
    return x, dx


def _finish(z0: StateTensor, times: Tensor, x: Tensor, dx: Tensor) -> StateTensor:
    """States ``(B, 1, T, 22)`` of the weights of one hypothesis."""
    n = sum(OUTPUTS.values())
    weights = Dual(x[:, None, :, :n], dx[:, None, :, :n])
    return assemble(z0.unsqueeze(1), times, tracks(z0.unsqueeze(1), times), weights)

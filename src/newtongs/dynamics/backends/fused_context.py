"""ContextNND on CUDA: its decoder as one kernel, all else as torch's compiled code.

The same numbers as :meth:`newtongs.dynamics.context.ContextNND.futures` with half-precision
products.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
import triton  # type: ignore[import-untyped]
from torch import Tensor, nn

from ...types import StateTensor
from ..context.dual import Dual
from ..context.model import OUTPUTS, ContextNND, Mixture, assemble, prepared
from ..context.tracks import FEATURES, tracks
from .triton_decoder import decode

ROWS = 64  # frames of an object that a program takes
PADDED_IN, PADDED_OUT = 64, 32  # sizes that the tensor cores take
HALF = torch.float16


class FusedContext:
    """Predicts on CUDA; a model of 64 or 128 hidden units.

    ``likeliest=True`` decodes the likeliest future alone, a third of the work.
    """

    def __init__(self, model: ContextNND, *, compiled: bool = True) -> None:
        self.model, c = model, model.config
        d = model.decoder
        first, *later = (x.weight.T for x in d.hidden if isinstance(x, nn.Linear))
        self.first = _padded(first, PADDED_IN, c.hidden).to(HALF)
        self.later = torch.stack(later).to(HALF).contiguous()
        self.out = _padded(d.out.weight.T, c.hidden, PADDED_OUT).to(HALF)
        self.bias = _padded(d.out.bias[None], 1, PADDED_OUT)[0].float()
        self.reader = _half_reader(model)
        make: Callable[..., Callable[..., Any]] = torch.compile if compiled else lambda f: f
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
        decode[(batch, triton.cdiv(frames, ROWS))](
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
    half = copy.deepcopy(model)
    for part in (half.read, half.blocks, half.norm, half.logits, half.context):
        part.to(HALF)
    return lambda readings: half.contexts(readings.to(HALF))


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

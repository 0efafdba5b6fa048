"""ContextNND on CUDA: the decoder as two kernels, the reader as torch's compiled code.

The same numbers as :meth:`newtongs.dynamics.context.ContextNND.futures` with half-precision
products.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import triton  # type: ignore[import-untyped]
from torch import Tensor, nn

from ...state import DIM
from ...types import StateTensor
from ..context.dual import Dual
from ..context.model import ContextNND, Mixture, prepared
from ..context.tracks import FREQUENCIES, tracks
from .triton_decoder import closed_forms, decode
from .triton_rollout import multiprocessors

ROWS = 64  # frames of an object that a program takes
WARPS, PROGRAMS, AHEAD = 4, 2, 2  # of a program; programs a multiprocessor; objects read ahead
FRAMES = 256  # that a program of the closed forms takes
CLOCKS = 1 + 2 * len(FREQUENCIES)  # features, the first ones, that depend on time alone
READ, WEIGHED = 21, 5  # features of an object, and tracks to weigh
PADDED_CLOCKS, PADDED_READ, PADDED_OUT = 16, 32, 32  # sizes that the tensor cores take
HALF = torch.float16


class FusedContext:
    """Predicts on CUDA; a model of 64 or 128 hidden units.

    ``likeliest=True`` decodes the likeliest future alone, a third of the work.
    """

    def __init__(self, model: ContextNND, *, compiled: bool = True) -> None:
        self.model, c = model, model.config
        d = model.decoder
        first, *later = (x.weight.T for x in d.hidden if isinstance(x, nn.Linear))
        self.first_clock = _padded(first[:CLOCKS], PADDED_CLOCKS, c.hidden).to(HALF)
        self.first = _padded(first[CLOCKS:], PADDED_READ, c.hidden).to(HALF)
        self.later = torch.stack(later).to(HALF).contiguous()
        order = [_reversed(k) for k in range(PADDED_OUT)]  # as the kernel takes columns apart
        self.out = _padded(d.out.weight.T, c.hidden, PADDED_OUT)[:, order].to(HALF).contiguous()
        self.bias = _padded(d.out.bias[None], 1, PADDED_OUT)[0, order].float().contiguous()
        self.reader = HalfReader(model)
        make: Callable[..., Callable[..., Any]] = torch.compile if compiled else lambda f: f
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
        probability, modulations = self.read(observed, count)
        z0 = observed[:, 0].contiguous()
        if not likeliest:
            return Mixture(probability, self.decode(z0, elapsed, modulations))
        best = probability.argmax(-1)
        states = self.decode(z0, elapsed, modulations, best.to(torch.int32))
        return Mixture(torch.ones_like(probability[:, :1]), states)

    def _read(self, observed: StateTensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities, and what sets the decoder's gains and offsets ``(B, K, layers, 2, H)``."""
        logits, modulations = self.reader(self.model.readings(observed, seen))
        return torch.softmax(logits.float(), -1), modulations

    def decode(
        self, z0: StateTensor, times: Tensor, modulations: Tensor, chosen: Tensor | None = None
    ) -> StateTensor:
        """States ``(B, K, T, 22)`` of all futures, or of the ``chosen (B,)`` alone, ``K = 1``."""
        n, c = len(z0) * len(times), self.model.config
        fx, fdx = z0.new_empty(2, READ, n, dtype=HALF)
        weighed = z0.new_empty(2 * WEIGHED, n)
        closed_forms[(triton.cdiv(n, FRAMES),)](
            z0, times, fx, fdx, weighed, len(times), n, ROWS=FRAMES, num_warps=4
        )
        futures = 1 if chosen is not None else c.hypotheses
        states = z0.new_empty(len(z0), futures, len(times), DIM)
        others = (futures, triton.cdiv(len(times), ROWS))
        decode[(min(len(z0), PROGRAMS * multiprocessors(z0.device)), *others)](
            z0, times, fx, fdx, weighed, *_clocks(times), chosen, modulations, self.first,
            self.first_clock, self.later, self.out, self.bias, states, len(z0), len(times), n,
            *modulations.stride()[:3], LAYERS=c.layers, ROWS=ROWS, H=c.hidden,
            CHOSEN=chosen is not None, AHEAD=AHEAD, num_warps=WARPS,
        )  # fmt: skip
        return states


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    y = x.detach().new_zeros(rows, columns)
    y[: x.shape[0], : x.shape[1]] = x.detach()
    return y.contiguous()


def _reversed(k: int) -> int:
    """The five bits of a column's number, back to front."""
    return int(f"{k:05b}"[::-1], 2)


class HalfReader(nn.Module):
    """The reader with weights in half precision; its input is made in single precision.

    Widths are multiples of eight, which tensor cores need; logits come with the modulations.
    """

    def __init__(self, model: ContextNND) -> None:
        super().__init__()
        half = copy.deepcopy(model).to(HALF)
        self.blocks, self.norm, c = half.blocks, half.norm, model.config
        self.shape = (c.hypotheses, c.layers, 2, c.hidden)
        self.read = _widened(half.read, _eightfold(half.read.in_features), c.width)
        both = nn.Linear(c.width, half.context.out_features + half.logits.out_features)
        both.weight = nn.Parameter(torch.cat([half.context.weight, half.logits.weight]))
        both.bias = nn.Parameter(torch.cat([half.context.bias, half.logits.bias]))
        self.context = _widened(both, c.width, _eightfold(both.out_features))

    def forward(self, readings: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`ContextNND.modulations`."""
        pad = (0, self.read.in_features - readings.shape[-1])
        x = self.read(nn.functional.pad(readings.to(HALF), pad))
        for block in self.blocks:
            x = block(x)
        both = self.context(nn.functional.silu(self.norm(x)))
        n = math.prod(self.shape)
        return both[:, n : n + self.shape[0]], both[:, :n].unflatten(-1, self.shape)


def _eightfold(n: int) -> int:
    return -(-n // 8) * 8


def _widened(layer: nn.Linear, inputs: int, outputs: int) -> nn.Linear:
    """The same layer with inputs that count for nothing and outputs that are zero."""
    wide = nn.Linear(inputs, outputs, device=layer.weight.device, dtype=layer.weight.dtype)
    wide.weight = nn.Parameter(_padded(layer.weight, outputs, inputs))
    wide.bias = nn.Parameter(_padded(layer.bias[None], 1, outputs)[0])
    return wide


def _clocks(times: Tensor) -> tuple[Tensor, Tensor]:
    """Features that depend on time alone, and their rates ``(T, 16)``."""
    nothing = times.new_zeros(DIM)
    nothing[13:16] = nothing[19] = 1.0
    found: Dual = tracks(nothing, times).features
    x, dx = (_padded(part[:, :CLOCKS], len(times), PADDED_CLOCKS).to(HALF) for part in found)
    return x, dx

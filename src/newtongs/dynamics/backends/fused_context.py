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

from ...state import DIM, project
from ...types import StateTensor
from ..context.model import ContextNND, Mixture, checked
from ..context.tracks import FREQUENCIES
from .triton_decoder import closed_forms, decode
from .triton_rollout import multiprocessors

ROWS = 64  # frames of an object that a program takes
WARPS, PROGRAMS = 4, 2  # of a program; programs a multiprocessor: weights fill its memory
MOST = 2**25  # frames decoded at once: 4 GB, and places that 32 bits count
FRAMES = 256  # that a program of the closed forms takes
CLOCKS = 1 + 2 * len(FREQUENCIES)  # features, the first ones, that depend on time alone
READ, WEIGHED = 21, 5  # features of an object, and tracks to weigh
PADDED_CLOCKS, PADDED_READ, PADDED_OUT = 16, 32, 32  # sizes that the tensor cores take
HALF = torch.float16


class FusedContext:
    """Predicts on CUDA; a model of 64 or 128 hidden units in two to four layers.

    What half precision cannot hold, rates beyond some ten thousand, comes out as no number.
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
        tones = [0.0, *(f for f in FREQUENCIES for _ in "sc")]  # a sine and a cosine of each
        self.omega = _padded(first.new_tensor([tones]), 1, PADDED_CLOCKS)[0].float()
        quarter = [0.0, *(k * math.pi / 2 for _ in FREQUENCIES for k in (0, 1))]
        self.phase = _padded(first.new_tensor([quarter]), 1, PADDED_CLOCKS)[0].float()
        self.reader = HalfReader(model)
        make: Callable[..., Callable[..., Any]] = torch.compile if compiled else lambda f: f
        self.read = make(self._read)

    @staticmethod
    def supports(model: ContextNND) -> bool:
        """Whether the kernel takes such a model."""
        c, nvidia = model.config, torch.version.hip is None  # whose instructions it uses
        return c.hidden in (64, 128) and 2 <= c.layers <= 4 and nvidia

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
        observed, count = checked(observed, seen)
        elapsed = (times - times[0]).to(observed)
        probability, modulations, z0, best = self.read(observed, count)
        if not likeliest:
            return Mixture(probability, self.decode(z0, elapsed, modulations))
        states = self.decode(z0, elapsed, modulations, best)
        return Mixture(torch.ones_like(probability[:, :1]), states)

    def _read(self, observed: StateTensor, seen: Tensor) -> tuple[Tensor, ...]:
        """Probabilities, what modulates the decoder ``(B, .)``, first states, likeliest futures."""
        observed = project(observed)
        logits, modulations = self.reader(self.model.readings(observed, seen))
        probability = torch.softmax(logits.float(), -1)
        best = probability.argmax(-1).to(torch.int32)
        return probability, modulations, observed[:, 0].contiguous(), best

    def decode(
        self, z0: StateTensor, times: Tensor, modulations: Tensor, chosen: Tensor | None = None
    ) -> StateTensor:
        """States ``(B, K, T, 22)`` of all futures, or of the ``chosen (B,)`` alone, ``K = 1``."""
        pieces = [x.split(max(1, MOST // len(times))) for x in (z0, modulations)]
        own = [None] * len(pieces[0]) if chosen is None else chosen.split(len(pieces[0][0]))
        made = [self._decode(z, times, m, k) for z, m, k in zip(*pieces, own, strict=True)]
        return made[0] if len(made) == 1 else torch.cat(made)

    def _decode(
        self, z0: StateTensor, times: Tensor, modulations: Tensor, chosen: Tensor | None
    ) -> StateTensor:
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
            z0, times, fx, fdx, weighed, chosen, modulations, self.omega, self.phase, self.first,
            self.first_clock, self.later, self.out, self.bias, states, len(z0), len(times), n,
            modulations.stride(0), LAYERS=c.layers, ROWS=ROWS, H=c.hidden,
            CHOSEN=chosen is not None, APPROXIMATE=z0.is_cuda, num_warps=WARPS,
            num_stages=1,
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

    Widths are multiples of eight, which tensor cores need. Logits come behind the modulations.
    """

    def __init__(self, model: ContextNND) -> None:
        super().__init__()
        half = copy.deepcopy(model).to(HALF)
        self.blocks, self.norm, self.hypotheses = half.blocks, half.norm, model.config.hypotheses
        width = model.config.width
        self.read = _widened(half.read, _eightfold(half.read.in_features), width)
        both = nn.Linear(width, half.context.out_features + self.hypotheses)
        both.weight = nn.Parameter(torch.cat([half.context.weight, half.logits.weight]))
        both.bias = nn.Parameter(torch.cat([half.context.bias, half.logits.bias]))
        self.modulations = half.context.out_features
        self.context = _widened(both, width, _eightfold(both.out_features))

    def forward(self, readings: Tensor) -> tuple[Tensor, Tensor]:
        """Logits ``(B, K)``, and the row of which modulations are the beginning."""
        pad = (0, self.read.in_features - readings.shape[-1])
        x = self.read(nn.functional.pad(readings.to(HALF), pad))
        for block in self.blocks:
            x = block(x)
        both = self.context(nn.functional.silu(self.norm(x)))
        return both[:, self.modulations : self.modulations + self.hypotheses], both


def _eightfold(n: int) -> int:
    return -(-n // 8) * 8


def _widened(layer: nn.Linear, inputs: int, outputs: int) -> nn.Linear:
    """The same layer with inputs that count for nothing and outputs that are zero."""
    wide = nn.Linear(inputs, outputs, device=layer.weight.device, dtype=layer.weight.dtype)
    wide.weight = nn.Parameter(_padded(layer.weight, outputs, inputs))
    wide.bias = nn.Parameter(_padded(layer.bias[None], 1, outputs)[0])
    return wide

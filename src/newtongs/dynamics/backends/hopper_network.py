"""The residual networks on Hopper GPUs: ``FusedNetwork`` with the kernels of ``gluon_networks``.

What has no such kernel, the backward pass's top and the contact network's forward pass, stays with
Triton: there is little to gain.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl  # type: ignore[import-untyped]
from triton.experimental.gluon.nvidia.hopper import (  # type: ignore[import-untyped]
    TensorDescriptor,
)

from ...state import DIM
from ...types import StateTensor
from . import gluon_networks as kernels
from .ahead import launch
from .gluon_networks import GROUPS, ROWS
from .triton_rollout import INPUTS, OUTPUTS, FusedNetwork, halves, multiprocessors, padded

# Hidden units at a time, and how many of the second layer's blocks a program holds: as many as
# shared memory has room for.
FORWARD = {"CHUNK": 32, "RING": 3}
BOTTOM = {"CHUNK": 64, "RING": 2}
ONE_LAYER = {"CHUNK": 64}


def blocks(matrix: Tensor, *shape: int) -> TensorDescriptor:
    """A matrix whose blocks the card copies into shared memory by itself."""
    return TensorDescriptor.from_tensor(matrix, [*shape], _layout(matrix.dtype, *shape))


@lru_cache
def _layout(dtype: torch.dtype, *shape: int) -> Any:
    """How a block lies in shared memory."""
    of = {torch.float16: gl.float16, torch.float32: gl.float32}[dtype]
    return gl.NVMMASharedLayout.get_default_for([*shape], of)


def columns(weight: tuple[Tensor, ...], chunk: int) -> list[TensorDescriptor]:
    """Blocks of ``chunk`` columns of both halves."""
    return [blocks(half, len(half), chunk) for half in weight]


class HopperNetwork(FusedNetwork):
    """A residual network of a multiple of four rows, see :class:`FusedNetwork`; three passes."""

    @torch.no_grad()
    def prepare(self) -> None:
        """Take over the parameters' present values."""
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
        launch(kernels.two_layer_forward, self._grid)(
            self._inputs(x), r, w2[0] if kept is None else blocks(kept, ROWS, self.hidden),
            self.rows, *weights["w1 forward"], *w2, *self.b2, *weights["w_out"], self.b_out,
            OUT=self.out, HIDDEN=self.hidden, SAVE=kept is not None, TANH=self.tanh, num_warps=4,
            **FORWARD,
        )  # fmt: skip

    def _bottom(self, x: StateTensor, d2: Tensor, h1: Tensor, gx: Tensor) -> None:
        weights, chunk = self.weights, BOTTOM["CHUNK"]
        launch(kernels.two_layer_backward_bottom, self._grid)(
            self._inputs(x), blocks(d2, ROWS, self.hidden), gx, self.rows, self.scale,
            *weights["w1"], *weights["w2t"], blocks(h1[: self.rows], ROWS, chunk),
            self._sums()["w1"], STATE=DIM, HIDDEN=self.hidden, num_warps=4, **BOTTOM,
        )  # fmt: skip

    def _one_layer_back(self, x: StateTensor, r: Tensor, g: Tensor, gx: Tensor) -> None:
        sums, weights = self._sums(), self.weights
        launch(kernels.one_layer_backward, self._grid)(
            self._inputs(x), r, g, gx, self.rows, self.scale,
            *weights["w1"], *weights["w_out_t"], sums["w1"], sums["w_out"], sums["b_out"],
            STATE=DIM, OUT=self.out, HIDDEN=self.hidden, TANH=self.tanh, num_warps=4, **ONE_LAYER,
        )  # fmt: skip

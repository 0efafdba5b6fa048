"""The whole forward and backward pass of a batch as one CUDA graph over fused kernels."""

import math

import torch
from torch import Tensor

from ..dynamics import GaussianNND
from ..dynamics.fused import FusedRollout
from ..types import StateTensor, Times
from .config import LossWeights, TrainConfig
from .loss import objective
from .ranks import Ranks

WARM_UP = 2  # passes before the capture: compilation, and the allocator finding its sizes


class FusedUpdate:
    """Gradients of a fixed-size batch; captured at the first call, replayed from then on."""

    def __init__(
        self,
        model: GaussianNND,
        times: Times,
        config: TrainConfig,
        group: Ranks,
        *,
        passes: int = 3,
    ) -> None:
        self.model, self.times, self.weights, self.group = model, times, config.loss, group
        self.passes = passes
        self.graph: torch.cuda.CUDAGraph | None = None
        self.target = torch.empty(0)
        self.terms: dict[str, Tensor] = {}

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`newtongs.training.update.Update`."""
        if self.graph is None or self.target.shape != target.shape:
            self._capture(target)
        assert self.graph is not None
        self.target.copy_(target)
        self.graph.replay()
        share = len(target) / batch
        if self.group.size > 1:
            for p in self.model.parameters():
                assert p.grad is not None
                self.group.sum(p.grad.mul_(share))
        totals = self.group.sum(torch.stack(list(self.terms.values())).double() * share)
        return dict(zip(self.terms, totals.tolist(), strict=True))

    def _capture(self, target: StateTensor) -> None:
        n, frames, _ = target.shape
        self.target = target.clone()
        # Mean-squared errors make gradients of about 1 / (rows x frames). The scale undoes most of
        # that and leaves room above for the rare objects whose gradients are far larger.
        scale = 2.0 ** round(math.log2(n * frames / 4))
        self.rollout = FusedRollout(self.model, self.times, rows=n, passes=self.passes, scale=scale)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._forward_backward(self.weights)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.terms = self._forward_backward(self.weights)

    def _forward_backward(self, weights: LossWeights) -> dict[str, Tensor]:
        self.rollout.prepare()
        for p in self.model.parameters():
            assert p.grad is not None
            p.grad.zero_()
        terms = _objective(self.rollout(self.target[:, 0]), self.target, weights)
        terms["total"].backward()
        self.rollout.collect()
        return {k: x.detach() for k, x in terms.items()}

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`newtongs.training.update.Update`."""
        rollout = FusedRollout(self.model, self.times, rows=len(z0), passes=3)
        return rollout(z0)


_objective = torch.compile(objective, dynamic=False)

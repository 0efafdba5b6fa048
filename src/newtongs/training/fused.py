"""The whole forward and backward pass of a batch as one CUDA graph over fused kernels."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..dynamics import GaussianNND
from ..dynamics.backends.triton_rollout import FusedRollout
from ..dynamics.rollout import intervals, substeps
from ..dynamics.solvers import SCHEMES
from ..ranks import Ranks
from ..types import StateTensor, Times
from .config import TrainConfig
from .loss import objective

WARM_UP = 2  # passes before the capture: compilation, and the allocator finding its sizes
BYTES_A_FRAME = 7_000  # kept of one sequence for the backward pass, measured: 26 GB at full size
LANES, LEAST_ROWS = 2, 8192  # parts of a piece that run side by side, and sequences of each
EVALUATIONS = 8  # of the network in such a frame


class FusedUpdate:
    """Gradients of a batch by replaying captured graphs, one for each size of a piece.

    A batch that does not fit into the card's memory is taken in equal pieces.
    """

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
        self.passes, self.micro_batch = passes, config.micro_batch
        self.captured: dict[int, CapturedPiece] = {}
        for p in model.parameters():
            if p.grad is None:  # the graphs add to these very tensors
                p.grad = torch.zeros_like(p)

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`newtongs.training.update.Update`."""
        pieces = target.split(self._rows(target))
        for piece in pieces:
            if len(piece) not in self.captured:
                self.captured[len(piece)] = CapturedPiece(self, piece)
        sums = torch.stack([self.captured[len(x)].replay(x, len(x) / batch) for x in pieces])
        if self.group.size > 1:
            for p in self.model.parameters():
                assert p.grad is not None
                self.group.sum(p.grad)
        names = self.captured[len(pieces[0])].terms
        return dict(zip(names, self.group.sum(sums.sum(0)).tolist(), strict=True))

    def _rows(self, target: StateTensor) -> int:
        """Sequences to take at once: all of them, or equal pieces that fit."""
        if self.micro_batch is None:
            free, _ = torch.cuda.mem_get_info(target.device)
            most = max(1, int(0.85 * free / (self._frame_bytes() * target.shape[1])))
            pieces = -(-len(target) // most)
            self.micro_batch = -(-len(target) // pieces)
        return self.micro_batch

    def _frame_bytes(self) -> float:
        """As measured, in proportion to the evaluations that the solver needs for a frame."""
        c, dt = self.model.config, intervals(self.times)
        stages = len(SCHEMES[c.solver].stages) + 1
        evaluations = stages * sum(substeps(t, c.max_dt) for t in dt) / len(dt)
        return BYTES_A_FRAME * evaluations / EVALUATIONS

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`newtongs.training.update.Update`."""
        rollout = FusedRollout(self.model, self.times, rows=len(z0), passes=3)
        return rollout(z0)


class Lane:
    """A part of a piece on a stream of its own: forward and backward, up to the sums of gradients.

    Some kernels wait for memory, others compute. Two lanes are seldom at the same one, and what
    one of them leaves idle the other uses.
    """

    def __init__(self, update: FusedUpdate, target: StateTensor, share: float) -> None:
        n, frames, _ = target.shape
        self.target, self.share, self.weights = target, share, update.weights
        self.stream = torch.cuda.Stream()
        # Mean-squared errors make gradients of about 1 / (rows x frames). The scale undoes most of
        # that and leaves room above for the rare objects whose gradients are far larger. Where
        # residuals are not bounded the amplitudes are ten times as large, and so the gradients.
        room = 4 if update.model.config.bounded else 64
        scale = 2.0 ** round(math.log2(n * frames / room))
        self.rollout = FusedRollout(
            update.model, update.times, rows=n, passes=update.passes, scale=scale
        )
        networks = {
            id(p) for f in (update.model.f_theta, update.model.h_phi) for p in f.parameters()
        }
        self.scalars = [p for p in update.model.parameters() if id(p) not in networks]

    def run(self) -> None:
        """Compute; the networks' gradients wait in the rollout."""
        self.rollout.prepare()
        self.terms = _objective(self.rollout(self.target[:, 0]), self.target, self.weights)
        total = self.terms["total"]
        self.gradients = torch.autograd.grad(total, self.scalars, allow_unused=True)

    def add_to(self, totals: list[Tensor], parameters: list[nn.Parameter]) -> None:
        """Add the lane's share of the piece's gradient."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        torch._foreach_zero_(gradients)
        self.rollout.collect()
        for p, g in zip(self.scalars, self.gradients, strict=True):
            if g is not None and p.grad is not None:
                p.grad.add_(g)
        torch._foreach_add_(totals, gradients, alpha=self.share)


class CapturedPiece:
    """Forward and backward of a fixed number of sequences, recorded once.

    A replay adds ``share`` times the piece's gradient to the parameters'.
    """

    def __init__(self, update: FusedUpdate, piece: StateTensor) -> None:
        self.parameters = list(update.model.parameters())
        self.target, self.share = piece.clone(), piece.new_ones(())
        count = LANES if len(piece) >= LANES * LEAST_ROWS else 1
        parts = self.target.chunk(count)
        self.lanes = [Lane(update, part, len(part) / len(piece)) for part in parts]
        before = [p.grad.clone() for p in self.parameters if p.grad is not None]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._forward_backward()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.terms = self._forward_backward()
        for p, gradient in zip(self.parameters, before, strict=True):
            assert p.grad is not None
            p.grad.copy_(gradient)

    def _forward_backward(self) -> dict[str, Tensor]:
        here = torch.cuda.current_stream()
        for lane in self.lanes:
            lane.stream.wait_stream(here)
            with torch.cuda.stream(lane.stream):
                lane.run()
        for lane in self.lanes:
            here.wait_stream(lane.stream)
        # The share multiplies what is added to the gradients, not the loss: kernels then see
        # gradients of the same size whatever the piece's part of the batch.
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        before = [g.clone() for g in gradients]
        totals = [torch.zeros_like(g) for g in gradients]
        for lane in self.lanes:
            lane.add_to(totals, self.parameters)
        torch._foreach_mul_(totals, self.share)
        torch._foreach_copy_(gradients, before)
        torch._foreach_add_(gradients, totals)
        names = self.lanes[0].terms
        return {
            k: sum_of(lane.terms[k].detach() * lane.share for lane in self.lanes) for k in names
        }

    def replay(self, piece: StateTensor, share: float) -> Tensor:
        """Loss terms of the piece, times its share, in float64."""
        self.target.copy_(piece)
        self.share.fill_(share)
        self.graph.replay()
        return torch.stack(list(self.terms.values())).double() * share


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """Of tensors, one at least."""
    return torch.stack(list(parts)).sum(0)


_objective = torch.compile(objective, dynamic=False)

"""The whole forward and backward pass of a batch as one CUDA graph over Triton's kernels.

The objective and its gradient are computed in one pass over the states. They have no semantics of
their own: they are :func:`newtongs.paper.training.loss.objective`, and parity with it, in value and
gradient, is a test.
"""

import math
from functools import partial

import torch
from torch import Tensor

from ...base.ranks import Ranks
from ...base.types import StateTensor, Times
from ...dynamics import GaussianNND
from ...dynamics.backends.precompile import launch, precompile
from ...dynamics.backends.triton_rollout import ROWS_ALIGNED, TritonRollout
from ...dynamics.rollout import intervals, substeps
from ...dynamics.solvers import SCHEMES
from .config import LossWeights, TrainConfig
from .loss import FLOOR, SCALE_BENDS, term_names
from .triton_loss import objective_kernel

WARM_UP = 2  # passes before the capture: compilation, and the allocator finding its sizes
BYTES_A_FRAME = 7_000  # kept of one sequence for the backward pass, measured: 26 GB at full size
EVALUATIONS = 8  # of the network in such a frame
ROWS = 128  # objects of a program of the objective
SQUARES = ("p", "v", "w", "s", "u")  # terms that are mean squares of three channels
SUMS = (*SQUARES, "q", "penetration", "curvature_p", "curvature_s", "material")  # of a program


class CudaUpdate:
    """Gradients of a batch by replaying captured graphs, one per size of a piece.

    A batch that does not fit into the card's memory is split into equal pieces.
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
        """See :class:`newtongs.paper.training.update.Update`."""
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
        """Sequences per piece: all of them, or equal pieces that fit."""
        if self.micro_batch is None:
            free, _ = torch.cuda.mem_get_info(target.device)
            most = max(1, int(0.85 * free / (self._frame_bytes() * target.shape[1])))
            rows = -(-len(target) // -(-len(target) // most))
            self.micro_batch = -(-rows // ROWS_ALIGNED) * ROWS_ALIGNED
        return self.micro_batch

    def _frame_bytes(self) -> float:
        """As measured, scaled by the solver's evaluations per frame."""
        c, dt = self.model.config, intervals(self.times)
        stages = len(SCHEMES[c.solver].stages) + 1
        evaluations = stages * sum(substeps(t, c.max_dt) for t in dt) / len(dt)
        return BYTES_A_FRAME * evaluations / EVALUATIONS

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`newtongs.paper.training.update.Update`."""
        rollout = TritonRollout(self.model, self.times, rows=len(z0), passes=3)
        return rollout(z0)


class CapturedPiece:
    """Forward and backward of a fixed number of sequences, recorded once.

    A replay adds ``share`` times the piece's gradient to the parameters'.
    """

    def __init__(self, update: CudaUpdate, piece: StateTensor) -> None:
        n, frames, _ = piece.shape
        self.parameters = list(update.model.parameters())
        self.weights: LossWeights = update.weights
        self.target, self.share = piece.clone(), piece.new_ones(())
        # Mean-squared errors give gradients of about 1 / (rows x frames). The scale undoes most of
        # that and leaves headroom for the rare objects whose gradients are far larger. Without
        # bounded residuals amplitudes are ten times as large, and so are gradients.
        room = 4 if update.model.config.bounded else 64
        scale = 2.0 ** round(math.log2(n * frames / room))
        over = partial(TritonRollout, update.model, rows=n, passes=update.passes, scale=scale)
        self._compile(over(update.times[:2]))
        self.rollout = over(update.times)
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

    def _compile(self, short: TritonRollout) -> None:
        """Compile all kernels in parallel, with two frames; they are the same for any number."""
        n, frames, channels = self.target.shape
        predicted = self.target.new_empty(frames, channels, n).permute(2, 0, 1)
        with torch.no_grad(), precompile():
            short.compile()
            objective_and_gradient(predicted, self.target, self.weights)

    def _forward_backward(self) -> dict[str, Tensor]:
        self.rollout.prepare()
        predicted = self.rollout(self.target[:, 0])
        terms, gradient = objective_and_gradient(predicted, self.target, self.weights)
        # The share multiplies what is added to the gradients, not the loss, so that kernels see
        # gradients of the same size whatever the piece's share of the batch.
        unshared = [p.grad.clone() for p in self.parameters if p.grad is not None]
        for p in self.parameters:
            assert p.grad is not None
            p.grad.zero_()
        predicted.backward(gradient)
        self.rollout.collect()
        for p, before in zip(self.parameters, unshared, strict=True):
            assert p.grad is not None
            p.grad.mul_(self.share).add_(before)
        return terms

    def replay(self, piece: StateTensor, share: float) -> Tensor:
        """Loss terms of the piece, times its share, in float64."""
        self.target.copy_(piece)
        self.share.fill_(share)
        self.graph.replay()
        return torch.stack(list(self.terms.values())) * share


def objective_and_gradient(
    predicted: StateTensor, target: StateTensor, weights: LossWeights
) -> tuple[dict[str, Tensor], StateTensor]:
    """Terms as :func:`objective` names them, in float64, and the total's gradient ``(B, T, 22)``.

    ``predicted`` ``(B, T, 22)`` and its gradient are stored frame by frame and channel by channel,
    as the rollout writes them. The material's gradient is zero: it is the initial state's.
    """
    n, frames, _ = target.shape
    states = predicted.detach().permute(1, 2, 0)
    assert states.is_contiguous()
    assert target.is_contiguous()
    gradient = torch.empty_like(states)
    blocks = -(-n // ROWS)
    sums = states.new_empty(len(SUMS), frames, blocks)
    each = n * frames
    bends = n * (frames - 2)
    to_bends = 2 * weights.smooth / (3 * bends)
    launch(objective_kernel, (blocks, frames))(
        states, target, gradient, sums, n, frames, FLOOR,
        *(2 * getattr(weights, name) / (3 * each) for name in SQUARES),
        2 * weights.q / each, 2 * weights.penetration / each,
        to_bends, SCALE_BENDS * to_bends,
        ROWS=ROWS,
    )  # fmt: skip
    counts = {"q": each, "penetration": each, "curvature_p": 3 * bends, "curvature_s": 3 * bends}
    total = dict(zip(SUMS, sums.sum((1, 2), dtype=torch.float64), strict=True))
    means = {name: x / counts.get(name, 3 * each) for name, x in total.items()}
    return _terms(means, weights), gradient.permute(2, 0, 1)


def _terms(means: dict[str, Tensor], weights: LossWeights) -> dict[str, Tensor]:
    """From the kernel's means to the objective's terms and their total."""
    terms = dict(means, smooth=means["curvature_p"] + SCALE_BENDS * means["curvature_s"])
    *names, _ = term_names(weights)
    chosen = {name: terms[name] for name in names}
    weighed = [getattr(weights, name) * x for name, x in chosen.items()]
    return chosen | {"total": torch.stack(weighed).sum()}

"""Gradients of a batch on the CPU by compiled code and torch's matrix products."""

import torch
from torch import Tensor

from ..dynamics import GaussianNND
from ..dynamics.fast_gradient import CompiledRollout
from ..dynamics.predict import predictor
from ..types import StateTensor, Times
from .config import TrainConfig
from .loss import objective
from .ranks import Ranks

ROWS = 256  # sequences at a time: enough for the products, and 0.3 GB of records


class CompiledUpdate:
    """The rollout's gradient by hand, the objective's by autograd; in pieces of ``ROWS``."""

    def __init__(self, model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> None:
        self.model, self.times, self.weights, self.group = model, times, config.loss, group
        self.rows = config.micro_batch or ROWS
        self.rollout = CompiledRollout(model, times)

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`newtongs.training.update.Update`."""
        sums: dict[str, Tensor] = {}
        for piece in target.split(self.rows):
            predicted = self.rollout.forward(piece[:, 0]).requires_grad_()
            terms, share = objective(predicted, piece, self.weights), len(piece) / batch
            (terms["total"] * share).backward()
            assert predicted.grad is not None
            self.rollout.backward(predicted.grad)
            for name, x in terms.items():
                sums[name] = sums.get(name, 0.0) + x.detach().double() * share
        for p in self.model.parameters():
            assert p.grad is not None
            self.group.sum(p.grad)
        totals = self.group.sum(torch.stack(list(sums.values())))
        return dict(zip(sums, totals.tolist(), strict=True))

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`newtongs.training.update.Update`."""
        return predictor(self.model)(z0, self.times)

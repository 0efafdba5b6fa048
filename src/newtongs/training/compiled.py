"""Gradients of a batch on the CPU by compiled code and torch's matrix products."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from ..dynamics import GaussianNND
from ..dynamics.backends import predictor
from ..dynamics.backends.numba_gradient import CompiledRollout
from ..ranks import Ranks
from ..threads import one_thread
from ..types import StateTensor, Times
from .config import TrainConfig
from .loss import objective

ROWS = 128  # sequences a thread takes at a time: enough for the products, and 0.15 GB of records
THREADS = 8  # at most: beyond, they wait for the interpreter and their records fill the memory


class CompiledUpdate:
    """The rollout's gradient by hand, the objective's by autograd; pieces shared among threads.

    Each thread has a rollout with sums of its own and takes its pieces in order, so that the result
    does not depend on which thread is quicker.
    """

    def __init__(self, model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> None:
        self.model, self.times, self.weights, self.group = model, times, config.loss, group
        self.rows = config.micro_batch or ROWS
        threads = min(THREADS, torch.get_num_threads())
        self.rollouts = [CompiledRollout(model, times) for _ in range(threads)]

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`newtongs.training.update.Update`."""
        pieces = target.split(self.rows)
        many = min(len(self.rollouts), len(pieces))

        def work(i: int) -> list[dict[str, Tensor]]:
            return [self._piece(self.rollouts[i], x, len(x) / batch) for x in pieces[i::many]]

        with one_thread(), ThreadPoolExecutor(many) as pool:
            terms = [terms for some in pool.map(work, range(many)) for terms in some]
        for rollout in self.rollouts[:many]:
            rollout.collect()
        for p in self.model.parameters():
            if p.grad is not None:  # on every rank: a parameter that this model does not use
                self.group.sum(p.grad)
        totals = self.group.sum(torch.stack([torch.stack(list(x.values())) for x in terms]).sum(0))
        return dict(zip(terms[0], totals.tolist(), strict=True))

    def _piece(
        self, rollout: CompiledRollout, piece: StateTensor, share: float
    ) -> dict[str, Tensor]:
        """Loss terms of a piece, times its share of the batch; its gradient goes to the sums."""
        predicted = rollout.forward(piece[:, 0]).requires_grad_()
        terms = objective(predicted, piece, self.weights)
        (terms["total"] * share).backward()
        assert predicted.grad is not None
        rollout.backward(predicted.grad)
        return {name: x.detach().double() * share for name, x in terms.items()}

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`newtongs.training.update.Update`."""
        return predictor(self.model)(z0, self.times)

"""Gradients of one global batch: the reference way, or by hand-written code for the device."""

from importlib.util import find_spec
from typing import Protocol

import torch
from torch import Tensor

from ..dynamics import GaussianNND
from ..errors import InputError
from ..ranks import Ranks
from ..types import StateTensor, Times
from .config import TrainConfig
from .loss import objective


class Update(Protocol):
    """Adds the gradient of a batch to the model's ``.grad``."""

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """Loss terms of the global batch of ``batch`` rows, of which ``target`` is our share."""

    def predict(self, z0: StateTensor) -> StateTensor:
        """Rollout without gradients."""


class ReferenceUpdate:
    """Plain autograd in micro-batches; ranks add their gradients up.

    Without DistributedDataParallel, which does the same and holds the group as long as it lives.
    """

    def __init__(self, model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> None:
        self.model, self.times, self.config, self.group = model, times, config, group
        self.micro_batch = config.micro_batch or (512 if group.device.type == "cpu" else 8192)

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`Update`."""
        sums: dict[str, Tensor] = {}
        for piece in target.split(self.micro_batch):
            terms = objective(self.model(piece[:, 0], self.times), piece, self.config.loss)
            (terms["total"] * (len(piece) / batch)).backward()
            for name, x in terms.items():
                sums[name] = sums.get(name, 0.0) + x.detach().double() * (len(piece) / batch)
        self._add_gradients()
        totals = self.group.sum(torch.stack(list(sums.values())))
        return dict(zip(sums, totals.tolist(), strict=True))

    def _add_gradients(self) -> None:
        """Sum over the ranks; what one rank's rows never reached counts as zero there.

        A parameter that no rank reaches keeps no gradient, so that the optimiser leaves it alone.
        """
        if self.group.size == 1:
            return
        parameters = list(self.model.parameters())
        reached = torch.tensor([float(p.grad is not None) for p in parameters])
        for p, some in zip(parameters, self.group.sum(reached).tolist(), strict=True):
            if some:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                self.group.sum(p.grad)

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`Update`."""
        return self.model.rollout(z0, self.times)


def make_update(model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> Update:
    """The backend the configuration asks for."""
    if config.backend != "reference" and group.device.type == "cuda" and find_spec("triton"):
        from ..dynamics.backends.triton_rollout import FusedRollout
        from .fused import FusedUpdate

        if FusedRollout.supports(model):
            return FusedUpdate(model, times, config, group)
    if config.backend != "reference" and group.device.type == "cpu" and find_spec("numba"):
        from ..dynamics.backends.numba_gradient import CompiledRollout
        from .compiled import CompiledUpdate

        if CompiledRollout.supports(model):
            return CompiledUpdate(model, times, config, group)
    if config.backend == "fused":
        raise InputError(
            "the fused backend needs newtongs[fast] on the CPU, or Triton and a hidden width of "
            "128 or 256 on CUDA; use --backend reference"
        )
    return ReferenceUpdate(model, times, config, group)

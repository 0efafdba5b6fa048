"""Gradients of one global batch: the reference way, or by hand-written code for the device."""

from contextlib import nullcontext
from importlib.util import find_spec
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..dynamics import GaussianNND
from ..errors import InputError
from ..types import StateTensor, Times
from .config import TrainConfig
from .loss import objective
from .ranks import Ranks


class Update(Protocol):
    """Adds the gradient of a batch to the model's ``.grad``."""

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """Loss terms of the global batch of ``batch`` rows, of which ``target`` is our share."""

    def predict(self, z0: StateTensor) -> StateTensor:
        """Rollout without gradients."""


class ReferenceUpdate:
    """Plain autograd in micro-batches, under DDP when there are several ranks."""

    def __init__(self, model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> None:
        self.model, self.times, self.config, self.group = model, times, config, group
        self.micro_batch = config.micro_batch or (512 if group.device.type == "cpu" else 8192)
        self.parallel = None
        if group.size > 1:  # an ablated model has parameters that no loss reaches
            unused = not model.config.whole
            self.parallel = DistributedDataParallel(model, find_unused_parameters=unused)

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`Update`."""
        pieces = target.split(self.micro_batch)
        sums: dict[str, Tensor] = {}
        for i, piece in enumerate(pieces):
            # DDP averages over ranks at the last piece's backward; until then it only collects.
            last = i == len(pieces) - 1
            quiet = nullcontext() if last or self.parallel is None else self.parallel.no_sync()
            with quiet:
                predicted = (self.parallel or self.model)(piece[:, 0], self.times)
                terms = objective(predicted, piece, self.config.loss)
                (terms["total"] * (len(piece) * self.group.size / batch)).backward()
            for name, x in terms.items():
                sums[name] = sums.get(name, 0.0) + x.detach().double() * (len(piece) / batch)
        totals = self.group.sum(torch.stack(list(sums.values())))
        return dict(zip(sums, totals.tolist(), strict=True))

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

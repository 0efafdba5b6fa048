"""Gradients of one global batch: by autograd, through torch.compile, or by CUDA kernels."""

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ...base.errors import InputError, argument
from ...base.ranks import Ranks
from ...base.state import project
from ...base.types import StateTensor, Times
from ...dynamics import GaussianNND, floor
from ...dynamics.backends import backend, predictor
from ...dynamics.rollout import advanced, intervals, landed
from .config import TrainConfig
from .loss import objective


class Update(Protocol):
    """Adds the gradient of a batch to the model's ``.grad``."""

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """Loss terms of the global batch of ``batch`` rows, of which ``target`` is our share."""

    def predict(self, z0: StateTensor) -> StateTensor:
        """Rollout without gradients."""


class ReferenceUpdate:
    """Plain autograd in micro-batches; gradients are summed over ranks.

    DistributedDataParallel would do the same, but holds the group as long as it lives.
    """

    def __init__(self, model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> None:
        self.model, self.times, self.config, self.group = model, times, config, group
        self.micro_batch = config.micro_batch or (512 if group.device.type == "cpu" else 8192)

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`Update`."""
        sums: dict[str, Tensor] = {}
        for piece in target.split(self.micro_batch):
            terms = objective(self.differentiable(piece[:, 0]), piece, self.config.loss)
            (terms["total"] * (len(piece) / batch)).backward()
            for name, x in terms.items():
                sums[name] = sums.get(name, 0.0) + x.detach().double() * (len(piece) / batch)
        self._add_gradients()
        totals = self.group.sum(torch.stack(list(sums.values())))
        return dict(zip(sums, totals.tolist(), strict=True))

    def _add_gradients(self) -> None:
        """Sum over the ranks; a parameter that a rank did not reach counts as zero there.

        A parameter that no rank reached has no gradient, so that the optimiser leaves it alone.
        """
        if self.group.size == 1:
            return
        parameters = list(self.model.parameters())
        reached = torch.tensor([float(p.grad is not None) for p in parameters])
        for p, some in zip(parameters, self.group.sum(reached).tolist(), strict=True):
            if some:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                self.group.sum(p.grad)

    def differentiable(self, z0: StateTensor) -> StateTensor:
        """``model.rollout`` without its checks: a run that diverges is reported by its loss."""
        z = project(z0)
        frames = advanced(z, intervals(self.times), self.step, None, self.model.config.max_dt)
        return torch.stack([z, *frames], dim=-2)

    def step(self, z: StateTensor, h: float) -> StateTensor:
        """One substep with its contact."""
        z = self.model.step(z, h)
        return landed(z, floor.gap, self.model.jump) if self.model.config.contact else z

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`Update`."""
        return self.model.rollout(z0, self.times)


class CompiledUpdate(ReferenceUpdate):
    """The same with a substep and its contact through ``torch.compile``.

    Compiling takes half a minute: a run of fewer sequences than ``WORTHWHILE`` goes without.
    """

    WORTHWHILE = 2**14

    def __init__(self, model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> None:
        super().__init__(model, times, config, group)
        self.micro_batch = config.micro_batch or 256
        self.compiled: Callable[[StateTensor, Tensor], StateTensor] | None = None

    def __call__(self, target: StateTensor, batch: int) -> dict[str, float]:
        """See :class:`Update`."""
        updates = self.config.epochs * self.config.updates_per_epoch
        if self.compiled is None and updates * batch >= self.WORTHWHILE:
            self.compiled = torch.compile(super().step)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Dynamo detected a call to a `functools.lru_cache`")
            return super().__call__(target, batch)

    def step(self, z: StateTensor, h: float) -> StateTensor:
        """See :class:`ReferenceUpdate`; ``h`` as a tensor, since a number would be compiled in."""
        return self.compiled(z, z.new_tensor(h)) if self.compiled else super().step(z, h)

    def predict(self, z0: StateTensor) -> StateTensor:
        """See :class:`Update`."""
        return predictor(self.model)(z0, self.times)


def make_update(model: GaussianNND, times: Times, config: TrainConfig, group: Ranks) -> Update:
    """The backend the configuration asks for."""
    wanted, device = config.backend, group.device.type
    if wanted in ("auto", "cuda") and backend(model) == "cuda":
        from .cuda import CudaUpdate

        return CudaUpdate(model, times, config, group)
    if wanted == "cuda":
        raise InputError(
            "the cuda backend needs a CUDA device, Triton and a hidden width of 128 or 256; use "
            f"{argument('backend', 'reference')}"
        )
    if wanted == "compile" and not _compiler():
        raise InputError(
            f"the compile backend needs a C++ compiler; use {argument('backend', 'reference')}"
        )
    if wanted == "compile" or (wanted == "auto" and device == "cpu" and _compiler()):
        return CompiledUpdate(model, times, config, group)
    return ReferenceUpdate(model, times, config, group)


def _compiler() -> str | None:
    """The C++ compiler that ``torch.compile`` will call."""
    return shutil.which(os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++"))

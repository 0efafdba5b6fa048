"""One process or many under `torchrun`, behind the few calls that shared work needs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from .errors import InputError
from .state import checked_device


@dataclass(frozen=True)
class Ranks:
    """One process among ``size`` equal ones."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """The rank's part of a global batch; every row goes to exactly one rank."""
        return rows[self.rank :: self.size]

    def takes(self, index: int) -> bool:
        """Whether item ``index`` belongs to this rank, when items are dealt out in turn."""
        return index % self.size == self.rank

    def sum(self, x: Tensor) -> Tensor:
        """Sum of ``x`` over all ranks, in place."""
        if self.size > 1:
            here = x.to(self.device)  # nccl only takes tensors on its GPU
            dist.all_reduce(here)
            if here is not x:
                x.copy_(here)
        return x

    def any(self, flag: bool) -> bool:
        """Whether any rank set the flag; all ranks get the same answer."""
        return bool(self.sum(torch.tensor(float(flag), device=self.device)).item())

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Local work in which one rank may find bad input: then all of them raise it.

        Otherwise the others would wait for a rank that has left.
        """
        found: InputError | None = None
        try:
            yield
        except InputError as error:
            found = error
        said: list[str | None] = [None if found is None else found.args[0]]
        if self.size > 1:
            own, said = said[0], [None] * self.size
            dist.all_gather_object(said, own)
        first = next((line for line in said if line is not None), None)
        if first is not None:
            raise InputError(first) from found


@contextmanager
def ranks(device: str) -> Iterator[Ranks]:
    """Join the group that torchrun describes in the environment, or be a single rank."""
    if "RANK" not in os.environ:
        yield Ranks(0, 1, checked_device(device))
        return
    local, wrong = torch.device("cpu"), None
    try:
        local = checked_device(device)
    except InputError as error:
        wrong = error  # raised below, by all ranks together
    if local.type == "cuda":
        local = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(local)
    _import_before_the_group()
    dist.init_process_group("nccl" if local.type == "cuda" else "gloo")
    try:
        group = Ranks(dist.get_rank(), dist.get_world_size(), local)
        with group.agreed():
            if wrong is not None:
                raise wrong
        yield group
        dist.barrier()  # no rank leaves while another still communicates
    finally:
        dist.destroy_process_group()


def _import_before_the_group() -> None:
    """Import the module whose functions take the current group as a default argument.

    An optimiser's first step imports it too. Imported while the group exists, it keeps the group
    alive: `destroy_process_group` then cannot end gloo's threads, and one that drops its last
    tensor while the interpreter shuts down aborts the process ("terminate called without an active
    exception").
    """
    import torch.distributed.nn.functional  # noqa: F401

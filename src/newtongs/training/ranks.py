"""One process or many: what `torchrun` set up, behind the few calls the loop needs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """A process's place among ``size`` equal ones."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes files and talks to the person."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """The rank's part of a global batch; every row goes to exactly one rank."""
        return rows[self.rank :: self.size]

    def sum(self, x: Tensor) -> Tensor:
        """Sum of ``x`` over all ranks."""
        if self.size > 1:
            dist.all_reduce(x)
        return x

    def any(self, flag: bool) -> bool:
        """Whether any rank raised the flag; all ranks get the same answer."""
        return bool(self.sum(torch.tensor(float(flag), device=self.device)).item())


@contextmanager
def ranks(device: str) -> Iterator[Ranks]:
    """Join the group that torchrun describes in the environment, or stand alone."""
    if "RANK" not in os.environ:
        yield Ranks(0, 1, torch.device(device))
        return
    local = torch.device(device)
    if local.type == "cuda":
        local = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if local.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), local)
        dist.barrier()  # nobody hangs up while another still listens
    finally:
        dist.destroy_process_group()

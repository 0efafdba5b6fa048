"""How fast Gaussian-NND rolls out 64 frames at 24 Hz, and how far that is from the limit.

The limit is the arithmetic of f_theta at the rate of a large matrix product. One object cannot
reach it: its products are matrix by vector, bound by reading the weights from the cache.

Run with: python benchmarks/rollout.py [--objects 1 32 1024] [--device cpu]
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from newtongs import GaussianNND, NNDConfig, make_state
from newtongs.dynamics import floor
from newtongs.dynamics.rollout import rollout
from newtongs.errors import InputError
from newtongs.state import project

FRAMES, SUBSTEPS, H = 64, 2, 1 / 48  # a 24 Hz frame takes two substeps
TIMES = torch.arange(FRAMES, dtype=torch.float64) * SUBSTEPS * H
EVALUATIONS = 4 * SUBSTEPS * (FRAMES - 1)  # of the vector field, by RK4


@dataclass(frozen=True)
class Case:
    """What every row is given."""

    model: GaussianNND
    z0: Tensor
    device: torch.device


Row = Callable[[Case], Callable[[], Tensor]]


class NotHereError(Exception):
    """Why a row cannot run on this machine."""


def ours(case: Case) -> Callable[[], Tensor]:
    """The compiled CPU path."""
    if case.device.type != "cpu":
        raise NotHereError("CPU only")
    try:
        from newtongs.dynamics.fast_cpu import rollout_cpu
    except InputError as error:
        raise NotHereError("numba is not installed") from error
    return lambda: rollout_cpu(case.model, case.z0, TIMES)


def eager(case: Case) -> Callable[[], Tensor]:
    """The reference, operation by operation."""
    return lambda: case.model.rollout(case.z0, TIMES)


def compiled(case: Case) -> Callable[[], Tensor]:
    """One substep with its floor event through ``torch.compile``, the loop in Python."""
    torch.compiler.reset()  # or the variants of another case count against the limit on them

    @torch.compile(dynamic=False)
    def substep(z: Tensor) -> Tensor:
        z = case.model.step(z, H)
        hit = floor.gap(z).unsqueeze(-1) <= 0
        return torch.where(hit, project(case.model.jump(z)), z)

    try:
        substep(case.z0)
    except Exception as error:  # whatever the C++ compiler or its absence raises
        raise NotHereError("does not compile here") from error
    return lambda: rollout(case.z0, TIMES, lambda z, h: substep(z), max_dt=case.model.config.max_dt)


def torchdiffeq(case: Case) -> Callable[[], Tensor]:
    """``odeint`` over the same substeps and field, without floor and without projections."""
    try:
        from torchdiffeq import odeint  # type: ignore[import-untyped]
    except ImportError as error:
        raise NotHereError("not installed") from error
    grid = (torch.arange(SUBSTEPS * (FRAMES - 1) + 1) * H).to(case.device)

    def run() -> Tensor:
        z: Tensor = odeint(lambda t, z: case.model.field(z), case.z0, grid, method="rk4")
        return z[::SUBSTEPS].movedim(0, -2)

    return run


# Rows are compared with the first of their group; the floor is switched off in the second.
WITH_FLOOR: dict[str, Row] = {
    "ours (numba)": ours,
    "eager reference": eager,
    "torch.compile of the substep": compiled,
}
WITHOUT_FLOOR: dict[str, Row] = {
    "no floor: ours (numba)": ours,
    "no floor: torchdiffeq rk4 (3/8 rule)": torchdiffeq,
}


def seconds(work: Callable[[], object], device: torch.device, at_least: float = 1.0) -> float:
    """Shortest of at least three runs after a first one, on one thread or on all.

    Both, because on small work torch's threads cost more than they give.
    """
    all_threads, times = torch.get_num_threads(), []
    for threads in sorted({1, all_threads}):
        torch.set_num_threads(threads)
        work()
        start, runs = time.perf_counter(), 0
        while runs < 3 or time.perf_counter() - start < at_least:
            before, runs = time.perf_counter(), runs + 1
            work()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - before)
    torch.set_num_threads(all_threads)
    return min(times)


def gemm_rate(device: torch.device, n: int = 2048) -> float:
    """Attainable float32 operations a second: the product of two large matrices."""
    a, b = torch.rand(2, n, n, device=device)
    out = torch.empty_like(a)
    return 2 * n**3 / seconds(lambda: torch.mm(a, b, out=out), device)


def flops(model: GaussianNND) -> int:
    """Operations of f_theta for one state; all else is small beside them."""
    return sum(2 * layer.weight.numel() for layer in model.f_theta if isinstance(layer, nn.Linear))


def make_case(objects: int, contact: bool, device: torch.device) -> Case:
    """Low, falling objects that bounce, and a model whose weights are not zero."""
    torch.manual_seed(0)
    model = GaussianNND(NNDConfig(contact=contact))
    for network in (model.f_theta, model.h_phi):
        nn.init.normal_(network[-1].weight, std=0.1)  # type: ignore[arg-type]
    r = torch.rand(objects, 9)
    z0 = make_state(
        p=r[:, :3] + torch.tensor([0.0, 0.5, 0.0]),
        v=4 * r[:, 3:6] - 2,
        w=4 * r[:, 6:] - 2,
        s=(0.3, 0.3, 0.3),
    )
    return Case(model.to(device), z0.to(device), device)


def add_group(table: Table, rows: dict[str, Row], case: Case, limit: float) -> None:
    """Time one group; the first that runs is what the others are compared with."""
    first: tuple[float, Tensor] | None = None
    for what, row in rows.items():
        try:
            work = row(case)
        except NotHereError as reason:
            table.add_row(f"{len(case.z0):,}", what, str(reason))
            continue
        z, s = work(), seconds(work, case.device)
        first = first or (s, z)
        table.add_row(
            f"{len(case.z0):,}",
            what,
            f"{1e3 * s:,.1f}",
            f"{s / first[0]:.1f}",
            f"{s / limit:.1f}",
            f"{(z - first[1]).abs().max().item():.0e}",
        )


FIRST_CALL = """
import time, torch, newtongs
model, z0, start = newtongs.GaussianNND(), newtongs.make_state(), time.perf_counter()
from newtongs.dynamics.fast_cpu import rollout_cpu
rollout_cpu(model, z0, torch.arange(64) / 24)
print(time.perf_counter() - start)
"""


def first_calls() -> tuple[float, float]:
    """Seconds to import and call ours in a new process, with an empty JIT cache and a full one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", FIRST_CALL]
        cold, cached = (
            float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
            for _ in range(2)
        )
    return cold, cached


@torch.no_grad()
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, nargs="+", default=[1, 32, 1024])
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    args = parser.parse_args()
    rate = gemm_rate(args.device)
    table = Table(title=f"{FRAMES} frames at 24 Hz on {args.device}, {platform.machine()}")
    for heading in ("objects", "what", "ms", "times ours", "times the limit", "differs by"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for objects in args.objects:
        for contact, rows in ((True, WITH_FLOOR), (False, WITHOUT_FLOOR)):
            case = make_case(objects, contact, args.device)
            limit = objects * EVALUATIONS * flops(case.model) / rate
            add_group(table, rows, case, limit)
        table.add_section()
    console = Console(width=110)
    console.print(table)
    console.print(
        f"limit: {EVALUATIONS} evaluations of {flops(GaussianNND()):,} operations an object at "
        f"{rate / 1e9:.0f} GFlop/s (torch.mm, 2048^3)"
    )
    if args.device.type == "cpu":
        try:
            cold, cached = first_calls()
            console.print(f"first call of ours: {cold:.1f} s cold, {cached:.1f} s from the cache")
        except subprocess.CalledProcessError:
            console.print("first call of ours: numba is not installed")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    console.print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, peak {peak:.2f} GB"
    )


if __name__ == "__main__":
    main()

"""How fast Gaussian-NND rolls out 64 frames at 24 Hz, and how far that is from the limit.

The limit is the arithmetic of f_theta at the rate of a large matrix product. One object cannot
reach it: its products are matrix by vector, bound by reading the weights from the cache.

Run with: python benchmarks/rollout.py [--objects 1 32 1024] [--device cpu] [--only ours]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from common import (
    EVALUATIONS,
    FRAMES,
    SUBSTEPS,
    TIMES,
    H,
    NotHereError,
    flops,
    gemm_rate,
    hardware,
    jax_solve,
    peak_gb,
    seconds,
)
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from newtongs import GaussianNND, NNDConfig, make_state
from newtongs.base.state import project
from newtongs.dynamics import floor
from newtongs.dynamics.backends import predictor
from newtongs.dynamics.rollout import rollout


@dataclass(frozen=True)
class Case:
    """What every row is given."""

    model: GaussianNND
    z0: Tensor
    device: torch.device


Row = Callable[[Case], Callable[[], Tensor]]


def ours(case: Case) -> Callable[[], Tensor]:
    """The fast path of the device: numba on the CPU, Triton on CUDA."""
    needed = {"cpu": "numba", "cuda": "triton"}[case.device.type]
    if not find_spec(needed):
        raise NotHereError(f"{needed} is not installed")
    if case.device.type == "cuda" and not case.model.config.contact:
        raise NotHereError("the kernels always have the floor")
    predict = predictor(case.model)
    return lambda: predict(case.z0, TIMES)


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


def diffrax(case: Case) -> Callable[[], Tensor]:
    """``diffeqsolve`` under jit with RK4's tableau, without floor and without projections."""
    solve, parameters = jax_solve(case.model)
    import jax

    if (jax.default_backend() == "gpu") != (case.device.type == "cuda"):
        raise NotHereError(f"JAX computes on the {jax.default_backend()} here")
    import jax.numpy as jnp

    z0 = jnp.asarray(case.z0.cpu().numpy())
    jitted = jax.jit(solve)

    def run() -> Tensor:
        states = jitted(parameters, z0).block_until_ready()
        return torch.utils.dlpack.from_dlpack(states).movedim(0, -2)

    return run


# Rows are compared with the first of their group; the floor is switched off in the second.
WITH_FLOOR: dict[str, Row] = {
    "ours": ours,
    "eager reference": eager,
    "torch.compile of the substep": compiled,
}
WITHOUT_FLOOR: dict[str, Row] = {
    "no floor: ours": ours,
    "no floor: torchdiffeq rk4 (3/8 rule)": torchdiffeq,
    "no floor: diffrax rk4": diffrax,
}


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


def add_group(
    table: Table, rows: dict[str, Row], case: Case, limit: float, ours: float | None
) -> float | None:
    """Time one group; the first that runs is what the others' states are compared with."""
    first: Tensor | None = None
    for what, row in rows.items():
        try:
            work = row(case)
            z, gb = peak_gb(work, case.device)
        except NotHereError as reason:
            table.add_row(f"{len(case.z0):,}", what, str(reason))
            continue
        s = seconds(work, case.device)
        first = z if first is None else first
        if "ours" in what:
            ours = s
        table.add_row(
            f"{len(case.z0):,}",
            what,
            f"{1e3 * s:,.1f}",
            f"{s / ours:.1f}" if ours else "",
            f"{s / limit:.1f}",
            f"{(z - first).abs().max().item():.0e}",
            gb,
        )
    return ours


FIRST_CALL = """
import time, torch, newtongs
model, z0, start = newtongs.GaussianNND(), newtongs.make_state(), time.perf_counter()
from newtongs.dynamics.backends.numba_rollout import rollout_cpu
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
    parser.add_argument("--only", nargs="+", default=[""], help="rows with one of these in them")
    args = parser.parse_args()
    rate = gemm_rate(args.device)
    table = Table(title=f"{FRAMES} frames at 24 Hz on {hardware(args.device)}")
    for heading in ("objects", "what", "ms", "times ours", "times the limit", "differs by", "GB"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for objects in args.objects:
        ours = None
        for contact, rows in ((True, WITH_FLOOR), (False, WITHOUT_FLOOR)):
            case = make_case(objects, contact, args.device)
            limit = objects * EVALUATIONS * flops(case.model) / rate
            wanted = {w: row for w, row in rows.items() if any(part in w for part in args.only)}
            ours = add_group(table, wanted, case, limit, ours)
        table.add_section()
    console = Console(width=110)
    console.print(table)
    console.print(
        f"limit: {EVALUATIONS} evaluations of {flops(GaussianNND()):,} operations an object at "
        f"{rate / 1e9:,.0f} GFlop/s (float32 torch.mm)"
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

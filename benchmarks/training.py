"""How fast one optimiser update is, how exact its gradient, and how far that is from the limit.

An update is forward, backward and AdamW's step over sequences of 64 frames. The limit is the
arithmetic of f_theta, three times that of a rollout, at the rate of a large float32 product.

Run with: python benchmarks/training.py [--device cuda --sequences 65536] [--only ours eager]
``--profile`` prints where an update of ours spends its time, kernel by kernel, instead.
``--run DATA`` trains one seed on State-32 (made there where it is missing) and prints what of the
run's time goes into updates, validation and the start.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
    synchronize,
)
from rich.console import Console
from rich.table import Table
from torch import Tensor

from newtongs import GaussianNND, load_pretrained, motions
from newtongs.base.ranks import Ranks
from newtongs.base.state import project
from newtongs.dynamics import floor
from newtongs.dynamics.rollout import rollout
from newtongs.paper.datasets import state32
from newtongs.paper.training import train
from newtongs.paper.training.config import LossWeights, TrainConfig
from newtongs.paper.training.loss import objective
from newtongs.paper.training.update import ReferenceUpdate, Update, make_update

# (model, states (B, T, 22)) -> a function that adds the gradient of the whole batch.
Gradient = Callable[[], object]
Way = Callable[["Case"], Gradient]
PROFILED = 16  # kernels named in a profile
CONFIG = TrainConfig(data=Path(), out=Path())


@dataclass(frozen=True)
class Case:
    """What every row is given."""

    model: GaussianNND
    states: Tensor
    device: torch.device
    micro_batch: int


def ours(passes: int) -> Way:
    """What ``auto`` takes: CUDA kernels of so many half-precision passes, or torch.compile."""

    def way(case: Case) -> Gradient:
        group = Ranks(0, 1, case.device)
        update: Update
        if case.device.type == "cuda":
            from newtongs.paper.training.cuda import CudaUpdate

            update = CudaUpdate(case.model, TIMES, CONFIG, group, passes=passes)
        elif passes == 3:
            update = make_update(case.model, TIMES, CONFIG, group)
        else:
            raise NotHereError("CUDA only")
        return lambda: update(case.states, len(case.states))

    return way


def eager(case: Case) -> Gradient:
    """The reference with autograd, in micro-batches."""
    update = ReferenceUpdate(case.model, TIMES, CONFIG, Ranks(0, 1, case.device))
    update.micro_batch = case.micro_batch
    return lambda: update(case.states, len(case.states))


def in_pieces(case: Case, predict: Callable[[Tensor], Tensor]) -> Gradient:
    """Gradient of the objective of ``predict(z0)``, in micro-batches."""

    def run() -> None:
        for piece in case.states.split(case.micro_batch):
            loss = objective(predict(piece[:, 0]), piece, LossWeights())["total"]
            (loss * (len(piece) / len(case.states))).backward()

    return run


def compiled(case: Case) -> Gradient:
    """One substep with its floor event through ``torch.compile``, autograd around it."""
    torch.compiler.reset()

    @torch.compile(dynamic=False)
    def substep(z: Tensor) -> Tensor:
        z = case.model.step(z, H)
        hit = floor.gap(z).unsqueeze(-1) <= 0
        return torch.where(hit, project(case.model.jump(z)), z)

    max_dt = case.model.config.max_dt
    return in_pieces(case, lambda z0: rollout(z0, TIMES, lambda z, h: substep(z), max_dt=max_dt))


def torchdiffeq(case: Case) -> Gradient:
    """``odeint`` with autograd through it, without floor and without projections."""
    try:
        from torchdiffeq import odeint  # type: ignore[import-untyped]
    except ImportError as error:
        raise NotHereError("not installed") from error
    grid = (torch.arange(SUBSTEPS * (FRAMES - 1) + 1) * H).to(case.device)

    def predict(z0: Tensor) -> Tensor:
        z: Tensor = odeint(lambda t, z: case.model.field(z), z0, grid, method="rk4")
        return z[::SUBSTEPS].movedim(0, -2)

    return in_pieces(case, predict)


def diffrax(case: Case) -> Gradient:
    """``diffeqsolve`` under jit and grad of a squared error, without floor and projections."""
    solve, parameters = jax_solve(case.model)
    import jax
    import jax.numpy as jnp

    loss = jax.jit(jax.grad(lambda p, x: ((solve(p, x[:, 0]).swapaxes(0, 1) - x) ** 2).mean()))
    pieces = [jnp.asarray(x.cpu().numpy()) for x in case.states.split(case.micro_batch)]

    def run() -> None:
        jax.block_until_ready([loss(parameters, piece) for piece in pieces])

    return run


WAYS: dict[str, Way] = {
    "ours": ours(3),
    "the same, two passes": ours(2),
    "the same, one pass": ours(1),
    "eager reference": eager,
    "torch.compile of the substep": compiled,
    "torchdiffeq rk4 (3/8 rule), no floor": torchdiffeq,
    "diffrax rk4, no floor, no step": diffrax,
}
OURS = tuple(WAYS)[:3]
MEASURED = tuple(WAYS)[:4]  # whose gradients are compared with float64


def make_states(n: int, device: torch.device) -> Tensor:
    """Sequences of all motions ``(n, T, 22)``, mixed."""
    each = -(-n // len(motions.STATE32))
    parts = [motions.generate(k, each, seed=3, device=device).states for k in motions.STATE32]
    order = torch.randperm(each * len(parts), generator=torch.Generator().manual_seed(0))
    return torch.cat(parts)[order[:n].to(device)]


def gradient_of(way: Way, case: Case) -> list[Tensor]:
    """Gradient of a batch in float64, parameter by parameter."""
    case.model.zero_grad(set_to_none=True)
    way(case)()
    return [p.grad.flatten().double() for p in case.model.parameters() if p.grad is not None]


def exact_gradient(case: Case) -> list[Tensor]:
    """By the reference in float64."""
    exact = GaussianNND(case.model.config).to(case.device).double()
    exact.load_state_dict(case.model.state_dict())
    return gradient_of(eager, Case(exact, case.states.double(), case.device, case.micro_batch))


def gradient_errors(gradient: list[Tensor], exact: list[Tensor]) -> tuple[float, float]:
    """Relative norm of the difference: of the whole vector, and of the worst parameter."""
    whole = torch.cat(gradient) - torch.cat(exact)
    each = [float((a - b).norm() / b.norm()) for a, b in zip(gradient, exact, strict=True)]
    return float(whole.norm() / torch.cat(exact).norm()), max(each)


def update_seconds(way: Way, case: Case, runs: int) -> float:
    """Shortest of ``runs`` updates after a first one."""
    case.model.zero_grad(set_to_none=True)
    gradient = way(case)
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=0.0)
    best = float("inf")
    for run in range(runs + 1):
        before = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        gradient()
        optimizer.step()
        synchronize(case.device)
        if run:
            best = min(best, time.perf_counter() - before)
    return best


def add_row(
    table: Table, what: str, case: Case, small: Case, exact: list[Tensor], limit: float, ours: float
) -> float:
    """Time one way, measure its gradient, and return its seconds."""
    cuda = case.device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(case.device)
    s = update_seconds(WAYS[what], case, runs=5 if what in OURS else 1)
    gb = torch.cuda.max_memory_allocated(case.device) / 1e9 if cuda else 0.0
    memory = f"{gb:.1f}" if gb and "diffrax" not in what else ""
    errors = ["", ""]
    if what in MEASURED:
        errors = [f"{e:.1e}" for e in gradient_errors(gradient_of(WAYS[what], small), exact)]
    ratio = f"{s / ours:.1f}" if ours else ""
    table.add_row(what, f"{s:.3f}", ratio, f"{s / limit:.2f}", *errors, memory)
    return s


def profile(case: Case) -> Table:
    """Time of one update of ours by kernel, longest first."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    update = ours(3)(case)
    update()
    synchronize(case.device)
    with recording(activities=[ProfilerActivity.CUDA]) as record:
        update()
        synchronize(case.device)
    kernels = sorted(record.key_averages(), key=lambda k: -k.device_time_total)
    whole = sum(k.device_time_total for k in kernels)
    table = Table(title=f"one update of {len(case.states):,} sequences on {hardware(case.device)}")
    for heading in ("kernel", "calls", "us a call", "ms", "%"):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    for k in kernels[:PROFILED]:
        t = k.device_time_total
        row = f"{k.count:,}", f"{t / k.count:.1f}", f"{t / 1e3:.1f}", f"{100 * t / whole:.1f}"
        table.add_row(k.key[:60], *row)
    table.add_row("all", f"{sum(k.count for k in kernels):,}", "", f"{whole / 1e3:.1f}", "100")
    return table


def report_run(data: Path, epochs: int, device: torch.device) -> None:
    """Train, and print where the seconds went."""
    began = time.perf_counter()
    state32.build(data, splits=("train", "val_id"), device=device)  # what stands there stays
    print(f"State-32 there after {time.perf_counter() - began:.0f} s")
    updated: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        config = TrainConfig(data=data, out=Path(out) / "run", epochs=epochs, device=str(device))
        began = time.perf_counter()
        train(config, progress=lambda *_: updated.append(time.perf_counter()))
        whole = time.perf_counter() - began
        lines = (Path(out) / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    plain = statistics.median(r["seconds"] for r in rows if "val_total" not in r)
    each = plain / config.updates_per_epoch
    later = [r["seconds"] - plain for r in rows[1:] if "val_total" in r]
    start = updated[0] - began - each
    validation = sum(later) * (1 + 1 / len(later))  # that of epoch 1, which also starts, among them
    parts = {
        "updates": plain * epochs, f"{1 + len(later)} validations": validation, "start": start,
        "checkpoints and the rest": whole - plain * epochs - validation - start,
    }  # fmt: skip
    print(f"{epochs} epochs, {whole:.1f} s on {device}, {each:.4f} s an update; objective "
          f"{rows[-1]['val_total']:.4f}")  # fmt: skip
    for name, seconds in parts.items():
        print(f"  {name}: {seconds:.1f} s, {100 * seconds / whole:.1f} %")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--sequences", type=int, default=256)
    parser.add_argument(
        "--micro-batch", type=int, default=32768, help="what autograd takes at once: 85 GB on CUDA"
    )
    parser.add_argument("--only", nargs="+", default=[""], help="rows with one of these in them")
    parser.add_argument("--profile", action="store_true", help="ours by kernel (CUDA)")
    parser.add_argument("--run", type=Path, help="train on State-32 in this folder instead")
    parser.add_argument("--epochs", type=int, default=100, help="of such a run")
    args = parser.parse_args()
    if args.run:
        if args.epochs < 3:
            parser.error("--run needs three epochs: the first and the last are validated")
        report_run(args.run, args.epochs, args.device)
        return
    states = make_states(args.sequences, args.device)
    model = load_pretrained().to(args.device).train()
    case = Case(model, states, args.device, args.micro_batch)
    if args.profile:
        Console(width=110).print(profile(case))
        return
    small = Case(model, make_states(min(2048, args.sequences), args.device), args.device, 512)
    rate = gemm_rate(args.device)
    work = 3 * len(states) * EVALUATIONS * flops(model)
    table = Table(title=f"one update of {len(states):,} sequences on {hardware(args.device)}")
    headings = ["what", "s", "times ours", "times the limit", "gradient error", "worst", "GB"]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "what" else "right")
    exact = exact_gradient(small)
    first = 0.0  # ours, where it runs
    for what in (name for name in WAYS if any(part in name for part in args.only)):
        try:
            s = add_row(table, what, case, small, exact, work / rate, first)
            first = first or (s if what == "ours" else 0.0)
        except NotHereError as reason:
            table.add_row(what, str(reason))
        except RuntimeError as error:  # torch's and XLA's own are among them
            if "memory" not in str(error).lower():
                raise
            table.add_row(what, "no memory")
    console = Console(width=110)
    console.print(table)
    console.print(
        f"limit: {work / 1e12:.2f} TFlop at {rate / 1e12:.2f} TFlop/s (float32 torch.mm) = "
        f"{work / rate:.3f} s"
    )
    if args.device.type == "cuda":
        half = gemm_rate(args.device, torch.float16)
        console.print(
            f"three half-precision passes at {half / 1e12:.0f} TFlop/s (float16 torch.mm) would "
            f"take {3 * work / half:.3f} s"
        )
    console.print(
        f"gradient error: relative to float64 over {len(small.states):,} sequences at trained "
        f"weights, of the whole gradient and of its worst parameter; torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()

"""Extreme states through both engines and every fast path: finite or refused, alike.

    python tests/harness/extremes.py --states 10000000

Every state has some channels from 1e-45 to 3e38, zero, at the limit or no number at all. What the
edge accepts must stay finite in the reference and in each fast path; what it refuses must be
refused by each. MuJoCo takes one state at a time and gets a share. Seeded; --start goes on. Where
there is CUDA its kernels are walked too; --only names the paths to walk.
"""

import argparse
import copy
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from newtongs import GaussianNND, load_pretrained
from newtongs.dynamics.backends import advance, predictor
from newtongs.dynamics.backends.context import likeliest_predictor
from newtongs.dynamics.backends.numba_few import rollout_cpu
from newtongs.dynamics.config import NNDConfig
from newtongs.dynamics.context import ContextNND, load_pretrained_context
from newtongs.dynamics.context.fitting import predict
from newtongs.dynamics.surfaces import FLOOR
from newtongs.dynamics.variants import choose
from newtongs.errors import InputError
from newtongs.state import CHANNELS, DIM, LARGEST, State, project, simulable

CHUNK = 50_000
FEW = 50  # states of a chunk that are predicted one by one
FRAMES, DT = 9, 1 / 24
MUJOCO_SHARE = 5000  # one state of so many
# Paths that are given what was checked before: bodies, and what a model is shown.
CHECKED = ("paper engine", "the model", "compiled, one", "CUDA, the model", "CUDA, one kernel")
SPECIAL = torch.tensor(
    [0.0, -0.0, 1e-45, 1e-38, 1e-8, 1e-4, 6e-4, 1.0, LARGEST, 1.001 * LARGEST, 3.4e38,
     torch.inf, torch.nan]
)  # fmt: skip


def drawn(n: int, seed: int) -> torch.Tensor:
    """States ``(n, 22)``: usual ones with one to all channels replaced by something extreme."""
    g = torch.Generator().manual_seed(seed)
    z = project(torch.randn(n, DIM, generator=g))
    magnitude = 10 ** (torch.rand(n, DIM, generator=g) * 83.5 - 45).double()
    # Half of the states stay below the limit, that most of them are accepted.
    magnitude[: n // 2] = 10 ** (torch.rand(n // 2, DIM, generator=g) * 15 - 6).double()
    sign = torch.randint(0, 2, (n, DIM), generator=g) * 2 - 1
    extreme = (sign * magnitude).float()
    extreme[: n // 2, CHANNELS.index("m")].abs_()
    special = torch.rand(n, DIM, generator=g) < torch.rand(n, 1, generator=g) ** 4
    special[: n // 2] &= torch.rand(n // 2, 1, generator=g) < 0.1
    chosen = torch.randint(0, len(SPECIAL), (n, DIM), generator=g)
    extreme = torch.where(special, sign * SPECIAL[chosen], extreme)
    share = torch.rand(n, 1, generator=g) ** 2
    return torch.where(torch.rand(n, DIM, generator=g) < share, extreme, z)


@dataclass
class Count:
    """Of one path."""

    finite: int = 0
    refused: int = 0
    lost: list[int] = field(default_factory=list)
    """Seeds of chunks in which an accepted state did not stay finite."""
    wrongly: list[int] = field(default_factory=list)
    """Seeds of chunks in which a refused state was taken."""
    seconds: float = 0.0


def models() -> dict[str, GaussianNND]:
    """The models whose paths are walked."""
    return {
        "analytic": GaussianNND(),
        "learned": load_pretrained(),
        "euler": GaussianNND(NNDConfig(solver="euler")),
    }


def times() -> torch.Tensor:
    """Of the frames, in seconds."""
    return torch.arange(FRAMES).double() * DT


def paths(model: GaussianNND):
    """Every way to compute a rollout of a model: ``z0 (B, 22)`` to ``(B, T, 22)``."""
    dt = [DT] * (FRAMES - 1)
    return on_cpu(model, dt) | (on_cuda(model) if torch.cuda.is_available() else {})


def of_context(model: ContextNND):
    """ContextNND: all rows by the model, a few by the compiled code for one, and as animate asks.

    Its edge, where states are refused, is the last.
    """
    one = likeliest_predictor(model)
    here = {
        "the model": lambda z: torch.no_grad()(model.likeliest)(z, times()),
        "compiled, one": lambda z: torch.cat([one(x, times()) for x in z[:FEW].split(1)]),
        "of any size": lambda z: torch.stack([predict(model, x, times()) for x in z[:FEW]]),
    }
    return here | (context_on_cuda(model) if torch.cuda.is_available() else {})


def context_on_cuda(model: ContextNND):
    """The model and its fused kernel on the GPU."""
    there = copy.deepcopy(model).cuda()
    fused = likeliest_predictor(there)
    return {
        "CUDA, the model": lambda z: torch.no_grad()(there.likeliest)(z.cuda(), times()).cpu(),
        "CUDA, one kernel": lambda z: fused(z.cuda(), times()).cpu(),
    }


def on_cuda(model: GaussianNND):
    """The reference and the fused kernels on the GPU."""
    there = copy.deepcopy(model).cuda()
    fused = predictor(there)
    return {
        "CUDA, reference": lambda z: torch.no_grad()(there.rollout)(z.cuda(), times()).cpu(),
        "CUDA, kernels": lambda z: fused(z.cuda(), times()).cpu(),
    }


def on_cpu(model: GaussianNND, dt: list[float]):
    """The reference, compiled code for many and for few, and the world's engine."""
    return {
        "reference": lambda z: torch.no_grad()(model.rollout)(z, times()),
        "compiled, many": lambda z: rollout_cpu(model, z, times()),
        "compiled, few": lambda z: torch.cat(
            [rollout_cpu(model, part, times()) for part in z.split(64)]
        ),
        "paper engine": lambda z: advance(model, project(z), dt, (FLOOR,)).transpose(0, 1),
    }


def accepted(model: GaussianNND | ContextNND, z: torch.Tensor) -> torch.Tensor:
    """Which states the edge takes."""
    if isinstance(model, ContextNND):
        return simulable(z)
    light = State(z).m[:, 0] < model.least_mass([DT])
    return simulable(z) & ~(light & torch.tensor(model.least_mass([DT]) > 1e-4))


def walk(count: Count, run, good: torch.Tensor, bad: torch.Tensor, seed: int) -> None:
    """One chunk through one path."""
    start = time.perf_counter()
    try:
        out = run(good)
        count.finite += len(out)
        if not torch.isfinite(out).all():
            count.lost.append(seed)
    except InputError:
        count.lost.append(seed)
    for z in bad:
        try:
            run(z.unsqueeze(0))
            count.wrongly.append(seed)
        except InputError:
            count.refused += 1
    count.seconds += time.perf_counter() - start


def mujoco(count: Count, z: torch.Tensor, seed: int) -> None:
    """States one by one through the engine with true shapes: a ball and a box."""
    from newtongs.world import Body, Shape, Simulation

    start = time.perf_counter()
    for i, state in enumerate(z):
        shape = Shape.ball(0.2) if i % 2 else Shape.box((0.2, 0.1, 0.3))
        try:
            out = Simulation([Body(state, shape)], choose("analytic", "rigid")).run(times())
            count.finite += 1
            if not torch.isfinite(out).all():
                count.lost.append(seed)
        except InputError:
            count.refused += 1
    count.seconds += time.perf_counter() - start


def main() -> None:
    """Walk, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0, help="first chunk")
    parser.add_argument("--only", nargs="+", default=[""], help="paths with one of these in them")
    parser.add_argument("--share", type=int, default=MUJOCO_SHARE, help="one of so many to MuJoCo")
    chosen = parser.parse_args()
    counts, refusals = walked(
        chosen.states, chosen.start, tell=True, only=chosen.only, share=chosen.share
    )
    print(table(counts, CHUNK * -(-chosen.states // CHUNK)))
    print("refused by channel:", ", ".join(f"{k} {n:,}" for k, n in refusals.items() if n))
    sys.exit(any(count.lost or count.wrongly for count in counts.values()))


def walked(
    states: int,
    start: int = 0,
    chunk: int = CHUNK,
    tell: bool = False,
    only: Sequence[str] = ("",),
    share: int = MUJOCO_SHARE,
):
    """Counts by path, and how many states the edge refused for each channel."""
    made: dict[str, GaussianNND | ContextNND] = {**models()}
    ways = {name: paths(model) for name, model in models().items()}
    made["context"] = load_pretrained_context()
    ways["context"] = of_context(made["context"])
    names = [*(f"{m}: {p}" for m in made for p in ways[m]), "mujoco"]
    counts = {name: Count() for name in names if any(part in name for part in only)}
    refusals = dict.fromkeys([*CHANNELS, "m (drag)"], 0)
    for seed in range(start, start + -(-states // chunk)):
        z = drawn(chunk, seed)
        for name, model in made.items():
            good = accepted(model, z)
            for path, run in ways[name].items():
                if count := counts.get(f"{name}: {path}"):
                    checked = path in CHECKED
                    walk(count, run, z[good], z[:0] if checked else z[~good][:20], seed)
        for i, channel in enumerate(CHANNELS):
            refusals[channel] += int((~(z[:, i].abs() <= LARGEST)).sum())
        refusals["m (drag)"] += int((simulable(z) & ~accepted(made["analytic"], z)).sum())
        if count := counts.get("mujoco"):
            mujoco(count, z[:: max(1, share * chunk // CHUNK)], seed)
        if tell:
            lost = sum(len(c.lost) + len(c.wrongly) for c in counts.values())
            print(f"chunk {seed}: {(seed - start + 1) * chunk:,} states, {lost} lost", flush=True)
    return counts, refusals


def table(counts: dict[str, Count], states: int) -> str:
    """As it stands in SECURITY.md."""
    lines = [f"{states:,} states", "| path | finite | refused | lost | wrongly taken | seconds |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, c in counts.items():
        lines.append(
            f"| {name} | {c.finite:,} | {c.refused:,} | {len(c.lost)} | {len(c.wrongly)} | "
            f"{c.seconds:,.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""Extreme states through both engines and every fast path: finite or refused, alike.

    python tests/harness/extremes.py --states 10000000

Every state has some channels from 1e-45 to 3e38, zero, at the limit or no number at all. What the
edge accepts must stay finite in the reference and in each fast path; what it refuses must be
refused by each. Seeded. --processes share the work. --out notes every chunk of 50,000 in a file; a
run that finds the file goes on from there. Where there is CUDA its kernels are walked too. --only
names the paths to walk.
"""

import argparse
import copy
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import torch

from newtongs import GaussianNND, load_pretrained
from newtongs.base.errors import InputError
from newtongs.base.state import (
    CHANNELS,
    DIM,
    LARGEST_CHANNEL,
    LAYOUT,
    SMALLEST_QUATERNION,
    State,
    project,
)
from newtongs.dynamics.backends import advance, predictor
from newtongs.dynamics.backends.numba_rollout import rollout_cpu
from newtongs.dynamics.config import NNDConfig
from newtongs.dynamics.surfaces import FLOOR
from newtongs.dynamics.variants import choose
from newtongs.forecast import ContextNND, load_pretrained_context
from newtongs.forecast.fitting import predict
from newtongs.physics import Body, Shape, Simulation
from newtongs.physics.mujoco_engine import FARTHEST, HELD, TICKS

CHUNK = 50_000
FEW = 50  # states of a chunk that are predicted one by one
FRAMES, DT = 9, 1 / 24
BALL, BOX = Shape.ball(0.2), Shape.box((0.2, 0.1, 0.3))
TOGETHER = 32  # states that MuJoCo simulates at once
FAST = 100.0  # a box that moves or spins so fast is simulated alone: many of these are refused
MUJOCO_FRAMES = 5  # of 999 states that left all bounds within nine frames 964 did within five
# Paths that are given what was checked before: bodies, and what a model is shown.
CHECKED = ("paper engine", "the model", "CUDA, the model")
SPECIAL = torch.tensor(
    [0.0, -0.0, 1e-45, 1e-38, 1e-8, 1e-4, 6e-4, 1.0, LARGEST_CHANNEL,
     1.001 * LARGEST_CHANNEL, 3.4e38, torch.inf, torch.nan]
)  # fmt: skip


def simulable(z):
    """Which of the states ``(..., 22)`` ``require_simulable`` takes."""
    turned = z[..., LAYOUT["q"]].abs().amax(-1) >= SMALLEST_QUATERNION
    return (z.abs() <= LARGEST_CHANNEL).all(-1) & turned


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

    def add(self, other: "Count") -> None:
        """Of more chunks."""
        self.finite += other.finite
        self.refused += other.refused
        self.lost += other.lost
        self.wrongly += other.wrongly
        self.seconds += other.seconds


def models() -> dict[str, GaussianNND]:
    """The models whose paths are walked."""
    return {
        "analytic": GaussianNND(),
        "learned": load_pretrained(),
        "euler": GaussianNND(NNDConfig(solver="euler")),
    }


def times(frames: int = FRAMES) -> torch.Tensor:
    """Of the frames, in seconds."""
    return torch.arange(frames).double() * DT


def paths(model: GaussianNND):
    """Every way to compute a rollout of a model: ``z0 (B, 22)`` to ``(B, T, 22)``."""
    dt = [DT] * (FRAMES - 1)
    return on_cpu(model, dt) | (on_cuda(model) if torch.cuda.is_available() else {})


def of_context(model: ContextNND):
    """ContextNND: all rows by the model, and a few as animate asks.

    Its edge, where states are refused, is the last.
    """
    here = {
        "the model": lambda z: torch.no_grad()(model.likeliest)(z, times()),
        "of any size": lambda z: torch.stack([predict(model, x, times()) for x in z[:FEW]]),
    }
    return here | (context_on_cuda(model) if torch.cuda.is_available() else {})


def context_on_cuda(model: ContextNND):
    """The model on the GPU."""
    there = copy.deepcopy(model).cuda()
    return {"CUDA, the model": lambda z: torch.no_grad()(there.likeliest)(z.cuda(), times()).cpu()}


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
    """States through the engine with true shapes, by turns a ball and a box, those alike together.

    They may meet. Where a simulation is refused its halves are tried, so that every state is either
    in one that stayed finite, or refused by itself.
    """
    start = time.perf_counter()
    for states, shape, together in alike(z):
        for part in states.split(together):
            settle(count, part, shape, seed)
    for state in z[~taken_by_mujoco(z)]:
        try:
            Simulation([Body(state, BOX)], rigid())
            count.wrongly.append(seed)
        except InputError:
            count.refused += 1
    count.seconds += time.perf_counter() - start


def taken_by_mujoco(z: torch.Tensor) -> torch.Tensor:
    """Which states its edge takes."""
    x = State(z)
    far = torch.cat([x.p, x.v, x.w], -1).abs().amax(-1) > FARTHEST
    light = x.m[:, 0] < rigid().least_mass_of_step(HELD / TICKS, "euler")
    return simulable(z) & ~far & ~light


def alike(z: torch.Tensor) -> list[tuple[torch.Tensor, Shape, int]]:
    """States that the edge takes, their shape, and how many to simulate at once."""
    x, good = State(z), taken_by_mujoco(z)
    box = torch.arange(len(z)) % 2 == 1
    fast = torch.maximum(x.v.norm(dim=-1), x.w.norm(dim=-1)) > FAST
    return [
        (z[good & ~box], BALL, TOGETHER),
        (z[good & box & fast], BOX, 1),
        (z[good & box & ~fast], BOX, TOGETHER),
    ]


def settle(count: Count, z: torch.Tensor, shape: Shape, seed: int) -> None:
    """States that are simulated together, or in halves."""
    try:
        bodies = [Body(state, shape) for state in z]
        out = Simulation(bodies, rigid()).run(times(MUJOCO_FRAMES))
    except InputError:
        if len(z) == 1:
            count.refused += 1
        else:
            for half in z.chunk(2):
                settle(count, half, shape, seed)
        return
    count.finite += len(z)
    if not torch.isfinite(out).all():
        count.lost.append(seed)


@cache
def rigid() -> GaussianNND:
    """What moves the bodies of MuJoCo."""
    return choose("analytic", "rigid")


def main() -> None:
    """Walk, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0, help="first chunk")
    parser.add_argument("--only", nargs="+", default=[""], help="paths with one of these in them")
    parser.add_argument("--share", type=int, default=1, help="one of so many to MuJoCo")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, help="notes of finished chunks")
    chosen = parser.parse_args()
    seeds = range(chosen.start, chosen.start + -(-chosen.states // CHUNK))
    notes = chunk_notes(seeds, chosen.only, chosen.share, chosen.processes, chosen.out)
    counts, refusals = summed(notes)
    print(table(counts, CHUNK * len(notes)))
    print("refused by channel:", ", ".join(f"{k} {n:,}" for k, n in refusals.items() if n))
    sys.exit(any(count.lost or count.wrongly for count in counts.values()))


Note = tuple[dict[str, Count], dict[str, int]]
"""Of a chunk: counts by path, and how many states the edge refused for each channel."""


def walked(states: int, chunk: int = CHUNK, share: int = 1) -> Note:
    """The states of a few chunks through all paths."""
    seeds = range(-(-states // chunk))
    return summed([walk_chunk(seed, chunk, [""], share) for seed in seeds])


def chunk_notes(
    seeds: Sequence[int], only: Sequence[str], share: int, processes: int, out: Path | None
) -> list[Note]:
    """Notes of all chunks, those found in the file included."""
    known = read_notes(out, only, share) if out else {}
    notes = [known[seed] for seed in seeds if seed in known]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, torch.set_num_threads, (1,)) as pool:
        left = [seed for seed in seeds if seed not in known]
        jobs = {pool.submit(walk_chunk, seed, CHUNK, only, share): seed for seed in left}
        for job in as_completed(jobs):
            notes.append(job.result())
            if out:
                write_note(out, jobs[job], notes[-1], share)
            every = [count for counts, _ in notes for count in counts.values()]
            wrong = sum(len(count.lost) + len(count.wrongly) for count in every)
            print(f"chunk {jobs[job]}: {len(notes) * CHUNK:,} states, {wrong} lost", flush=True)
    return notes


def read_notes(path: Path, only: Sequence[str], share: int) -> dict[int, Note]:
    """By chunk, of those through just these paths; a line that was cut short is left out."""
    found: dict[int, Note] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            note = json.loads(line)
            counts = {path: Count(**count) for path, count in note["counts"].items()}
            if counts.keys() == set(names(only)) and note.get("share", 1) == share:
                found[note["chunk"]] = counts, note["refusals"]
    return found


def write_note(path: Path, seed: int, note: Note, share: int) -> None:
    """A line of its own, whatever a run that was killed left of the last one."""
    counts = {name: asdict(count) for name, count in note[0].items()}
    line = {"chunk": seed, "share": share, "counts": counts, "refusals": note[1]}
    with path.open("a") as file:
        print("\n" + json.dumps(line), file=file)


def summed(notes: Sequence[Note]) -> Note:
    """Of all chunks."""
    counts: dict[str, Count] = {}
    refusals: dict[str, int] = {}
    for some, refused in notes:
        for name, count in some.items():
            counts.setdefault(name, Count()).add(count)
        for channel, n in refused.items():
            refusals[channel] = refusals.get(channel, 0) + n
    return counts, refusals


@cache
def ways():
    """Models and the paths of each, by name."""
    every = {name: (model, paths(model)) for name, model in models().items()}
    context = load_pretrained_context()
    return every | {"context": (context, of_context(context))}


def names(only: Sequence[str]) -> list[str]:
    """Of the paths with one of these parts in them."""
    every = [
        *(f"{model}: {path}" for model, (_, some) in ways().items() for path in some),
        "mujoco",
    ]
    return [name for name in every if any(part in name for part in only)]


def walk_chunk(seed: int, chunk: int, only: Sequence[str], share: int) -> Note:
    """One chunk through the paths that ``only`` names parts of."""
    z = drawn(chunk, seed)
    counts = {name: Count() for name in names(only)}
    for name, (model, some) in ways().items():
        good = accepted(model, z)
        for path, run in some.items():
            if count := counts.get(f"{name}: {path}"):
                checked = path in CHECKED
                walk(count, run, z[good], z[:0] if checked else z[~good][:20], seed)
    if count := counts.get("mujoco"):
        mujoco(count, z[::share], seed)
    refusals = {c: int((~(z[:, i].abs() <= LARGEST_CHANNEL)).sum()) for i, c in enumerate(CHANNELS)}
    refusals["MuJoCo's edge"] = int((~taken_by_mujoco(z[::share])).sum())
    refusals["m (drag)"] = int((simulable(z) & ~accepted(ways()["analytic"][0], z)).sum())
    return counts, refusals


def table(counts: dict[str, Count], states: int) -> str:
    """As it stands in RESULTS.md."""
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

"""How fast ContextNND predicts 64 frames, and how long an update of its training takes.

Prints the time of one object on a CPU, of many on CUDA, what half precision costs there, and the
time of an update of the full training run.

Run with: python benchmarks/context.py [--objects 1 1024] [--device cpu] [--training]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from newtongs import motions
from newtongs.dynamics.backends.context import context_predictor, likeliest_predictor
from newtongs.dynamics.context import ContextNND, load_pretrained_context
from newtongs.state import State
from newtongs.training.context import ContextTrainConfig
from newtongs.training.context.loop import make_step, of_round, set_rate, start

SEEN = 4
TIMES = torch.arange(64, dtype=torch.float32) / 24


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--objects", type=int, nargs="+")
    parser.add_argument("--training", action="store_true", help="also time an update")
    given = parser.parse_args()
    device = torch.device(given.device)
    counts = given.objects or ([1, 65_536] if device.type == "cuda" else [1, 1024])
    model = load_pretrained_context().to(device)
    print(f"ContextNND, {SEEN} states seen, 64 frames, {name_of(device)}")
    for count in counts:
        report(model, observed(count, device), device)
    if given.training:
        report_training(given.device)


def name_of(device: torch.device) -> str:
    """The machine in a few words."""
    cuda = device.type == "cuda"
    return torch.cuda.get_device_name(device) if cuda else f"{torch.get_num_threads()} threads"


def observed(count: int, device: torch.device) -> Tensor:
    """First states of sequences of all motions ``(count, 4, 22)``."""
    each = -(-count // len(motions.STATE32))
    states = [motions.generate(name, each, device=device).states for name in motions.STATE32]
    return torch.stack(states, 1).flatten(0, 1)[:count, :SEEN].contiguous()


def report(model: ContextNND, seen: Tensor, device: torch.device) -> None:
    """One line for each way to predict."""
    times = TIMES.to(device)
    ways: dict[str, Callable[[], Tensor]] = {
        "the likeliest future": lambda: likeliest(seen, times),
        "the mean of all futures": lambda: mean(seen, times),
    }
    likeliest, mean = likeliest_predictor(model), context_predictor(model)
    if len(seen) <= 4096:
        ways["the model itself, the mean"] = torch.no_grad()(lambda: model(seen, times).mean())
    for name, predict in ways.items():
        milliseconds = 1000 * shortest(predict, device)
        print(f"  {len(seen):>6} objects  {name:28} {milliseconds:9.3f} ms")
    part = seen[:4096]
    with torch.no_grad():
        exact = model(part, times).likeliest()
    error = State(likeliest(part, times)).p - State(exact).p
    distance = torch.linalg.vector_norm(error, dim=-1)
    print(
        f"          off the model itself: {1000 * distance.mean():.3f} mm on average, "
        f"{1000 * distance.quantile(0.999):.2f} mm in one frame of a thousand"
        if distance.numel() < 2**24
        else ""
    )


def shortest(work: Callable[[], object], device: torch.device, *, lasting: float = 1.0) -> float:
    """Seconds of the quickest of several runs."""
    found, began = [], 0.0
    for i in range(10_000):
        before = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - before)
        began = before if i == 2 else began
        if i > 5 and time.perf_counter() - began > lasting:
            break
    return min(found[3:])


def report_training(device: str) -> None:
    """Milliseconds of an update at the full run's size, after compilation."""
    config = ContextTrainConfig(out=Path("unused"), device=device, pool=4096)
    run = start(config)
    step, batches = make_step(run, config), of_round(run, config)
    marks = []
    for i, batch in enumerate(batches):
        set_rate(run, config)
        step(batch)
        if i % 50 == 0:
            if device != "cpu":
                torch.cuda.synchronize()
            marks.append(time.perf_counter())
        if i == (300 if device != "cpu" else 50):
            break
    milliseconds = 1000 * (marks[-1] - marks[-2]) / 50
    print(
        f"  training: {milliseconds:.2f} ms an update of {config.batch} sequences, "
        f"{milliseconds * config.updates / 1000:.0f} s for {config.updates}"
    )


if __name__ == "__main__":
    main()

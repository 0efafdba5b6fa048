"""How fast ContextNND predicts 64 frames, and how long an update of its training takes.

Prints the time of one object and of many, and that of an update of the full training run.

``--limits`` measures what it does not do: motions it never saw, other gravity, longer than 2.7 s,
windows from the middle of a motion.

Run with: python benchmarks/context.py [--objects 1 1024] [--device cpu] [--training] [--limits]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from newtongs import motions
from newtongs.base.state import State
from newtongs.forecast import ContextNND, load_pretrained_context
from newtongs.forecast.training import ContextTrainConfig
from newtongs.forecast.training.loop import make_step, of_round, set_rate, start
from newtongs.paper.evaluation.seen_predictors import mean_future

SEEN = 4
TIMES = torch.arange(64, dtype=torch.float32) / 24


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--objects", type=int, nargs="+")
    parser.add_argument("--training", action="store_true", help="also time an update")
    parser.add_argument("--limits", action="store_true", help="measure what it does not do instead")
    given = parser.parse_args()
    if given.limits:
        report_limits(load_pretrained_context())
        return
    device = torch.device(given.device)
    counts = given.objects or [1, 4096 if device.type == "cuda" else 1024]
    model = load_pretrained_context().to(device)
    print(f"ContextNND, {SEEN} states seen, 64 frames, {name_of(device)}")
    for count in counts:
        threads = torch.get_num_threads()
        torch.set_num_threads(1 if count == 1 else threads)  # on small work they cost more
        report(model, observed(count, device), device)
        torch.set_num_threads(threads)
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
        "the likeliest future": torch.no_grad()(lambda: model.likeliest(seen, times)),
        "the mean of all futures": lambda: mean_future(model, seen, times),
    }
    for name, predict in ways.items():
        wall, cpu = (1000 * x for x in shortest(predict, device))
        busy = f"{cpu:9.3f} ms of the CPU" if device.type == "cpu" else ""
        print(f"  {len(seen):>6} objects  {name:28} {wall:9.3f} ms {busy}")


def shortest(
    work: Callable[[], object], device: torch.device, *, lasting: float = 1.0
) -> tuple[float, float]:
    """Seconds of the quickest of several runs, and of the calling thread's processor time.

    On a machine that others use the second says what the first would be without them.
    """
    found, busy, began = [], [], 0.0
    for i in range(10_000):
        before, spent = time.perf_counter(), time.thread_time()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        busy.append(time.thread_time() - spent)
        found.append(time.perf_counter() - before)
        began = before if i == 2 else began
        if i > 5 and time.perf_counter() - began > lasting:
            break
    return min(found[3:]), min(busy[3:])


def report_training(device: str) -> None:
    """Milliseconds of an update at the full run's size, after compilation."""
    config = ContextTrainConfig(out=Path("unused"), device=device, pool=4096)
    torch.set_float32_matmul_precision("high")  # as `train` does
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


# --- what it does not do --------------------------------------------------------------------------


def thrown(gravity: float, frames: int = 64) -> Tensor:
    """Throws as State-32's projectiles under another gravity ``(256, T, 22)``."""
    z = motions.generate("projectile_motion", 256, seed=3, frames=frames).states.clone()
    x, t = State(z), torch.arange(frames) / 24
    x.p[..., 1] = x.p[:, :1, 1] + x.v[:, :1, 1] * t - 0.5 * gravity * t**2
    x.v[..., 1] = x.v[:, :1, 1] - gravity * t
    return z


def oscillating(swing: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Motions of no family ``(256, 64, 22)``: a start of State-32's and an offset ``(N, T, 3)``."""
    z = motions.generate("spring_oscillation", 256, seed=3).states.clone()
    x, t = State(z), torch.arange(64) / 24
    size = torch.linspace(0.5, 1.5, 256)[:, None]
    start = x.p[:, :1].clone()
    x.p[...] = start + swing(t, size)
    x.v[:, 1:-1] = (x.p[:, 2:] - x.p[:, :-2]) * 12
    x.v[:, 0], x.v[:, -1] = (x.p[:, 1] - x.p[:, 0]) * 24, (x.p[:, -1] - x.p[:, -2]) * 24
    x.w[...] = 0.0
    x.q[...] = torch.tensor([1.0, 0, 0, 0])
    return z


def three(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Components ``(N, T, 3)``."""
    return torch.stack(torch.broadcast_tensors(x, y, z), -1)


UNSEEN = {
    "a slower swing, 2 rad/s along x": lambda t, a: three(a * torch.sin(2 * t), 0 * t, 0 * t),
    "an upright circle, 3 rad/s": lambda t, a: three(
        a * torch.sin(3 * t), a * (1 - torch.cos(3 * t)), 0 * t
    ),
    "to and fro in a zigzag": lambda t, a: three(a * t, 0 * t, a * (t % 0.8 - 0.4).abs()),
    "ever faster, 3 units/s² along x": lambda t, a: three(1.5 * a * t**2, 0 * t, 0 * t),
}


@torch.no_grad()
def error(model: ContextNND, z: Tensor, seen: int, *, first: int = 0, frames: slice | None = None
          ) -> float:  # fmt: skip
    """RMSE of the mean's positions over the frames asked for; ``first`` is the first one shown."""
    z = z[:, first:]
    times = torch.arange(z.shape[1]) / 24
    found = torch.cat([model(x[:, :seen], times).mean() for x in z.split(256)])
    part = frames or slice(seen, None)
    return float((State(found).p - State(z).p)[:, part].square().sum(-1).mean().sqrt())


def straight(z: Tensor, seen: int, *, first: int = 0, frames: slice | None = None) -> float:
    """The same of going straight on from the last state seen: what anyone can do."""
    z = z[:, first:]
    t = (torch.arange(z.shape[1]) - (seen - 1)) / 24
    x = State(z[:, seen - 1 : seen])
    part = frames or slice(seen, None)
    ahead = x.p + x.v * t[:, None]
    return float((ahead - State(z).p)[:, part].square().sum(-1).mean().sqrt())


def report_limits(model: ContextNND) -> None:
    """RMSE of the frames not seen, beside that of going straight on."""
    print("what it does not do: RMSE of the unseen frames, 4 and 16 states seen; straight on")

    def row(name: str, z: Tensor, **where: object) -> None:
        found = [error(model, z, k, **where) for k in (4, 16)]  # type: ignore[arg-type]
        plain = [straight(z, k, **where) for k in (4, 16)]  # type: ignore[arg-type]
        print(f"  {name:44} {found[0]:7.3f} {found[1]:7.3f}   {plain[0]:7.3f} {plain[1]:7.3f}")

    for gravity in (1.62, 3.71, 9.81, 15.0, 24.8):
        row(f"a throw under a gravity of {gravity}", thrown(gravity))
    for name, swing in UNSEEN.items():
        row(name, oscillating(swing))
    names = [n for n in motions.STATE32 if n not in LENGTH_MATTERS]
    long = torch.cat([motions.generate(n, 8, seed=3, frames=128).states for n in names])
    for begin, end in ((16, 64), (64, 96), (96, 128)):
        row(f"frames {begin} to {end} of 5.3 s", long, frames=slice(begin, end))
    z = torch.cat([motions.generate(n, 8, seed=3).states for n in motions.STATE32])
    for first in (0, 8, 16, 32):
        row(f"shown from frame {first} on", z, first=first)


# Families whose motion depends on how long the sequence is, so that a longer one is another motion.
LENGTH_MATTERS = ("airplane_flight", "spiral_orbit_decay", "stop_and_go_motion", "two_stage_motion")


if __name__ == "__main__":
    main()

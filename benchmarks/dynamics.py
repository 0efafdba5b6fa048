"""What each choice of dynamics does to a thrown object: figures and pictures of docs/dynamics.md.

Run with: python benchmarks/dynamics.py [--pictures docs/images]
"""

import argparse
import math
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from newtongs import Simulation, State, make_state
from newtongs.base import rotations
from newtongs.dynamics import Dynamics
from newtongs.dynamics.backends import predictor
from newtongs.dynamics.search import draw, search
from newtongs.dynamics.variants import Variant, choose
from newtongs.physics import Body, Shape
from newtongs.physics.bodies import lowest

G, R = 9.81, 0.27
CHOICES: tuple[Variant, ...] = ("learned", "structured", "analytic")
RESTITUTIONS, HEIGHTS = (0.3, 0.5, 0.75, 0.9), (0.5, 1.0, 2.0)
STEPS = torch.arange(240 * 12 + 1, dtype=torch.float64) / 240
HALF = (0.3, 0.2, 0.12)  # of a box
BOX = torch.cartesian_prod(*(torch.tensor([-a, a]) for a in HALF))


def played(model: Dynamics, z0: Tensor, times: Tensor, shape: Shape | None = None) -> Tensor:
    """States ``(T, 22)`` of one object over the floor in the world; a ball if no shape is given."""
    return Simulation([Body(z0, shape or Shape.ball(R))], model).run(times)[:, 0]


def ball(**fields: object) -> Tensor:
    """A ball of radius 0.27."""
    return make_state(**{"s": (R, R, R), **fields})  # type: ignore[arg-type]


def scale_table() -> Table:
    """How a free scale grows from 0.27: a drop from one unit, and throws in State-32's ranges."""
    table = Table("dynamics", "start", "1 s", "2 s", "3 s", title="a free scale of 0.27 becomes")
    starts = {
        "drop": ball(p=(0, R + 1, 0))[None],
        "1,024 throws": draw(1024, base=ball(p=(0, R, 0))),
    }
    for name in CHOICES:
        for start, z0 in starts.items():
            z = predictor(choose(name))(z0, torch.tensor([0.0, 1.0, 2.0, 3.0]))
            grown = State(z).s[:, 1:].mean((0, 2)).tolist()
            table.add_row(name, start, *(f"{s:.3f} ({s / R:.1f} x)" for s in grown))
    return table


def bounces(z: Tensor) -> list[float]:
    """Speed after each bounce by the speed before it, both at the plane."""
    v, height = State(z.double()).v[:, 1], State(z.double()).p[:, 1] - R
    plane = (v.square() + 2 * G * height).clamp_min(0).sqrt()
    free = (height > 0).tolist()
    ends = [k for k in range(1, len(free)) if free[k] != free[k - 1]]  # into contact, out of it
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return [float(plane[out] / plane[into - 1]) for into, out in pairs if v[into] < -0.3]


def rest_time(z: Tensor) -> float:
    """Seconds until nothing moves any more; infinite if it always does."""
    x = State(z)
    moving = (x.v.abs().sum(-1) + x.w.abs().sum(-1) > 0).nonzero().flatten()
    last = int(moving[-1]) if len(moving) else 0
    return math.inf if last + 1 >= len(z) else float(STEPS[last + 1])


def drop_row(model: Dynamics, e: float) -> list[str]:
    """A straight drop from the three heights: first bounces, drift, spin, rest."""
    first, second, drift, spin, rest = [], [], [], [], []
    for height in HEIGHTS:
        z = played(model, ball(p=(0, R + height, 0), e=e), STEPS)
        ratios = bounces(z)
        first += ratios[:1]
        second += ratios[1:2]
        drift.append(float(State(z).p[-1, ::2].norm()))
        spin.append(float(State(z).w.norm(dim=-1).max()))
        rest.append(rest_time(z))
    return [
        *(f"{min(x):.3f} - {max(x):.3f}" if x else "none" for x in (first, second)),
        f"{max(drift):.3f}",
        f"{max(spin):.2f}",
        " / ".join(f"{t:.1f}" for t in rest),
    ]


def drop_table() -> Table:
    """All choices and restitutions."""
    table = Table(
        "dynamics", "e", "1st bounce", "2nd bounce", "drift", "largest spin", "at rest after s",
        title="straight drop from 0.5, 1 and 2 units, rigid scale, no spin, no speed",
    )  # fmt: skip
    for name in CHOICES:
        for e in RESTITUTIONS:
            table.add_row(name, f"{e:g}", *drop_row(choose(name, "rigid"), e))
    return table


def throw_table() -> Table:
    """A throw v = (2, 3, 0), w = (0, 0, -5) from one unit above the floor, e = 0.75."""
    table = Table(
        "dynamics", "off the parabola", "flight s", "sideways z", "spin at landing", "at rest s",
        title="throw v = (2, 3, 0), w = (0, 0, -5), e = 0.75, rigid scale",
    )  # fmt: skip
    for name in CHOICES:
        z0 = ball(p=(0, R + 1, 0), v=(2, 3, 0), w=(0, 0, -5), e=0.75)
        z = played(choose(name, "rigid"), z0, STEPS)
        x = State(z.double())
        n = int((x.p[:, 1] < R).nonzero()[0]) - 1
        t = STEPS[: n + 1, None]
        exact = x.p[0] + t * x.v[0] + 0.5 * t**2 * torch.tensor([0.0, -G, 0.0])
        off = (x.p[: n + 1] - exact).norm(dim=-1).max()
        spin = ", ".join(f"{w:.2f}" for w in x.w[n].tolist())
        table.add_row(
            name, f"{off:.3f}", f"{STEPS[n]:.2f}", f"{x.p[n, 2]:+.3f}", spin, f"{rest_time(z):.1f}"
        )
    return table


def time_table(candidates: int) -> Table:
    """What a person waits for."""
    table = Table("what", "time", "limit", title=f"{torch.get_num_threads()} threads")
    frames = torch.arange(120) / 24
    for name in CHOICES:
        model, z0 = choose(name, "rigid"), ball(p=(0, R + 1, 0), v=(2, 3, 0), w=(0, 0, -5))
        played(model, z0, frames)
        took = []
        for _ in range(5):
            start = time.perf_counter()
            played(model, z0, frames)
            took.append(time.perf_counter() - start)
        table.add_row(f"{name}: 120 frames of a ball in the world", f"{min(took):.3f} s", "")
    for name in CHOICES:
        model = choose(name, "rigid")
        search(model, base=ball(p=(0, R, 0)), candidates=600)
        start = time.perf_counter()
        found = search(model, base=ball(p=(0, R, 0)), candidates=candidates)
        took_s = time.perf_counter() - start
        table.add_row(
            f"{name}: search of {candidates}, misses by {found.miss:.1e}", f"{took_s:.1f} s", "60"
        )
    return table


def picture_choices(folder: Path) -> None:
    """Scale over time, and a drop from one unit, for the three choices."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    t = STEPS[: 240 * 4]
    for name in CHOICES:
        z = choose(name).rollout(ball(p=(0, R + 1, 0), e=0.75), t).detach()
        left.plot(t, State(z).s[:, 1], label=name)
        z = played(choose(name, "rigid"), ball(p=(0, R + 1, 0), e=0.75), t)
        right.plot(t, State(z).p[:, 1] - R, label=f"{name}, rigid")
    paper = choose("learned").rollout(ball(p=(0, R + 1, 0), e=0.75), t).detach()
    right.plot(t, State(paper).p[:, 1] - R, "k:", label="the paper's engine, free scale")
    left.axhline(R, color="0.6", lw=0.8)
    left.set(title="a free scale", xlabel="s", ylabel="scale")
    right.set(title="centre of a ball dropped, e = 0.75", xlabel="s", ylabel="height above rest")
    left.legend()
    right.legend(fontsize=7)
    figure.savefig(folder / "dynamics_choices.png", dpi=90)


def outline(points: Tensor) -> Tensor:
    """Convex outline ``(n, 2)`` of points ``(K, 3)`` seen along z, closed."""
    angle = torch.linspace(0, 2 * math.pi, 361)
    d = torch.stack([angle.cos(), angle.sin()], -1)
    return points[(points[:, :2] @ d.T).argmax(0), :2]


def picture_contact(folder: Path) -> None:
    """A box thrown: the paper's proxy above, the true shape below."""
    import matplotlib.pyplot as plt

    q = rotations.from_axis_angle(torch.tensor([0.3, 0.2, 1.0]), torch.tensor(0.6))
    z0 = make_state(
        p=(0, 1.0, 0), q=q, v=(1.6, 1.5, 0), w=(0, 0, -5), s=(0.3, 0.2, 0.12), e=0.5, mu=0.2
    )
    model, t = choose("learned", "rigid"), torch.arange(73) / 24
    shape = Shape.box(HALF).turned(q.numpy())
    figure, rows = plt.subplots(
        2, 1, figsize=(9, 4.6), sharex=True, sharey=True, layout="constrained"
    )
    paths = {
        "the paper's engine, a ball of radius |s_y|": model.rollout(z0, t).detach(),
        "the world": played(model, z0, t, shape).float(),
    }
    for axis, (name, z) in zip(rows, paths.items(), strict=True):
        for k in range(0, 73, 6):
            x = State(z[k])
            line = outline(x.p + rotations.rotate(x.q.expand(8, 4), BOX))
            shade = str(0.75 - 0.7 * k / 72)
            axis.plot(*line.T, color=shade, lw=1)
        axis.axhline(0, color="tab:red", lw=0.8)
        low = float(lowest(Body(z0, shape), z).min())
        axis.set(
            title=f"{name}: lowest point reaches {low:+.3f}", aspect="equal", ylim=(-0.25, 1.6)
        )
    figure.savefig(folder / "dynamics_contact.png", dpi=90)


def main() -> None:
    """Print the tables, draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="folder to draw the pictures into")
    parser.add_argument("--candidates", type=int, default=65_536)
    options = parser.parse_args()
    console = Console(width=120)
    for table in (scale_table(), drop_table(), throw_table()):
        console.print(table)
    if options.pictures:
        picture_choices(options.pictures)
        picture_contact(options.pictures)
    if options.candidates:
        console.print(time_table(options.candidates))


if __name__ == "__main__":
    main()

"""Five objects that tumble among thousands of boxes: all are looked at, or those that are near.

Both ways must give the same bits. Then, at some moments of the run, what MuJoCo takes for one tick:
to find the contacts and to solve them.

Run with: python benchmarks/nearby.py [--scene FILE] [--gaussians 500000]
"""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import torch
from common import hardware
from rich.console import Console
from rich.table import Table
from studio import OBJECTS, scene_asked_for, words_of

from newtongs.physics import active_boxes
from newtongs.physics.mujoco_engine import TICKS
from newtongs.pipeline.prepare import Setup
from newtongs.studio import Session
from newtongs.studio.cache import warm
from newtongs.studio.live import LiveRun

STEPS, LOOKS = 300, (90, 110, 130, 150, 180)  # of a sixtieth of a second; when a tick is timed


def thrown(path: Path) -> Setup:
    """Five objects of a scene, thrown up and spinning."""
    session = Session(str(path))
    words = words_of(session)[:OBJECTS]
    for word in words:
        session.pick(word)
    for i in range(len(words)):
        session.push(i, velocity=(0.5 * i - 1, 4.0, 0.2), spin=(1.0, 2.0, 0.0))
    return session.setup


class Run(NamedTuple):
    """What a run took and gave."""

    seconds: float
    states: torch.Tensor
    ticks: list[tuple[int, int, float, float]]
    """Boxes near, contacts, and microseconds to find and to solve them."""


def run(setup: Setup, fewest: int) -> Run:
    """A live run; what is near is looked for from ``fewest`` boxes on."""
    active_boxes.FEWEST = fewest
    live = LiveRun(setup)
    engine: Any = live.simulation._engine
    seconds, states, ticks = 0.0, [], []
    for step in range(STEPS):
        start = time.perf_counter()
        states.append(live.step())
        seconds += time.perf_counter() - start
        if step in LOOKS:
            ticks.append(one_tick(engine))
    return Run(seconds, torch.stack(states), ticks)


def one_tick(engine: Any) -> tuple[int, int, float, float]:
    """Of a copy. What is near is looked for anew, which changes no bit of the run."""
    model, data = engine.model, copy.copy(engine.data)
    if not engine.nearby.update(data, 1 / TICKS):
        raise SystemExit("more boxes are near than there are places for: look at another moment")
    engine.nearby.forget()  # the boxes were written to the copy, and the run needs them too
    mujoco.mj_forward(model, data)
    find = microseconds(lambda: mujoco.mj_collision(model, data))
    mujoco.mj_forward(model, data)
    solve = microseconds(lambda: mujoco.mj_fwdConstraint(model, data))
    return int(engine.nearby.counts.sum()), int(data.ncon), find, solve


def microseconds(work: Callable[[], None], times: int = 300) -> float:
    """Of one call."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return 1e6 * (time.perf_counter() - start) / times


def main() -> None:
    """Print the tables."""
    warm()
    with scene_asked_for(__doc__) as path:
        setup = thrown(path)
    run(setup, 1)  # numba compiles
    every, near = run(setup, 10**9), run(setup, 1)
    console = Console(width=100)
    boxes = len(setup.fixed.surroundings.solids)
    pieces = [len(body.shape.pieces) or 1 for body in setup.bodies if body.shape is not None]
    console.print(f"{path.name}: {boxes:,} boxes, objects of {pieces} pieces")
    ratio, same = every.seconds / near.seconds, torch.equal(every.states, near.states)
    console.print(
        f"{STEPS / 60:g} s of motion on {hardware(torch.device('cpu'))}: all "
        f"{every.seconds:.2f} s, near {near.seconds:.2f} s, {ratio:.1f} times; same bits: {same}"
    )
    table = Table(title="one tick, microseconds; there are 3,840 a second")
    for heading in (
        "after s",
        "boxes near",
        "contacts",
        "found, all boxes",
        "found, those near",
        "solved",
    ):
        table.add_column(heading, justify="right")
    for step, a, b in zip(LOOKS, every.ticks, near.ticks, strict=True):
        table.add_row(
            f"{step / 60:.1f}", str(b[0]), str(b[1]), f"{a[2]:.0f}", f"{b[2]:.0f}", f"{b[3]:.0f}"
        )
    console.print(table)


if __name__ == "__main__":
    main()

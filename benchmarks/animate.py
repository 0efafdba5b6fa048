"""Where the time of ``newtongs animate`` goes: 60,000 Gaussians to film, glb and page.

Run with: python benchmarks/animate.py [--scene FILE] [--gaussians 60000]
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from common import hardware
from rich.console import Console
from rich.table import Table

from newtongs.exports import export
from newtongs.formats.files import save
from newtongs.pipeline.bodies import make_bodies
from newtongs.pipeline.pick import pick
from newtongs.pipeline.place import settle
from newtongs.pipeline.prepare import Setup
from newtongs.pipeline.run import frame_times
from newtongs.pipeline.source import floor_of, open_source
from newtongs.pipeline.spec import SceneSpec
from newtongs.pipeline.surroundings import make_surroundings
from newtongs.samples import template
from newtongs.scene import GaussianScene, join
from newtongs.scene.animation import Animation

BUDGET = 60.0  # seconds in all
PIXELS = 512


class Clock:
    """Seconds of named stages, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def dense_scene(n: int) -> GaussianScene:
    """The park with its ball made of so many smaller Gaussians that there are ``n`` in all.

    The park as it is has 4,736; it never has fewer.
    """
    chosen = template("sunny_park").scene()
    thing, place = chosen.object(0), chosen[chosen.ids < 0]
    pick = torch.randint(len(thing), (max(len(thing), n - len(place)),))
    many = thing[pick]
    spread = many.scales.mean() * torch.randn(len(pick), 3)
    return join(many.replace(means=many.means + spread, log_scales=many.log_scales - 1.5), place)


def run(path: Path, folder: Path, clock: Clock) -> Animation:
    """The steps of :func:`newtongs.pipeline.prepare.prepare`, of a run and of the export."""
    spec, times = SceneSpec(), frame_times(2.0, 24.0)
    with clock("read the file"):
        source = open_source(path)
    with clock("find the floor"):
        floor = floor_of(source)
    with clock("find and take out the object"):
        layout = settle(pick(source, spec, floor), spec)
    with clock("shape of the object"):
        bodies = make_bodies(layout, spec)
    with clock("solid boxes of the scene"):
        fixed = make_surroundings(layout, bodies, spec)
    shapes = tuple(body.shape for body in bodies)
    setup = Setup(source, spec, layout, layout, bodies, fixed, shapes)
    with clock("simulation"):
        states = setup.simulate(times)
    made = setup.animation(times, states)
    began = time.perf_counter()

    def note(what: str, done: int, of: int) -> None:
        nonlocal began
        if done == of:
            name = "draw the frames" if what == "frames" else f"write {what}"
            clock.seconds[name] = time.perf_counter() - began
            began = time.perf_counter()

    export(made, folder, ["mp4", "glb", "html"], size=(PIXELS, PIXELS), progress=note)
    return made


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", type=Path)
    parser.add_argument("--gaussians", type=int, default=60_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = args.scene or folder / "dense.ply"
        if args.scene is None:
            save(dense_scene(args.gaussians), path)
        run(path, folder, Clock())  # numba compiles, or reads what it compiled before
        clock = Clock()
        made = run(path, folder, clock)
    total = sum(clock.seconds.values())
    title = f"{len(made.scene):,} Gaussians, {len(made)} frames, {PIXELS}x{PIXELS}"
    table = Table(title=f"{title} on {hardware(torch.device('cpu'))}")
    for heading in ("stage", "s", "share"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for stage, s in clock.seconds.items():
        table.add_row(stage, f"{s:.3f}", f"{s / total:.0%}")
    table.add_section()
    table.add_row("in all", f"{total:.2f}", f"{total / BUDGET:.0%} of {BUDGET:.0f} s")
    Console(width=80).print(table)


if __name__ == "__main__":
    main()

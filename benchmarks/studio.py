"""The studio with many Gaussians: how long things take, what is sent, and how busy it is.

A second process reads what a browser would be sent. Drawing is the browser's and not counted.

Run with: python benchmarks/studio.py [--scene FILE] [--gaussians 500000]
"""

import argparse
import asyncio
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import hardware
from rich.console import Console
from rich.table import Table

from newtongs.base import rotations
from newtongs.formats.files import save
from newtongs.samples import named_scene
from newtongs.scene import GaussianScene
from newtongs.studio import Session
from newtongs.studio.cache import warm
from newtongs.studio.server import Studio

OBJECTS = 5
LIVE = 5.0  # seconds that are watched
SETTLED = 0.3  # seconds without a byte: all has come
READY, COARSE, EXACT, BUSY, MEMORY = (
    10.0,
    0.1,
    1.0,
    0.3,
    4.0,
)  # what is asked for: s, s, s, cores, GB


def read(url: str, version: str, messages: Any, received: Any) -> None:
    """As a browser: connect, and count what comes."""
    import websockets

    async def loop() -> None:
        options: dict[str, Any] = {"origin": url, "max_size": None}
        protocol = [websockets.Subprotocol(f"viser-v{version}")]
        address = url.replace("http", "ws")
        async with websockets.connect(address, subprotocols=protocol, **options) as connection:
            async for message in connection:
                messages.value += 1
                received.value += len(message)

    asyncio.run(loop())


class Reader:
    """A tab in another process."""

    def __init__(self, url: str) -> None:
        import viser

        fresh = multiprocessing.get_context("spawn")
        self.messages, self.received = fresh.Value("q", 0), fresh.Value("q", 0)
        given = url, viser.__version__, self.messages, self.received
        self.process = fresh.Process(target=read, args=given, daemon=True)
        self.process.start()

    def counts(self) -> tuple[int, int]:
        """Messages and bytes so far."""
        return self.messages.value, self.received.value

    def settled(self) -> float:
        """Wait until nothing comes any more; returns when the last byte came."""
        last, since = -1, time.perf_counter()
        while not last > 0 or time.perf_counter() - since < SETTLED:
            now = self.received.value
            if now != last:
                last, since = now, time.perf_counter()
            time.sleep(0.002)
        return since


class Row(NamedTuple):
    """A line of the table."""

    what: str
    value: str
    wanted: str = ""


def dense_scene(n: int) -> GaussianScene:
    """The bowling lane with every Gaussian made of many smaller ones, ``n`` in all."""
    lane = named_scene("bowling").scene()
    many = lane[torch.arange(n) % len(lane)]
    spread = rotations.rotate(many.quats, 0.5 * many.scales * torch.randn(n, 3))
    return many.replace(means=many.means + spread, log_scales=many.log_scales - 1.0)


class Took(NamedTuple):
    """What something took."""

    seconds: float
    """Until the tab had all of it."""
    busy: float
    """Seconds of the processor, which others on the machine do not lengthen."""
    megabytes: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.busy:.2f} busy), {self.megabytes:.1f} MB"


def timed(studio: Studio, work: Callable[[], None], reader: Reader) -> Took:
    """Do something as the page does it."""
    _, before = reader.counts()
    start, busy = time.perf_counter(), time.process_time()
    studio.page.attempt(work)
    end, busy = time.perf_counter(), time.process_time() - busy
    came = reader.settled()
    if "#d33" in studio.page.panel.message.content:
        raise SystemExit(studio.page.panel.message.content)
    return Took(max(end, came) - start, busy, (reader.counts()[1] - before) / 1e6)


def open_source(path: Path) -> tuple[Studio, Reader, list[Row]]:
    """A studio and a tab that has all of its scene."""
    start = time.perf_counter()
    session = Session(str(path))
    studio = Studio(session, port=0)
    own = time.perf_counter() - start
    reader = Reader(studio.url)
    while not reader.received.value:
        time.sleep(0.002)
    begun = time.perf_counter()
    sent = reader.settled() - begun
    size = reader.counts()[1] / 1e6
    rows = [
        Row("open: read, find floor and objects", f"{own:.2f} s"),
        Row("open: send all to a tab", f"{sent:.2f} s, {size:.0f} MB"),
        Row("page ready", f"{own + sent:.2f} s", f"{READY:g} s"),
    ]
    return studio, reader, rows


def words_of(session: Session) -> list[str]:
    """Objects that the file marks, or those that were found."""
    marked = [f"id:{i}" for i in session.scene.object_ids if i >= 0]
    return marked or [f"cluster:{c.id}" for c in session.clusters]


def picked(studio: Studio, reader: Reader) -> list[Row]:
    """Objects picked one after the other."""
    rows: list[Row] = []
    for k, word in enumerate(words_of(studio.page.open_session)[:OBJECTS]):
        took = timed(studio, partial(studio.page.picking.add, word), reader)
        rows.append(Row(f"pick object {k} ({word})", str(took)))
        if k in (0, OBJECTS - 1):
            rows += pulled(studio, reader)
    return rows


def pulled(studio: Studio, reader: Reader) -> list[Row]:
    """Paths of an arrow that is pulled and let go."""
    page, rough, exact = studio.page, [], []
    for k in range(5):
        page.overlays.pull.position = page.overlays.pull.position + 0.02 * (k + 1)
        rough.append(timed(studio, page.push_panel.pull, reader))
        exact.append(timed(studio, page.push_panel.let_go, reader))
    among = f"{len(page.view.objects)} objects" if len(page.view.objects) > 1 else "one object"
    return [
        Row(f"coarse path, {among}, slowest of 5", str(max(rough)), f"{COARSE:g} s"),
        Row(f"exact path, {among}, slowest of 5", str(max(exact)), f"{EXACT:g} s"),
    ]


def lived(studio: Studio, reader: Reader) -> list[Row]:
    """The live run, while it moves."""
    page = studio.page
    for i in range(len(page.view.objects)):
        page.open_session.push(i, velocity=(0.5 * i - 1, 4.0, 0.2), spin=(1.0, 2.0, 0.0))
    page.refresh(0)
    reader.settled()
    page.playing.on_live(None)
    before, wall, busy = reader.counts(), time.perf_counter(), time.process_time()
    time.sleep(LIVE)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    messages, received = (b - a for a, b in zip(before, reader.counts(), strict=True))
    steps = page.open_session.time * 60 / wall
    page.stop()
    return [
        Row(f"live, {len(page.view.objects)} objects: steps a second", f"{steps:.1f}", "60"),
        Row("live: of one core", f"{busy / wall:.0%}", f"{BUSY:.0%}"),
        Row("live: messages a second", f"{messages / wall:.0f}"),
        Row("live: kB a second", f"{received / wall / 1e3:.1f}"),
    ]


def measured(path: Path) -> tuple[int, list[Row]]:
    """All of it, for one scene."""
    warm()  # numba compiles, or reads what it compiled before
    studio, reader, rows = open_source(path)
    rows += picked(studio, reader)
    rows += lived(studio, reader)
    reader.process.terminate()
    studio.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gb = peak / (1e6 if sys.platform != "darwin" else 1e9)
    rows.append(Row("peak memory", f"{gb:.2f} GB", f"{MEMORY:g} GB"))
    return len(studio.page.open_session.scene), rows


@contextmanager
def scene_asked_for(description: str | None) -> Iterator[Path]:
    """The file of ``--scene``, or one of our own scenes with so many Gaussians."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scene", type=Path)
    parser.add_argument("--gaussians", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        path = args.scene or Path(name) / "dense.ply"
        if args.scene is None:
            save(dense_scene(args.gaussians), path)
        yield path


def main() -> None:
    """Print the table."""
    with scene_asked_for(__doc__) as path:
        count, rows = measured(path)
    words = f"{path.name}, {count:,} Gaussians, on {hardware(torch.device('cpu'))}"
    table = Table(title=words)
    for heading in ("what", "measured", "asked for"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()

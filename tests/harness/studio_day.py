"""The studio used for hours: memory, twenty times in a row.

    python tests/harness/studio_day.py --actions 2000

The actions are those of the page, run on viser's threads as a browser's clicks are, with a tab in
another process that takes what is sent. Prints resident memory, and how many of viser's messages
are kept for tabs that come later.
"""

import argparse
import random
import re
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "benchmarks")]

SCENES = ("sunny_park", "desk_blue_sphere", "bowling", "studio_tabletop")
SEED = 31
THREADS = 16
GROWTH = 200  # MB that memory may grow after the first fifth of the actions


def resident() -> int:
    """Megabytes of this process."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024


class User:
    """Does what a person does, at random and seeded."""

    def __init__(self, studio: Any) -> None:
        self.page, self.pool = studio.page, studio.server._thread_executor
        camera = SimpleNamespace(position=(2.0, 1.5, 3.0), wxyz=(1.0, 0, 0, 0), fov=0.9, aspect=1.5)
        sink = SimpleNamespace(camera=camera, send_file_download=lambda *_, **__: None)
        self.event = SimpleNamespace(client=sink)
        self.random = random.Random(SEED)
        started = threading.Barrier(THREADS + 1)  # all of viser's threads, as events at once do
        for _ in range(THREADS):
            self.pool.submit(started.wait)
        started.wait()
        self.count = 0

    def act(self) -> None:
        """One action; every twentieth opens a scene, every twenty-fifth exports."""
        page, self.count = self.page, self.count + 1
        if self.count % 20 == 1 or page.session is None:
            page.panel.scene.value = self.random.choice([s for s in SCENES if s != page.shown])
            self.run(page.opening.on_scene)
        elif self.count % 25 == 0 and page.session.recipe.pushes:
            self.run(page.export_panel.on_export, guarded=False)
        else:
            self.run(getattr(self, self.random.choice(("pick", "drop", "push", "seek", "live"))))

    def run(self, do: Any, *, guarded: bool = True) -> None:
        """On a thread of viser's, as its events are."""
        self.pool.submit(self.page.guarded(do) if guarded else do, self.event).result()

    def pick(self, event: Any) -> None:
        """Pick an object that the scene's file marks."""
        scene = self.page.open_session.scene
        ids = sorted(set(scene.ids[scene.ids >= 0].tolist()))
        if ids:
            self.page.picking.add(f"id:{self.random.choice(ids)}")

    def drop(self, event: Any) -> None:
        """Give the selected object back."""
        page = self.page
        if page.selected is not None and len(page.open_session.recipe.pushes) > 1:
            page.panel.deselect.value = "Deselect"
            page.open_session.drop(page.selected)
            page.reshow(page.selected)

    def push(self, event: Any) -> None:
        """Change the velocity of the selected object."""
        if self.page.selected is not None:
            velocity = tuple(round(self.random.uniform(-2, 2), 2) for _ in range(3))
            self.page.panel.velocity.value = velocity
            self.page.push_panel.on_push(event)

    def seek(self, event: Any) -> None:
        """Look at another frame."""
        if self.page.open_session.recipe.pushes:
            self.page.panel.frame.value = self.random.randrange(20)
            self.page.playing.on_frame(event)

    def live(self, event: Any) -> None:
        """Play for a moment."""
        if self.page.open_session.recipe.pushes:
            self.page.playing.on_play(event)
            time.sleep(0.05)
            self.page.stop()


def main() -> None:
    """Act, and print the table; ends with code 1 where memory grows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actions", type=int, default=2000)
    sys.exit(day(parser.parse_args().actions))


def day(actions: int) -> int:
    """0 where memory is flat."""
    from studio import Reader

    from newtongs.base.process import keep_freed
    from newtongs.studio.server import Studio

    keep_freed()  # as the command does
    studio = Studio(port=0)
    reader = Reader(studio.url)
    user = User(studio)
    table, start = [], time.monotonic()
    print("| actions | memory, MB | messages kept | seconds |\n|---|---|---|---|")
    for number in range(1, actions + 1):
        user.act()
        if number % max(actions // 20, 1) == 0 or number == actions:
            table.append(resident())
            kept = len(studio.server._websock_server._broadcast_buffer.message_from_id)
            seconds = time.monotonic() - start
            print(f"| {number:,} | {table[-1]:,} | {kept:,} | {seconds:.0f} |", flush=True)
    reader.process.kill()
    studio.close()
    warm = table[len(table) // 5]
    return int(max(table[len(table) // 5 :]) > warm + GROWTH)


if __name__ == "__main__":
    main()

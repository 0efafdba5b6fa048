"""How well the flow carries the pictures of films as the factory makes them, scene by scene.

Frame t + 1 is fetched along the stored flow, by a cubic spline, and compared with frame t on the
object pixels that the labels call visible, in dB: of the pictures as they are drawn, which
``rgb = "webp"`` keeps, and of the decoded mp4 of both kinds. The films are those of the spec, one
after the other: attempts that the factory refuses are drawn anew, cameras go as the spec says, and
all with the seed that is given. Views that miss what is asked for are listed, and can be looked at
without gloss or larger, if the factory keeps the same attempt then. ``factory_warp.py`` looks for
what else keeps single views from more.

Run with: python benchmarks/factory_films.py [--spec small] [--renderer steady] [--without-gloss]
          [--count 40] [--films 83 98 ...] [--seed 1] [--size 256] [--workers 1] [--every 4]
          [--json FILE]
"""

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from factory_warp import (
    ASKED,
    CODED,
    Tally,
    chosen_size,
    decoded,
    loader,
    matches_of,
    off_in,
)
from rich.console import Console
from rich.progress import track
from rich.table import Table

from newtongs.factory.labels import ViewLabels
from newtongs.factory.sample import Clock, make_sample
from newtongs.factory.scenes import find_scenes
from newtongs.factory.spec import Spec, load_spec

DRAWN = "drawn"
KINDS = (DRAWN, *CODED)
ALL = "all"


class Maker:
    """Makes films of a spec and measures them; scenes are prepared once."""

    def __init__(self, spec: Spec, home: Path, every: int) -> None:
        torch.set_num_threads(1)
        self.spec, self.every, self.scenes = spec, every, find_scenes(spec, home)
        self.load = loader(spec, self.scenes)

    def judged(self, number: int) -> list[dict[str, Any]]:
        """A row a view; none if the factory gives the film up, or no frame shows an object."""
        sample = make_sample(self.spec, self.scenes, number, self.load, Clock(), keep=True)
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            for i, view in enumerate(sample.views):
                path = sample.row["views"].split("+")[i]
                found = decibels(view, self.spec.fps, self.every, Path(folder))
                if found:
                    named = {"film": number, "scene": sample.row["scene"], "path": path}
                    rows.append(named | found)
        return rows


def decibels(view: ViewLabels, fps: float, every: int, folder: Path) -> dict[str, float]:
    """PSNR by kind of picture; nothing if no frame that is looked at shows an object."""
    films = {DRAWN: view.rgb} | {kind: decoded(view.rgb, fps, kind, folder) for kind in CODED}
    tally = Tally()
    for t in range(1 % every, len(view.flow), every):
        matches = matches_of(view, view.visible, t)
        for kind, film in films.items():
            tally.add(kind, off_in(film[t : t + 2] / 255.0, 0, matches))
    return tally.decibels()


maker: Maker


def begin(*given: Any) -> None:
    """In a process of the pool."""
    global maker
    maker = Maker(*given)


def judge(number: int) -> list[dict[str, Any]]:
    """In a process of the pool."""
    return maker.judged(number)


def all_judged(
    spec: Spec, home: Path, every: int, workers: int, numbers: Sequence[int]
) -> list[dict[str, Any]]:
    """A row a view, film after film."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, begin, (spec, home, every)) as pool:
        told = Console(stderr=True)
        films = track(pool.map(judge, numbers), "films", len(numbers), console=told)
        return [row for rows in films for row in rows]


def cells(rows: list[dict[str, Any]], kind: str) -> tuple[str, ...]:
    """How many views reach what is asked for, all of them together, and the least of them."""
    found = np.array([row[kind] for row in rows])
    together = -10 * np.log10(np.mean(10 ** (-found / 10)))
    return f"{(found >= ASKED).sum()}", f"{together:.1f}", f"{found.min():.1f}"


def shown(rows: list[dict[str, Any]], spec: Spec) -> Table:
    """A row a scene: how many views reach it, the mean squared error of all, and the least."""
    gloss = "" if spec.gloss else ", no gloss"
    size = f"{spec.size[0]} x {spec.size[1]}"
    title = f"dB of a frame warped by the flow; {spec.renderer}{gloss}, {size}, seed {spec.seed}"
    table = Table(title=title)
    table.add_column("scene")
    said = f"{ASKED:g} dB", "all", "least"
    for column in ("views", *(f"{kind}, {word}" for kind in KINDS for word in said)):
        table.add_column(column, justify="right")
    for scene in (*sorted({row["scene"] for row in rows}), ALL):
        its = [row for row in rows if scene in (row["scene"], ALL)]
        found = (cell for kind in KINDS for cell in cells(its, kind))
        table.add_row(scene, str(len(its)), *found)
    return table


def main() -> None:
    """Make, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", default="small")
    parser.add_argument("--renderer", default="steady", choices=["steady", "ewa"])
    parser.add_argument("--without-gloss", action="store_true", help="gloss = false in the spec")
    parser.add_argument("--count", type=int, default=40, help="films")
    parser.add_argument("--films", type=int, nargs="*", help="only these")
    parser.add_argument("--size", type=int, help="pixels a side; default: the spec's")
    parser.add_argument("--seed", type=int, help="default: the spec's")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--every", type=int, default=4, help="of how many frames one is compared")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args()
    spec, home = load_spec(args.spec, renderer=args.renderer, gloss=not args.without_gloss)
    spec = replace(chosen_size(spec, args.seed, args.size), count=args.count)
    numbers = args.films or range(spec.count)
    rows, console = all_judged(spec, home, args.every, args.workers, numbers), Console()
    if not rows:
        console.print("no film was made, or none shows an object")
        return
    console.print(shown(rows, spec))
    for row in rows:
        if row[DRAWN] < ASKED:
            console.print(f"film {row['film']}, {row['scene']}, {row['path']}: {row[DRAWN]:.1f} dB")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

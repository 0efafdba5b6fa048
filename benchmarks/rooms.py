"""Rooms full of things: is up right, is the floor, each thing found as one, does a click take it.

The rooms are those of tests/furnished_rooms.py: ten, with 15 things each. Poses turn, enlarge (0.01
to 100) and shift them at random.

Run with: python benchmarks/rooms.py [--rooms NAME ...] [--poses 20] [--clicks 50] [--sheets FOLDER]
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import torch
from compositions import ASSETS, Composed, errors, posed  # type: ignore[import-not-found]
from furnished_rooms import ROOMS, furnished  # type: ignore[import-not-found]
from rich.console import Console
from rich.table import Table
from torch import Tensor

from newtongs.pipeline.source import Source, floor_of
from newtongs.segment import cluster

DEGREES, MISS = 3.0, 0.1  # of a right answer; the second over the height of the things
ONE = 0.7  # intersection over union from which a thing is found as one
SHARE = 0.5  # of a thing, from which a cluster holds it


class Found(NamedTuple):
    """What became of the things of a room."""

    one: int
    merged: int
    split: int
    missed: int


def judged(ids: Tensor, masks: list[Tensor]) -> Found:
    """Count the things of ``ids (N,)``: found as one, merged with others, split, missed."""
    names = sorted(set(ids[ids >= 0].tolist()))
    truth = torch.stack([ids == i for i in names]).double()
    found = torch.stack(masks).double() if masks else truth.new_zeros(0, truth.shape[1])
    shared = truth @ found.T
    size, of_found = truth.sum(1, keepdim=True), found.sum(1)
    one = (shared / (size + of_found - shared) > ONE).any(1)
    holds = shared > SHARE * size
    merged = ~one & (holds & (holds.sum(0) > 1)).any(1)
    parts = (shared > 0.5 * of_found) & (shared > 0.1 * size)
    split = ~one & ~merged & (parts.sum(1) > 1)
    return Found(
        int(one.sum()), int(merged.sum()), int(split.sum()), int((~one & ~merged & ~split).sum())
    )


def row(name: str, truth: Composed) -> dict[str, Any]:
    """One line of the table."""
    ids = truth.scene.ids
    scene = truth.scene.replace(ids=torch.full_like(ids, -1))
    start = time.perf_counter()
    floor = floor_of(Source(scene, None, False))
    degrees, miss = errors(truth, floor.up, floor.height)
    clusters = cluster(scene, floor.carrying)
    return {
        "room": name, "up": degrees < DEGREES, "floor": miss < MISS, "score": floor.score,
        "sure": not floor.doubt, "found": judged(ids, [c.mask for c in clusters]),
        "clusters": len(clusters), "seconds": time.perf_counter() - start,
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS))
    parser.add_argument("--poses", type=int, default=0)
    args = parser.parse_args()
    table = Table()
    for heading in (
        "room",
        "up",
        "floor",
        "score",
        "sure",
        "one",
        "merged",
        "split",
        "missed",
        "clusters",
        "s",
    ):
        table.add_column(heading, justify="left" if heading == "room" else "right")
    sums, ups, floors, n = torch.zeros(4), 0, 0, 0
    random = torch.Generator().manual_seed(0)
    for name in args.rooms:
        if name == "kitchen_floor" and not (ASSETS / "kitchen.spz").exists():
            continue
        truth = furnished(name)
        for k in range(max(args.poses, 1)):
            r = row(name, posed(truth, random) if args.poses else truth)
            sums += torch.tensor(r["found"])
            ups, floors, n = ups + r["up"], floors + r["floor"], n + 1
            if not args.poses or not (r["up"] and r["floor"]):
                table.add_row(
                    f"{name} {k}" if args.poses else name,
                    "yes" if r["up"] else "NO", "yes" if r["floor"] else "NO",
                    f"{r['score']:.2f}", "yes" if r["sure"] else "no", *map(str, r["found"]),
                    str(r["clusters"]), f"{r['seconds']:.1f}",
                )  # fmt: skip
    total = int(sums.sum())
    table.add_row(
        "all", f"{ups}/{n}", f"{floors}/{n}", "", "", *(f"{int(x)}/{total}" for x in sums)
    )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

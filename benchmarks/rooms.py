"""Rooms full of things: is up right, is the floor, each thing found as one, does a click take it.

The rooms are those of tests/furnished_rooms.py: ten, with 15 things each. Poses turn, enlarge (0.01
to 100) and shift them at random.

Clicks are rays from random sides to random Gaussians of random things, as long as the ray meets
that thing first. A click is right if it takes the thing, or right after one step if the larger
whole or the part under the pointer is the thing.

Run with: python benchmarks/rooms.py [--rooms NAME ...] [--poses 20] [--clicks 50]
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
from newtongs.scene import GaussianScene
from newtongs.segment import cluster
from newtongs.segment.objects.clusters import Cluster
from newtongs.segment.objects.hierarchy import wholes
from newtongs.segment.objects.parts import divided
from newtongs.segment.objects.rays import struck

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


def like(ids: Tensor, thing: int, rows: Tensor) -> bool:
    """Whether the Gaussians ``rows`` are a thing."""
    shared = int((ids[rows] == thing).sum())
    return shared > ONE * (len(rows) + int((ids == thing).sum()) - shared)


def clicked(
    truth: Composed, scene: GaussianScene, clusters: list[Cluster], up: Tensor, count: int
) -> tuple[int, int, int]:
    """Clicks that take the right thing at once, and after one step; and all clicks."""
    random, ids = torch.Generator().manual_seed(1), truth.scene.ids
    names = sorted(set(ids[ids >= 0].tolist()))
    made = once = later = 0
    for _ in range(20 * count):
        if made == count:
            break
        thing = names[int(torch.randint(len(names), (), generator=random))]
        rows = (ids == thing).nonzero().squeeze(-1)
        goal = scene.means[rows[int(torch.randint(len(rows), (), generator=random))]].double()
        side = torch.nn.functional.normalize(
            torch.randn(3, generator=random, dtype=torch.float64), dim=0
        )
        way = torch.nn.functional.normalize(side - (0.4 + side @ up) * up, dim=0)  # from above
        row = struck(scene, goal - 6 * truth.size * way, way)
        if row is None or int(ids[row]) != thing:
            continue
        made += 1
        hit = next((c for c in clusters if bool((c.rows == row).any())), None)
        if hit is None:
            continue
        if like(ids, thing, hit.rows):
            once += 1
            continue
        larger = wholes(scene, clusters, hit.id)[:1]
        tried = [torch.cat([clusters[i].rows for i in each]) for each in larger]
        parts = divided(scene, hit.rows)
        tried += [] if parts is None else [p for p in parts.parts if bool((p == row).any())]
        later += any(like(ids, thing, each) for each in tried)
    return once, later, made


def row(name: str, truth: Composed, clicks: int) -> dict[str, Any]:
    """One line of the table."""
    ids = truth.scene.ids
    scene = truth.scene.replace(ids=torch.full_like(ids, -1))
    start = time.perf_counter()
    floor = floor_of(Source(scene, None, False))
    degrees, miss = errors(truth, floor.up, floor.height)
    clusters = cluster(scene, floor.carrying)
    seconds = time.perf_counter() - start
    return {
        "room": name, "up": degrees < DEGREES, "floor": miss < MISS, "score": floor.score,
        "sure": not floor.doubt, "found": judged(ids, [c.mask for c in clusters]),
        "clusters": len(clusters), "seconds": seconds,
        "clicks": clicked(truth, scene, clusters, floor.up, clicks),
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS))
    parser.add_argument("--poses", type=int, default=0)
    parser.add_argument("--clicks", type=int, default=0)
    args = parser.parse_args()
    headings = "room;up;floor;score;sure;one;merged;split;missed;clusters;s;clicks"
    table = Table()
    for heading in headings.split(";"):
        table.add_column(heading, justify="left" if heading == "room" else "right")
    sums, ups, floors, n = torch.zeros(4), 0, 0, 0
    clicks, unsure = torch.zeros(3), 0
    random = torch.Generator().manual_seed(0)
    for name in args.rooms:
        if name == "kitchen_floor" and not (ASSETS / "kitchen.spz").exists():
            continue
        truth = furnished(name)
        for k in range(max(args.poses, 1)):
            seed = int(torch.randint(2**31, (), generator=random))
            r = row(name, posed(truth, seed) if args.poses else truth, args.clicks)
            sums += torch.tensor(r["found"])
            clicks += torch.tensor(r["clicks"])
            ups, floors, n = ups + r["up"], floors + r["floor"], n + 1
            unsure += not (r["up"] and r["floor"]) and not r["sure"]
            if not args.poses or not (r["up"] and r["floor"]):
                once, later, made = r["clicks"]
                table.add_row(
                    f"{name} {k}" if args.poses else name,
                    "yes" if r["up"] else "NO", "yes" if r["floor"] else "NO",
                    f"{r['score']:.2f}", "yes" if r["sure"] else "no", *map(str, r["found"]),
                    str(r["clusters"]), f"{r['seconds']:.1f}", f"{once}+{later}/{made}",
                )  # fmt: skip
    total = int(sums.sum())
    once, later, made = (int(x) for x in clicks)
    table.add_row(
        "all", f"{ups}/{n}", f"{floors}/{n}", "", f"{unsure} doubted",
        *(f"{int(x)}/{total}" for x in sums), "", "", f"{once}+{later}/{made}",
    )  # fmt: skip
    Console(width=130).print(table)


if __name__ == "__main__":
    main()

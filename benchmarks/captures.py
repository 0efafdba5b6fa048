"""Captures and composed scenes: is up right, the floor, the object; ghosts, hole, time, memory.

Floor, object and its taking out are those of ``newtongs animate`` without any flag.

Run with: python benchmarks/captures.py [--assets FOLDER] [--trials 200] [--sheets FOLDER]
     and: python benchmarks/captures.py --worse 1000

The compositions are those of tests/compositions.py. Trials turn, enlarge (0.01 to 100) and shift
them at random. Each scene runs in a process of its own, for its peak of memory.

With --worse the compositions and the rooms of tests/furnished_rooms.py are made into worse captures
first: cut, thinned, noisy, with floaters. Up and floor are wrong more often then, and what counts
is how many of the floors that are found without a doubt are right.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import torch
from compositions import (  # type: ignore[import-not-found]
    ASSETS,
    HELD_BACK,
    OF_CAPTURES,
    RECIPES,
    Composed,
    composed,
    errors,
    posed,
    worsened,
)
from furnished_rooms import ROOMS, furnished  # type: ignore[import-not-found]
from rich.console import Console
from rich.table import Table

from newtongs.formats import load
from newtongs.pipeline.pick import main_object
from newtongs.pipeline.prepare import main_frame
from newtongs.pipeline.source import Source, floor_of
from newtongs.pipeline.spec import SceneSpec
from newtongs.render import write_png
from newtongs.scene import GaussianScene
from newtongs.scene.gaussians import join
from newtongs.scene.world_frame import WorldFrame
from newtongs.segment import cluster, find_floor
from newtongs.segment.cutout.extraction import Extraction, take_out
from newtongs.segment.floor.finding import FloorPlane, plane_axes
from newtongs.views.overview import alternatives, overview

DEGREES, MISS = 3.0, 0.02  # of a right answer; the second over the object's size
MISS_WORSE = 0.1  # the same for worse captures, whose floors are noisy
LIKE = 0.8  # intersection over union from which a selection is the object
HULL = 24  # voxels along an object, in which what is left of it is counted
HOLE = 32  # cells along an object's footprint
LEVEL = 0.03  # of an object's height: so near to the plane of its support a Gaussian covers it
DOWN = torch.tensor([0.0, -1.0, 0.0])
# What a person sees in the captures: the height of the floor along -y, where there is one, and the
# height above which all belongs to the object. The robot hovers, and its hands beside it.
KNOWN = {
    "banana.ply": (None, None), "unicorn_stuffy.ply": (None, None),
    "narcissus.compressed.ply": (None, 0.03), "narcissus.sog": (None, 0.03),
    "narcissus.spz": (None, 0.03), "playbot.sog": (0.018, 0.15),
}  # fmt: skip


def made(name: str, assets: Path) -> Composed:
    """A composition, or a capture with what is known of it."""
    if name not in KNOWN:
        return composed(name)
    height, above = KNOWN[name]
    scene = load(assets / name)
    x = scene.means.double() @ DOWN.double()
    size = float(x.quantile(0.98) - x.quantile(0.02))
    floors = (float(x.quantile(0.002)) if height is None else height,)
    ids = torch.where(x > (-torch.inf if above is None else above), 0, -1)
    scene = scene.replace(ids=ids.to(scene.ids))
    return Composed(scene, size=size, up=DOWN, floors=floors, alone=height is None)


def row(name: str, assets: Path, sheets: Path | None) -> dict[str, Any]:
    """One line of the table."""
    truth = made(name, assets)
    scene = truth.scene.to("cpu").replace(ids=torch.full_like(truth.scene.ids, -1))
    torch.set_num_threads(2)
    start = time.perf_counter()
    floor = floor_of(Source(scene, None, False))
    found_in = time.perf_counter() - start
    chosen = main_object(scene, floor.carrying)
    mask = torch.zeros(len(scene), dtype=torch.bool) if chosen is None else chosen.mask
    out = take_out(scene, mask, floor.carrying)
    seconds = time.perf_counter() - start
    degrees, miss = errors(truth, floor.up, floor.height)
    if sheets is not None:
        draw(scene, floor, cluster(scene, floor.carrying), sheets / f"{name}.png")
    kept = ~out.mask & ~out.hidden
    return {
        "scene": name, "gaussians": len(scene), "up": degrees < DEGREES,
        "floor": miss < (0.05 if truth.alone else MISS), "sure": not floor.doubt,
        "kind": "plinth" if floor.plinth else floor.kind, "score": floor.score,
        "object": object_right(truth, out.mask | (mask & out.hidden)),  # what was shortened too
        "ghosts": [ghosts(scene, out, left, floor.carrying) for left in (~mask, kept)],
        "hole": holes(scene, mask, out, floor.carrying), "find": found_in, "seconds": seconds,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def object_right(truth: Composed, mask: torch.Tensor) -> bool | None:
    """Whether what is taken out is one of the right objects; None where none is known."""
    if not truth.objects:
        return None
    ids = truth.scene.ids
    wanted = [torch.stack([ids == i for i in each]).any(0) for each in truth.objects]
    return max(float((mask & w).sum() / (mask | w).sum()) for w in wanted) > LIKE


def ghosts(scene: GaussianScene, out: Extraction, left: torch.Tensor, floor: FloorPlane) -> int:
    """Gaussians ``left`` above the support, within voxels that the object fills or encloses."""
    from scipy import ndimage

    x, mask = scene.means.double(), out.mask
    if not mask.any():
        return 0
    h, level = heights(x, out, floor), thickness(heights(x[mask], out, floor), out, floor)
    low, high = x[mask].quantile(0.002, dim=0), x[mask].quantile(0.998, dim=0)
    size = float((high - low).amax()) / HULL
    cells = ((x - low) / size).floor().long() + 1
    inside = ((cells >= 0) & (cells < HULL + 3)).all(-1)
    filled = torch.zeros(HULL + 3, HULL + 3, HULL + 3, dtype=torch.bool)
    filled[tuple(cells[mask & inside].T)] = True
    hull = torch.from_numpy(ndimage.binary_fill_holes(ndimage.binary_closing(filled.numpy())))
    left = inside & left & ~mask & (h > level) & (scene.opacities > 0.05)
    return int(hull[tuple(cells[left].T)].sum())


def holes(
    scene: GaussianScene, mask: torch.Tensor, out: Extraction, floor: FloorPlane
) -> list[float] | None:
    """Parts of the footprint that nothing covers: the selection taken away, and then mended."""
    if out.support is None or not out.mask.any():
        return None
    before = scene[~(mask | out.mask)]
    after = join(scene[~out.mask & ~out.hidden], out.fill)
    thing = join(scene[out.mask], out.own)
    return [hole(thing, left, out, floor) for left in (before, after)]


def hole(thing: GaussianScene, left: GaussianScene, out: Extraction, floor: FloorPlane) -> float:
    """Part of the thing's footprint through which one sees its support's level."""
    h, flat = heights(thing.means, out, floor), thing.means.double() @ plane_axes(floor.up)
    low, high = flat.quantile(0.002, dim=0), flat.quantile(0.998, dim=0)
    size = float((high - low).amax()) / HOLE
    foot = torch.unique(((flat[h < 0.1 * h.quantile(0.98)] - low) / size).floor(), dim=0)
    cells = low + (foot + 0.5) * size
    ground = heights(left.means, out, floor).abs() <= thickness(h, out, floor)
    return float((seen_through(left[ground], cells, floor) > 0.5).double().mean())


def seen_through(ground: GaussianScene, at: torch.Tensor, floor: FloorPlane) -> torch.Tensor:
    """How much of what is below shows at places ``(n, 2)`` of a ground, seen from above."""
    x, sigma = ground.means.double() @ plane_axes(floor.up), ground.scales.double().median(-1)[0]
    reach = 3 * sigma[:, None]
    near = ((x > at.amin(0) - reach) & (x < at.amax(0) + reach)).all(-1)
    x, sigma, opacity = x[near], sigma[near], ground.opacities.double()[near]
    light = [
        (1 - opacity * torch.exp(-0.5 * ((some[:, None] - x) / sigma[:, None]).square().sum(-1)))
        .prod(-1)
        for some in at.split(64)
    ]  # fmt: skip
    return torch.cat(light)


def heights(x: torch.Tensor, out: Extraction, floor: FloorPlane) -> torch.Tensor:
    """Of points ``(N, 3)`` above what the object stood on, or above the floor if it hung."""
    x = WorldFrame.of_floor(floor.up, floor.height).to_physics(x.double())
    return x[:, 1] if out.support is None else torch.from_numpy(out.support.above(x.numpy()))


def thickness(h: torch.Tensor, out: Extraction, floor: FloorPlane) -> float:
    """How far from its plane a Gaussian belongs to the support of a thing with heights ``h``."""
    rough = floor.thickness if out.support is None else 3 * out.support.spread
    return max(rough, LEVEL * float(h.quantile(0.98)))


def draw(scene: GaussianScene, floor: FloorPlane, clusters: list, path: Path) -> None:  # type: ignore[type-arg]
    """Its picture as ``newtongs inspect`` draws it."""
    world = main_frame(Source(scene, None, ours=False), SceneSpec(), floor)
    picture = overview(scene, world, clusters[:10], size=(640, 480)).picture
    if floor.doubt:
        other = alternatives(scene, [floor, *floor.alternatives][:4], size=160)
        other = torch.nn.functional.pad(other.permute(2, 0, 1), (0, 640 - other.shape[1]), value=1)
        picture = torch.cat([picture, other.permute(1, 2, 0)])
    write_png(path, picture)


def in_own_process(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """A line of the table, made by a fresh process."""
    words = [sys.executable, "-W", "ignore", __file__, "--one", name, "--assets", str(args.assets)]
    words += [] if args.sheets is None else ["--sheets", str(args.sheets)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(rows: list[dict[str, Any]]) -> Table:
    """For people."""
    shown = Table(title="right or wrong; ? where it says that it is not sure")
    headings = "scene;Gaussians;up;floor;object;ghosts;hole;floor found, s;all, s;GB"
    for heading in headings.split(";"):
        shown.add_column(heading, justify="left" if heading == "scene" else "right")
    for r in rows:
        mark = {True: "right", False: "wrong", None: "-"}
        doubt = "" if r["sure"] else "?"
        hole_ = "-" if r["hole"] is None else "{:.0%} to {:.0%}".format(*r["hole"])
        shown.add_row(
            r["scene"], f"{r['gaussians']:,}", mark[r["up"]] + doubt,
            f"{mark[r['floor']]} ({r['kind']})", mark[r["object"]],
            "{} to {}".format(*r["ghosts"]), hole_,
            *(f"{r[word]:.2f}" for word in ("find", "seconds", "memory")),
        )  # fmt: skip
    return shown


def trials(count: int, names: list[str]) -> None:
    """Random poses of the scenes that have a floor; what went wrong is printed."""
    right = doubted = 0
    for i in range(count):
        truth = posed(composed(names[i % len(names)]), 1000 + i)
        floor = find_floor(truth.scene)  # as floor_of; marks of objects are not looked at
        degrees, miss = errors(truth, floor.up, floor.height)
        good = degrees < DEGREES and miss < MISS
        right, doubted = right + good, doubted + bool(floor.doubt and not good)
        if not good:
            where = f"{names[i % len(names)]}, pose {1000 + i}"
            print(f"{where}: up {degrees:.1f} degrees, floor {miss:.3f}; {floor.doubt or 'SURE'}")
    print(f"{count} trials: {right} right ({right / count:.1%}), {doubted} of the others say so")


def worse(count: int, first: int) -> None:
    """Of worse captures: how often a floor that is found for sure is right, and one in doubt."""
    names = [n for n in (*RECIPES, *HELD_BACK) if not composed(n).alone] + list(ROOMS)
    names = [name for name in names if name != "kitchen_floor" or ASSETS.is_dir()]
    answers = []
    for i in range(first, first + count):
        name = names[i % len(names)]
        truth = furnished(name) if name in ROOMS else composed(name)
        truth = posed(worsened(truth, i), i)
        scene = truth.scene.replace(ids=torch.full_like(truth.scene.ids, -1))
        floor = floor_of(Source(scene, None, False))
        degrees, miss = errors(truth, floor.up, floor.height)
        right = degrees < DEGREES and miss < MISS_WORSE
        second = max((other.score for other in floor.alternatives), default=0.0)
        said = "virtual" if floor.kind == "virtual" else "doubted" if floor.doubt else "sure"
        answers.append((said, right))
        print(json.dumps([i, name, said, right, degrees, miss, floor.score, second]), flush=True)
    for said in ("sure", "doubted", "virtual"):
        those = [right for what, right in answers if what == said]
        print(f"{said}: {sum(those)} of {len(those)} right")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assets", type=Path, default=ASSETS)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--sheets", type=Path, default=None)
    parser.add_argument("--one", default=None)
    parser.add_argument("--worse", type=int, help="so many worse captures instead")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    args = parser.parse_args()
    os.environ["NEWTONGS_CAPTURES"] = str(args.assets)
    if args.sheets is not None:
        args.sheets.mkdir(parents=True, exist_ok=True)
    if args.one is not None:
        print(json.dumps(row(args.one, args.assets, args.sheets)))
        return
    if args.worse is not None:
        worse(args.worse, args.first)
        return
    there = args.assets.is_dir()
    names = [*(KNOWN if there else ()), *(OF_CAPTURES if there else ()), *RECIPES, *HELD_BACK]
    Console(width=150).print(table([in_own_process(name, args) for name in names]))
    own = [name for name in (*RECIPES, *HELD_BACK) if not composed(name).alone]
    trials(args.trials, own)


if __name__ == "__main__":
    main()

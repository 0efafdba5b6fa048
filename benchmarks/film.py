"""A film of a large scene: every frame drawn whole, beside what is still drawn once.

Both ways draw the same frames of one small object that moves through a scene, and the pictures must
be equal bit for bit. The limit reads what must be read: all Gaussians once, and for each frame the
moving ones and the picture, at the rate of a large copy; to it come the operations of every pixel
blended, at the rate of a large matrix product.

Scenes: a ball of 60,000, a capture of half a million, and copies of it side by side, made here.

With --command the copies are written as a .ply, and the whole command animates that file: seconds
from the start of Python to the film, and the peak of memory.

With --gaussians a lawn with two tables and fifteen things is made of so many Gaussians, with colour
of degree 3, and the commands run on it with all default formats: inspect, one thing pushed, the
whole capture pushed, and one thing pushed while all others are loose.

Run with: python benchmarks/film.py [--capture playbot.sog] [--copies 6] [--frames 49] [--plain 5]
     and: python benchmarks/film.py --capture playbot.sog --command 5 [--formats mp4]
     and: python benchmarks/film.py --gaussians 4000000
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import torch
from common import gemm_rate, hardware
from furnished_rooms import densified  # type: ignore[import-not-found]
from peaks import command_peak  # type: ignore[import-not-found]
from render import BLEND, ball, filling
from rich.console import Console
from rich.table import Table

from newtongs.formats import load
from newtongs.formats.files import save
from newtongs.render import render
from newtongs.render.ewa import draw_counting
from newtongs.render.scenes import render_frames
from newtongs.render.splat import Rendering, make_splat
from newtongs.scene import Camera, GaussianScene, join, orbit
from newtongs.scene.frames import AnimatedScene
from newtongs.scene.lifting import lift

CPU = torch.device("cpu")
MOVING = 0.06  # of the scene's width: the object
WHITE = (1.0, 1.0, 1.0)


def tiled(scene: GaussianScene, copies: int) -> GaussianScene:
    """Copies side by side, with view-dependent colour of degree 3 as most captures have."""
    g = torch.Generator().manual_seed(0)
    more = 16 - scene.sh.shape[1]
    sh = torch.cat([scene.sh, 0.01 * torch.randn(len(scene), more, 3, generator=g)], 1)
    low, high = scene.bounds()
    step = 0.95 * (high - low) * torch.tensor([1.0, 0.0, 1.0])
    at = [torch.tensor([i % 3, 0, i // 3]) * step for i in range(copies)]
    return join(*(scene.replace(means=scene.means + x, sh=sh) for x in at))


def animated(scene: GaussianScene, frames: int) -> AnimatedScene:
    """The Gaussians in the middle as an object that moves sideways and turns."""
    low, high = scene.bounds()
    away = (scene.means - scene.means.median(0).values).norm(dim=-1)
    inner = away < MOVING * float((high - low).max())
    marked = scene.replace(ids=torch.where(inner, 0, -1))
    z = lift(marked.object(0)).repeat(frames, 1)
    s = torch.linspace(0, 1, frames)
    z[:, 0] += 2 * MOVING * float((high - low).max()) * s
    z[:, 3:7] = torch.stack([s.cos(), 0 * s, s.sin(), 0 * s], -1)
    return AnimatedScene(marked, {0: z[0]}, {0: z})


def plain(scenes: AnimatedScene, camera: Camera) -> Iterator[Rendering]:
    """Every frame whole."""
    for f in scenes:
        yield render(
            scenes.scene, camera, backend="ewa", background=WHITE, means=f.means,
            covariances=f.covariances, sh=f.sh, opacities=f.opacities, shade=f.shade,
        )  # fmt: skip


def timed(pictures: Iterator[Rendering], most: int) -> tuple[list[Rendering], list[float]]:
    """At most so many pictures, and the seconds that each took; the first has the preparation."""
    out, seconds, start = [], [], time.perf_counter()
    for picture in pictures:
        seconds.append(time.perf_counter() - start)
        out.append(picture)
        if len(out) == most:
            break
        start = time.perf_counter()
    return out, seconds


def copy_rate() -> float:
    """Bytes a second of a large copy, read and written."""
    x = torch.empty(2**26)
    y, best = torch.empty_like(x), 1e9
    for _ in range(5):
        start = time.perf_counter()
        y.copy_(x)
        best = min(best, time.perf_counter() - start)
    return 8 * len(x) / best


def least_seconds(scenes: AnimatedScene, camera: Camera, flops: float, rate: float) -> float:
    """The limit of a whole film."""
    scene, (rows, part) = scenes.scene, scenes.moving()
    each = 4 * (3 + 4 + 3 + 1 + 3 * scene.sh.shape[1])  # bytes of a Gaussian
    pixels = 2 * 20 * camera.width * camera.height
    blended = draw_counting(make_splat(scene, camera, WHITE))[2]
    moved = draw_counting(make_splat(part.scene, camera, WHITE))[2]
    memory = each * len(scene) + len(scenes) * (each * len(rows) + pixels)
    return memory / rate + BLEND * (blended + len(scenes) * moved) / flops


def peak() -> float:
    """Gigabytes that the process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def add_rows(
    table: Table, name: str, scenes: AnimatedScene, camera: Camera, few: int, limit: float
) -> None:
    """The film first, so that its peak is its own; then some frames in the plain way."""
    frames, title = len(scenes), f"{name} ({len(scenes.scene):,}; {len(scenes.moving()[0]):,} move)"
    film, seconds = timed(render_frames(scenes, camera, backend="ewa", background=WHITE), frames)
    held, later = peak(), sorted(seconds[1:])
    whole, old = timed(plain(scenes, camera), few)
    same = all(torch.equal(a.color, b.color) for a, b in zip(film, whole, strict=False))
    each = sorted(old[1:])[len(old) // 2 - 1]
    rows = [("whole frames", old[0], each, old[0] + (frames - 1) * each, peak(), ""),
            ("still once", seconds[0], later[len(later) // 2], sum(seconds), held,
             "equal" if same else "DIFFERENT")]  # fmt: skip
    for way, first, one, total, gb, said in rows:
        table.add_row(
            title, way, f"{first:.2f}", f"{1e3 * one:.1f}", f"{total:.2f}", f"{gb:.2f}",
            f"{total / limit:.1f}", said,
        )  # fmt: skip
    table.add_section()


def time_command(scene: GaussianScene, times: int, formats: list[str]) -> None:
    """Run ``newtongs animate`` in processes of its own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "copies.ply"
        save(scene, path)
        print(f"{len(scene):,} Gaussians, {path.stat().st_size / 1e6:,.0f} MB, {' '.join(formats)}")
        for _ in range(times):
            run_command("animate", str(path), "--out", f"{name}/out", "--formats", *formats)


def time_commands(count: int) -> None:
    """Run the commands on a capture of ``count`` Gaussians."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "lawn.ply"
        save(densified("two_tables_outdoors", count), path)
        print(f"{count:,} Gaussians, {path.stat().st_size / 1e6:,.0f} MB")
        run_command("inspect", str(path), "--plain", "--thumbnail", f"{name}/seen.png")
        for more in ((), ("--select", "all"), ("--loose",)):
            run_command("animate", str(path), "--out", f"{name}/out", *more)


def run_command(*words: str) -> None:
    """Run a command in a process of its own and print its time and its peak of memory."""
    code, seconds, held = command_peak(*words)
    if code:
        raise SystemExit("the command failed")
    shown = " ".join(word for word in words if "/" not in word)
    print(f"{seconds:6.1f} s, {held / 1e9:.2f} GB: {shown}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capture", type=Path, help="a splat file; without it only the ball")
    parser.add_argument("--copies", type=int, default=6)
    parser.add_argument("--frames", type=int, default=49)
    parser.add_argument("--plain", type=int, default=5, help="frames drawn in the plain way")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--command", type=int, default=0, help="run the whole command so often")
    parser.add_argument("--formats", nargs="+", default=["mp4"], help="of the whole command")
    parser.add_argument("--gaussians", type=int, help="run the commands on a capture of this size")
    args = parser.parse_args()
    if args.gaussians:
        time_commands(args.gaussians)
        return
    if args.command and not args.capture:
        parser.error("--command animates copies of a capture: name one with --capture")
    if args.command:
        time_command(tiled(load(args.capture), args.copies), args.command, args.formats)
        return
    flops, rate = gemm_rate(CPU), copy_rate()
    size = f"{args.size} x {args.size}"
    table = Table(title=f"{args.frames} frames of {size} on {hardware(CPU)}")
    for heading in ("scene", "way", "first s", "ms a frame", "film s", "peak GB", "limit x", ""):
        table.add_column(heading, justify="left" if heading in ("scene", "way", "") else "right")
    centre = orbit((0, 0, 0), width=args.size, height=args.size)[0]
    list(render_frames(animated(ball(2000), 2), centre, backend="ewa"))  # numba compiles
    scenes = [("ball", animated(ball(60_000), args.frames), centre)]
    if args.capture:
        scene = load(args.capture)
        view = filling(scene, args.size)
        scenes.append((args.capture.stem, animated(scene, args.frames), view))
        many = animated(tiled(scene, args.copies), args.frames)
        scenes.append((f"{args.copies} copies", many, filling(many.scene, args.size)))
    for name, one, camera in scenes:
        limit = least_seconds(one, camera, flops, rate)
        add_rows(table, name, one, camera, args.plain, limit)
    console = Console(width=118)
    console.print(table)
    console.print(
        f"limit: {rate / 1e9:.1f} GB/s (a copy), {flops / 1e9:.0f} GFlop/s (torch.mm); the film of "
        f"whole frames is reckoned from {args.plain} frames; peak: of the process so far"
    )


if __name__ == "__main__":
    main()

"""What each format costs: size beside the plain .ply, and loss in dB of pictures.

Every format is written, read back, and drawn from four sides; dB is 10 log10 of 1 over the mean
square error against pictures of the scene itself, of all four together. The last rows are an
animation's page: html as it is, and compressed.

A scene is cut to the number of Gaussians asked for, or copied side by side; every copy is jittered
(means by 0.2 of their size, log scales by 0.05, quaternions by 0.02, logits by 0.1, coefficients by
0.2 of their spread), so that no palette sees the same colour twice.

With --peer, which takes the command of PlayCanvas's splat-transform, its files of the same scene
stand beside ours, and its reading of our files is drawn too: "read by peer". Its own .sog is left
out where there is colour by direction, unless --slow is given: without a GPU it takes minutes for
ten thousand Gaussians.

Run with: python benchmarks/compression.py [SCENE ...] [--gaussians N ...] [--full]
          [--peer COMMAND] [--slow]
"""

import argparse
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from newtongs.base.errors import InputError
from newtongs.exports import write_html
from newtongs.exports.html import read_html
from newtongs.exports.loss import around, picture, to_decibels
from newtongs.formats import load, save
from newtongs.pipeline.source import floor_of, open_source
from newtongs.scene import Animation, Camera, GaussianScene, join

FORMATS = (".splat", ".compressed.ply", ".spz", ".sog", ".glb", ".compressed.glb")
PEER_FORMATS = (".compressed.ply", ".spz", ".sog", ".glb")
READ_BY_PEER = (".splat", ".compressed.ply", ".spz", ".sog")
FULL = (50_000, 500_000, 3_000_000)
HEADINGS = ("format", "MB", "of .ply", "bytes each", "write s", "read s", "dB")


def repeated(scene: GaussianScene, n: int) -> GaussianScene:
    """``n`` Gaussians: a part of the scene, or jittered copies of it side by side."""
    random = torch.Generator().manual_seed(0)
    if n <= len(scene):
        return scene[torch.randperm(len(scene), generator=random)[:n].sort().values]
    low, high = scene.bounds()
    step = torch.tensor([float(high[0] - low[0]), 0.0, 0.0])
    copies = -(-n // len(scene))
    return join(*(jittered(scene, i * step, random) for i in range(copies)))[:n]


def jittered(scene: GaussianScene, shift: torch.Tensor, random: torch.Generator) -> GaussianScene:
    """A copy that is nowhere quite the same."""

    def noise(x: torch.Tensor) -> torch.Tensor:
        return torch.randn(x.shape, generator=random)

    return scene.replace(
        means=scene.means + shift + 0.2 * scene.scales * noise(scene.means),
        quats=scene.quats + 0.02 * noise(scene.quats),
        log_scales=scene.log_scales + 0.05 * noise(scene.log_scales),
        logits=scene.logits + 0.1 * noise(scene.logits),
        sh=scene.sh + 0.2 * scene.sh.std(0) * noise(scene.sh),
    )


def timed(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Bench:
    """One scene, written in every way."""

    def __init__(self, scene: GaussianScene, cameras: list[Camera], folder: Path, peer: str | None):
        self.scene, self.cameras, self.folder, self.peer = scene, cameras, folder, peer
        self.wanted = [picture(scene, camera) for camera in cameras]
        self.plain = folder / "scene.ply"
        save(scene, self.plain)

    def decibels(self, got: GaussianScene) -> float:
        """How alike its pictures are to those of the scene."""
        errors = [
            (picture(got, camera) - wanted).double().square().mean()
            for camera, wanted in zip(self.cameras, self.wanted, strict=True)
        ]
        return to_decibels(torch.stack(errors).mean())

    def row(
        self, path: Path, what: str, writing: float, read: Callable[[Path], GaussianScene] = load
    ) -> list[str]:
        """Size, share of the .ply, seconds and loss of one file, which is then removed."""
        size, ply = path.stat().st_size, self.plain.stat().st_size
        start = time.perf_counter()
        got = read(path)
        reading = time.perf_counter() - start
        return [
            what, f"{size / 1e6:.2f}", f"{size / ply:.3f}", f"{size / len(self.scene):.1f}",
            f"{writing:.2f}", f"{reading:.2f}", f"{self.decibels(got):.1f}",
        ]  # fmt: skip

    def ours(self, ending: str) -> list[list[str]]:
        """Our file, and the same as the peer reads it."""
        path = self.folder / f"ours{ending}"
        try:
            rows = [self.row(path, ending, timed(lambda: save(self.scene, path)))]
        except InputError as reason:
            return [[ending, str(reason)[:40]]]
        if self.peer is not None and ending in READ_BY_PEER:
            rows.append(self.read_by_peer(path, ending))
        path.unlink()
        return rows

    def read_by_peer(self, path: Path, ending: str) -> list[str]:
        """Our file as the peer understands it."""
        back = self.folder / "back.ply"
        if why := self.run_peer(path, back):
            return [f"{ending}, read by peer", why]
        return [f"{ending}, read by peer", *[""] * 5, f"{self.decibels(load(back)):.1f}"]

    def peers(self, ending: str) -> list[str]:
        """The peer's own file."""
        path, start = self.folder / f"peer{ending}", time.perf_counter()
        if why := self.run_peer(self.plain, path):
            return [f"{ending}, peer", why]
        return self.row(path, f"{ending}, peer", time.perf_counter() - start)

    def run_peer(self, source: Path, target: Path) -> str:
        """Convert with splat-transform on the CPU; what it complains of."""
        words = [*shlex.split(str(self.peer)), "-q", "-w", "-g", "cpu", str(source), str(target)]
        done = subprocess.run(words, capture_output=True, text=True)
        return "" if done.returncode == 0 and target.exists() else f"fails: {done.stderr[-60:]}"

    def page(self, compress: bool) -> list[str]:
        """An animation's page, with colour of degree 1 as by default."""
        path, animation = self.folder / "page.html", Animation(self.scene, torch.zeros(1), {})
        writing = timed(lambda: write_html(animation, path, compress=compress))
        return self.row(path, "html, compressed" if compress else "html", writing, read_html)

    def rows(self, slow: bool) -> list[list[str]]:
        """All of the table."""
        out = [self.row(self.plain, ".ply", 0.0)]
        for ending in FORMATS:
            out += self.ours(ending)
            skip = ending == ".sog" and self.scene.sh_degree > 0 and not slow
            if self.peer is not None and ending in PEER_FORMATS and not skip:
                out.append(self.peers(ending))
        return [*out, self.page(False), self.page(True)]


def show(name: str, n: int | None, peer: str | None, slow: bool) -> None:
    """The table of one scene at one size, and the memory it took."""
    place = open_source(name)
    cameras = around(place.scene, floor_of(place).up)
    scene = place.scene if n is None else repeated(place.scene, n)
    del place
    table = Table(title=f"{Path(name).name}: {len(scene):,} Gaussians, SH {scene.sh_degree}")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "format" else "right")
    with tempfile.TemporaryDirectory() as folder:
        for row in Bench(scene, cameras, Path(folder), peer).rows(slow):
            table.add_row(*row)
    Console(width=100).print(table)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Console(width=100).print(f"at most {peak / 1e9:.2f} GB of memory")


def main() -> None:
    """Print one table a scene and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", default=["kitchen_table"])
    parser.add_argument("--gaussians", type=int, nargs="+", help="cut or repeat to so many")
    parser.add_argument("--full", action="store_true", help="50,000, 500,000 and 3 million")
    parser.add_argument("--peer", help="command of splat-transform")
    parser.add_argument("--slow", action="store_true", help="also the peer's .sog with SH")
    args = parser.parse_args()
    sizes = FULL if args.full else args.gaussians or [None]
    for name in args.scenes:
        for n in sizes:
            show(name, n, args.peer, args.slow)


if __name__ == "__main__":
    main()

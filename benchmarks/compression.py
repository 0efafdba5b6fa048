"""What each packed format costs: size beside the plain .ply, and loss in dB of pictures.

Every format is written, read back, and drawn from four sides; dB is 10 log10 of 1 over the mean
square error against pictures of the scene itself, of all four together. With --peer, which takes
the command of PlayCanvas's splat-transform, its files of the same scene stand beside ours, and its
reading of our files is drawn too: "read by peer". Its own .sog is left out where there is colour
by direction, unless --slow is given: without a GPU it takes minutes for ten thousand Gaussians.

Run with: python benchmarks/compression.py [SCENE ...] [--gaussians N] [--peer COMMAND] [--slow]
"""

import argparse
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from newtongs.errors import InputError
from newtongs.render import render
from newtongs.scene import Camera, GaussianScene, join, load, save
from newtongs.scene.framing import fit_camera
from newtongs.stage import floor_of, opened

FORMATS = (".splat", ".compressed.ply", ".spz", ".sog")
PEER_FORMATS = (".compressed.ply", ".spz", ".sog")
SIZE, AZIMUTHS = 512, (25, 115, 205, 295)


def views(scene: GaussianScene, up: torch.Tensor) -> list[Camera]:
    """Four cameras around the busy part of a scene."""
    x = scene.means[:: max(1, len(scene) // 100_000)].double()
    ends = torch.stack([x.quantile(0.02, dim=0), x.quantile(0.98, dim=0)])
    return [fit_camera(ends, up.double(), width=SIZE, height=SIZE, azimuth=a) for a in AZIMUTHS]


def pictures(scene: GaussianScene, cameras: list[Camera]) -> torch.Tensor:
    """``(4, H, W, 3)``, clamped as a screen does."""
    return torch.stack([render(scene, camera).color for camera in cameras]).clamp(0, 1)


def decibels(a: torch.Tensor, b: torch.Tensor) -> float:
    """How alike two sets of pictures are."""
    return float(-10 * (a - b).double().square().mean().clamp_min(1e-12).log10())


def repeated(scene: GaussianScene, n: int) -> GaussianScene:
    """``n`` Gaussians: a part of the scene, or copies of it side by side."""
    if n <= len(scene):
        keep = torch.randperm(len(scene), generator=torch.Generator().manual_seed(0))[:n]
        return scene[keep.sort().values]
    low, high = scene.bounds()
    step = torch.tensor([float(high[0] - low[0]), 0.0, 0.0])
    copies = [scene.replace(means=scene.means + i * step) for i in range(-(-n // len(scene)))]
    return join(*copies)[:n]


def timed(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Bench:
    """One scene, written in every way."""

    def __init__(self, scene: GaussianScene, cameras: list[Camera], folder: Path, peer: str | None):
        self.scene, self.cameras, self.folder, self.peer = scene, cameras, folder, peer
        self.wanted = pictures(scene, cameras)
        self.plain = folder / "scene.ply"
        save(scene, self.plain)

    def row(self, path: Path, what: str, writing: float) -> list[str]:
        """Size, share of the .ply, seconds and loss of one file."""
        size, ply = path.stat().st_size, self.plain.stat().st_size
        reading = timed(lambda: load(path))
        loss = decibels(pictures(load(path), self.cameras), self.wanted)
        return [
            what, f"{size / 1e6:.2f}", f"{size / ply:.3f}", f"{size / len(self.scene):.1f}",
            f"{writing:.2f}", f"{reading:.2f}", f"{loss:.1f}",
        ]  # fmt: skip

    def ours(self, ending: str) -> list[list[str]]:
        """Our file, and the same as the peer reads it."""
        path = self.folder / f"ours{ending}"
        try:
            rows = [self.row(path, ending, timed(lambda: save(self.scene, path)))]
        except InputError as reason:
            return [[ending, str(reason)[:40]]]
        if self.peer is not None:
            back = self.folder / "back.ply"
            self.run_peer(path, back)
            loss = decibels(pictures(load(back), self.cameras), self.wanted)
            rows.append([f"{ending}, read by peer", *[""] * 5, f"{loss:.1f}"])
        return rows

    def peers(self, ending: str) -> list[str]:
        """The peer's own file."""
        path = self.folder / f"peer{ending}"
        return self.row(path, f"{ending}, peer", timed(lambda: self.run_peer(self.plain, path)))

    def run_peer(self, source: Path, target: Path) -> None:
        """Convert with splat-transform on the CPU."""
        words = [*shlex.split(str(self.peer)), "-q", "-w", "-g", "cpu", str(source), str(target)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Print one table a scene."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", default=["kitchen_table"])
    parser.add_argument("--gaussians", type=int, help="cut or repeat each scene to so many")
    parser.add_argument("--peer", help="command of splat-transform")
    parser.add_argument("--slow", action="store_true", help="also the peer's .sog with SH")
    args = parser.parse_args()
    for name in args.scenes:
        place = opened(name)
        up, scene = floor_of(place).up, place.scene
        cameras = views(scene, up)
        scene = scene if args.gaussians is None else repeated(scene, args.gaussians)
        table = Table(title=f"{Path(name).name}: {len(scene):,} Gaussians, SH {scene.sh_degree}")
        for heading in ("format", "MB", "of .ply", "bytes each", "write s", "read s", "dB"):
            table.add_column(heading, justify="left" if heading == "format" else "right")
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(scene, cameras, Path(folder), args.peer)
            table.add_row(*bench.row(bench.plain, ".ply", 0.0))
            for ending in FORMATS:
                for row in bench.ours(ending):
                    table.add_row(*row)
                slow = ending == ".sog" and scene.sh_degree > 0 and not args.slow
                if args.peer is not None and ending in PEER_FORMATS and not slow:
                    table.add_row(*bench.peers(ending))
        Console(width=100).print(table)


if __name__ == "__main__":
    main()

"""How long each export of an animation takes, how large it is, and where the time goes.

The limit of a file of Gaussians is writing as many bytes as it has. Films are bound by drawing.

Run with: python benchmarks/export.py [--gaussians 60000] [--frames 49] [--size 512] [--ply]
"""

import argparse
import platform
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from newtongs.base import rotations, state
from newtongs.exports import FORMATS, export
from newtongs.scene import GaussianScene, join
from newtongs.scene.animation import Animation

BUDGET = ("frames", "mp4", "glb", "html")  # together at most a minute


def animation(n: int, frames: int, degree: int) -> Animation:
    """An object of most of ``n`` Gaussians that flies, turns and stretches before a background."""
    K = (degree + 1) ** 2

    def cloud(count: int, spread: float, index: int) -> GaussianScene:
        return GaussianScene.make(
            means=spread * torch.randn(count, 3),
            scales=0.02 * torch.exp(0.5 * torch.randn(count, 3)),
            quats=rotations.normalize(torch.randn(count, 4)),
            opacities=torch.rand(count),
            sh=0.3 * torch.randn(count, K, 3),
            ids=index,
        )

    t = torch.linspace(0, 2, frames)
    p = torch.stack([t - 1, 4 * t * (2 - t) / 4, 0 * t], -1)
    q = rotations.from_axis_angle(torch.tensor([1.0, 2.0, 3.0]).expand(frames, 3), 5 * t)
    s = torch.stack([1 + 0.1 * t, 1 - 0.1 * t, 1 + 0 * t], -1)
    z = state.make(p=p, q=q, s=s)
    scene = join(cloud(n // 6, 2.0, -1), cloud(n - n // 6, 0.3, 1))
    return Animation(scene, t, {1: z})


def size_of(path: Path) -> int:
    """Bytes of a file and of what lies beside it under the same name, or of a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    if path.suffix == ".json":
        files = [path, path.with_suffix(".npz"), path.with_name(f"{path.stem}_scene.ply")]
    return sum(file.stat().st_size for file in files)


def disk_seconds(size: int, folder: Path) -> float:
    """The limit: as many bytes, written at once."""
    data, start = bytes(size), time.perf_counter()
    (folder / "limit").write_bytes(data)
    return time.perf_counter() - start


def measure(made: Animation, names: list[str], pixels: int, folder: Path) -> dict[str, float]:
    """Seconds of each stage of one export."""
    began: dict[str, float] = {"frames": time.perf_counter()}
    ended: dict[str, float] = {}

    def note(what: str, done: int, of: int) -> None:
        if what != "frames" and done == 0:
            began[what] = time.perf_counter()
        ended[what] = time.perf_counter()

    export(made, folder, names, size=(pixels, pixels), progress=note)
    return {what: ended[what] - began[what] for what in ended}


@torch.no_grad()
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaussians", type=int, default=60_000)
    parser.add_argument("--frames", type=int, default=49)
    parser.add_argument("--size", type=int, default=512, help="pixels a side")
    parser.add_argument("--degree", type=int, default=0, help="of the view-dependent colour")
    parser.add_argument(
        "--ply", action="store_true", help="also the sequence of .ply, which is large"
    )
    options = parser.parse_args()
    made = animation(options.gaussians, options.frames, options.degree)
    names = [name for name in FORMATS if name != "ply" or options.ply]
    title = f"{options.gaussians:,} Gaussians, SH {options.degree}, {options.frames} frames"
    where = f"{torch.get_num_threads()} threads of {platform.machine()}"
    table = Table(title=f"{title}, {options.size}x{options.size}; {where}")
    for column in ("what", "seconds", "MB", "seconds to write as many bytes"):
        table.add_column(column, justify="left" if column == "what" else "right")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        measure(made, ["mp4"], 64, folder)  # compiles the renderer
        times = measure(made, names, options.size, folder)
        table.add_row("drawing", f"{times['frames']:.2f}", "", "")
        for name in names:
            size = size_of(folder / f"animation{FORMATS[name].ending}")
            limit = f"{disk_seconds(size, folder):.3f}"
            table.add_row(name, f"{times[name]:.2f}", f"{size / 1e6:.2f}", limit)
    total = sum(times[name] for name in BUDGET)
    table.add_row("drawing, mp4, glb and html (limit 60 s)", f"{total:.2f}", "", "")
    Console().print(table)


if __name__ == "__main__":
    main()

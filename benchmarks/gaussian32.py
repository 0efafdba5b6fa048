"""How long a Gaussian-32 sample takes, where the time goes, and how far that is from the limit.

The limit is writing the sample's bytes to the disk.

Run with: python benchmarks/gaussian32.py [--samples 8]
``--grouping`` instead counts what the paper's grouping rule finds on the masks of all samples.
"""

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from newtongs.base.process import one_thread
from newtongs.paper.datasets import gaussian32
from newtongs.paper.datasets.gaussian_sample import save
from newtongs.render.light import render_light
from newtongs.scene import GaussianScene
from newtongs.segment import membership

ALL = 320


def disk_seconds(size: int, folder: Path) -> float:
    """As many bytes, written at once."""
    data, start = bytes(size), time.perf_counter()
    (folder / "limit").write_bytes(data)
    return time.perf_counter() - start


def grouping(item: gaussian32.Item, frame: int) -> tuple[float, float, float]:
    """Shares found of the object, of what half of the views see of it, and of the background."""
    made = gaussian32.make_sample(item, None)
    cameras, thing = gaussian32.cameras(made), made["object"]
    means = made["object_sequence"]["means"][[frame]]
    alpha = render_light(means, thing["colors"], thing["opacities"], cameras)[2][0]
    scene = GaussianScene.make(
        means=made["scene_sequence"]["means"][frame], scales=torch.full((4736,), 0.01)
    )
    found = membership(scene, alpha > gaussian32.MASK_ALPHA, cameras) >= 0.5
    seen = torch.zeros(means.shape[1])
    for camera in cameras:
        pixels, depth = camera.project(means[0])
        seen += ((pixels >= 0) & (pixels < camera.width)).all(-1) & (depth > 0)
    ours, rest = found[: len(seen)], found[len(seen) :]
    agreed = (ours == (seen >= 2)).float().mean().item()
    return ours.float().mean().item(), agreed, rest.float().mean().item()


def print_grouping() -> None:
    """What the rule finds over frames 0 and 30 of all samples."""
    pairs = [(item, frame) for item in gaussian32.items() for frame in (0, 30)]
    shares = torch.tensor([grouping(*pair) for pair in track(pairs, "frames")])
    below = sum(
        bool(gaussian32.cameras(gaussian32.make_sample(i, None))[0].position[1] < 0)
        for i in gaussian32.items()
    )
    print(
        f"{len(pairs)} frames: the whole object found in {int((shares[:, 0] == 1).sum())}; exactly "
        f"what at least half of the views see of it in {int((shares[:, 1] == 1).sum())}; at most "
        f"{100 * shares[:, 2].max():.1f} % of the background; view 0 below the floor in {below} "
        f"samples"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--grouping", action="store_true", help="count what masks find")
    args = parser.parse_args()
    if args.grouping:
        print_grouping()
        return
    chosen = gaussian32.items()[:: ALL // args.samples][: args.samples]
    seconds: dict[str, list[float]] = {
        "states, Gaussians, flows": [],
        "four views": [],
        "write": [],
    }
    limits = []
    with tempfile.TemporaryDirectory() as name, one_thread():
        folder = Path(name)
        gaussian32.make_sample(chosen[0], None)  # the templates are made once
        for item in chosen:
            marks = [time.perf_counter()]
            gaussian32.make_sample(item, None)
            marks.append(time.perf_counter())
            sample = gaussian32.make_sample(item, render_light)
            marks.append(time.perf_counter())
            save(folder / "sample.pt", sample, store="full")
            marks.append(time.perf_counter())
            plain, whole, written = (b - a for a, b in pairwise(marks))
            for stage, s in zip(seconds, (plain, whole - plain, written), strict=True):
                seconds[stage].append(s)
            limits.append(disk_seconds((folder / "sample.pt").stat().st_size, folder))
    table = Table(title=f"one Gaussian-32 sample, {len(chosen)} measured, one thread")
    for heading in ("stage", "mean s", "worst s", "times the limit"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    limit = sum(limits) / len(limits)
    rows = {"limit: write as many bytes": limits, **seconds}
    rows["in all"] = [sum(parts) for parts in zip(*seconds.values(), strict=True)]
    for stage, values in rows.items():
        mean = sum(values) / len(values)
        table.add_row(stage, f"{mean:.2f}", f"{max(values):.2f}", f"{mean / limit:.1f}")
    console = Console(width=90)
    console.print(table)
    minutes = ALL * sum(rows["in all"]) / len(chosen) / 60
    console.print(f"all {ALL}: {minutes:.1f} min at this rate; torch {torch.__version__}")


if __name__ == "__main__":
    main()

"""How long a Gaussian-32 sample takes, where the time goes, and how far that is from the limit.

The limit is writing the sample's bytes to the disk.

Run with: python benchmarks/gaussian32.py [--samples 8]
"""

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from newtongs.datasets import gaussian32
from newtongs.datasets.gaussian_sample import save
from newtongs.render.light import render_light
from newtongs.threads import one_thread

ALL = 320


def disk_seconds(size: int, folder: Path) -> float:
    """As many bytes, written at once."""
    data, start = bytes(size), time.perf_counter()
    (folder / "limit").write_bytes(data)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=8)
    args = parser.parse_args()
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

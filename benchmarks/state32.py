"""How fast State-32 is made and evaluated, and how far that is from the memory-write limit.

Run with: make bench, or python benchmarks/state32.py [--per-motion N]
"""

import argparse
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from newtongs import motions
from newtongs.base.process import one_thread
from newtongs.dynamics import BASELINES
from newtongs.paper.datasets import state32
from newtongs.paper.evaluation import evaluate

SEQUENCE_BYTES = motions.FRAMES * 22 * 4


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """Shortest of a few runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def generate_shard(n: int) -> None:
    """Every family once, ``n`` sequences each: one shard without the disk."""
    for name in motions.STATE32:
        motions.generate(name, n, seed=1)


def memory_write(sequences: int) -> Callable[[], object]:
    """Fill as many bytes as a shard's states with a constant: nothing can write them faster."""
    target = np.empty(sequences * SEQUENCE_BYTES, np.uint8)
    return lambda: target.fill(1)


def disk_write(sequences: int, folder: Path) -> Callable[[], object]:
    """Write and sync as many bytes as a shard's states."""
    block = np.ones(sequences * SEQUENCE_BYTES, np.uint8)

    def write() -> None:
        with (folder / "bytes").open("wb") as f:
            f.write(block.data)
            f.flush()
            os.fsync(f.fileno())

    return write


def build_split(folder: Path, per_motion: int) -> tuple[float, float]:
    """Seconds to build a split, and those of them spent waiting for the disk."""
    waits: list[float] = []
    sync = os.fsync

    def timed(descriptor: int) -> None:
        start = time.perf_counter()
        sync(descriptor)
        waits.append(time.perf_counter() - start)

    start = time.perf_counter()
    with patch("os.fsync", timed):
        state32.build(folder, splits=["val_id"], per_motion=per_motion, overwrite=True)
    return time.perf_counter() - start, sum(waits)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-motion", type=int, default=1024, help="size of the built split")
    per_motion = parser.parse_args().per_motion
    sequences = 1024 * len(motions.STATE32)
    total = per_motion * len(motions.STATE32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with one_thread():  # as the command does
            build, wait = build_split(folder, per_motion)
            generate = seconds(lambda: generate_shard(1024))
        rows = [
            ("memory write (limit)", sequences, seconds(memory_write(sequences))),
            ("disk write and sync", sequences, seconds(disk_write(sequences, folder))),
            ("generate, in memory", sequences, generate),
            ("newtongs data state32", total, build),
            ("of it, waiting for the disk", total, wait),
        ]
        limit = rows[0][1] / rows[0][2]
        table = Table(title=f"State-32 generation, {platform.processor() or platform.machine()}")
        for heading in ("what", "sequences/s", "GB/s", "times the limit's duration"):
            table.add_column(heading, justify="left" if heading == "what" else "right")
        for what, n, s in rows:
            table.add_row(
                what, f"{n / s:,.0f}", f"{n * SEQUENCE_BYTES / s / 1e9:.2f}", f"{limit * s / n:.1f}"
            )
        console = Console(width=100)
        console.print(table)

        table = Table(title="Evaluation, metrics and PIS-3D included")
        for heading in ("method", "sequences/s", "times the oracle's duration"):
            table.add_column(heading, justify="left" if heading == "method" else "right")
        oracle = seconds(lambda: evaluate(folder, splits=["val_id"], methods=["oracle"]))
        for method in ("oracle", *BASELINES):
            s = seconds(lambda m=method: evaluate(folder, splits=["val_id"], methods=[m]))  # type: ignore[misc]
            table.add_row(method, f"{total / s:,.0f}", f"{s / oracle:.1f}")
        console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    console.print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, peak {peak:.2f} GB"
    )


if __name__ == "__main__":
    main()

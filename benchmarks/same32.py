"""What Table 2's methods score over random draws of a Same-32, and how often each is the lowest.

The paper's own draw cannot be recovered; this says how much of its figures is the draw's.

Run with: python benchmarks/same32.py [--sets 400] [--json FILE]

``--json src/newtongs/paper/results/same32_draws.json`` renews the record that the report reads.
"""

import argparse
import json
from pathlib import Path

import torch
from common import hardware
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from newtongs import motions
from newtongs.base.provenance import made
from newtongs.paper.datasets import gaussian32
from newtongs.paper.datasets.gaussian_sample import FRAMES
from newtongs.paper.evaluation.same32 import (
    BASELINES,
    COLUMNS,
    MODEL,
    evaluate_same32,
    shipped_seeds,
)
from newtongs.paper.evaluation.tables import HEADINGS, LABELS

METHODS = (*BASELINES, MODEL)


def draw(sets: int) -> Tensor:
    """States ``(sets, 32, 49, 22)`` of independent draws, none of them the data set's."""
    made = [
        motions.generate(
            name, sets, seed=99, frames=FRAMES, dt=gaussian32.DT,
            ranges=gaussian32.RANGES, stream=77_000,
        ).states
        for name in motions.STATE32
    ]  # fmt: skip
    return torch.stack(made, 1)


def scores(sets: Tensor, console: Console) -> Tensor:
    """Figures ``(sets, methods, columns)``."""
    rows = [evaluate_same32(z) for z in track(sets, "sets", console=console)]
    values = [[[row[m][c] for c in COLUMNS] for m in METHODS] for row in rows]
    return torch.tensor(values, dtype=torch.float64)


def write(path: Path, x: Tensor) -> None:
    """Every score ``(sets, methods, columns)``, by method and column."""
    record = {
        method: {c: [round(v, 6) for v in x[:, i, j].tolist()] for j, c in enumerate(COLUMNS)}
        for i, method in enumerate(METHODS)
    }
    path.write_text(json.dumps({"made": made(), "sets": len(x), "scores": record}) + "\n")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--json", type=Path, help="write every score here")
    args = parser.parse_args()
    console = Console(width=110)
    x = scores(draw(args.sets), console)
    lowest = x.argmin(1)
    table = Table(title=f"{args.sets} random Same-32 sets, {hardware(torch.device('cpu'))}")
    table.add_column("method", no_wrap=True)
    for column in COLUMNS:
        table.add_column(HEADINGS[column], justify="right")
    for i, method in enumerate(METHODS):
        mean, deviation = x[:, i].mean(0), x[:, i].std(0)
        share = (lowest == i).double().mean(0)
        table.add_row(
            LABELS[method], *[f"{a:.3f} ±{b:.3f}" for a, b in zip(mean, deviation, strict=True)]
        )
        table.add_row("", *[f"{100 * s:.0f} %" for s in share], end_section=True)
    console.print(table)
    if args.json:
        write(args.json, x)
    console.print(
        f"{LABELS[MODEL]} is the mean over the seeds {', '.join(map(str, shipped_seeds()))}"
    )


if __name__ == "__main__":
    main()

"""The ablations that the paper lists and never ran, from the records of ``newtongs ablations``."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ...evaluation.ablations import SPLITS, table
from ...evaluation.tables import HEADINGS, RANKED
from ..content import Cell, Section, Table, Value
from ..context import SEEDS, Context, shown
from ..registry import section
from .table1 import NAMES

HOW = "No record in {folder}: newtongs ablations --device cuda trains them, minutes each."
FULL_MODEL = "state32_seed7301.json"


def _folder(context: Context) -> Path:
    return context.results_folder / "ablations"


@section(
    "ablations", "Retrained ablations", "Appendix D, coverage and execution status: never run",
    inputs=lambda context: {"records": _folder(context)},
)  # fmt: skip
def make(context: Context) -> Section:
    """A row for each record; these are committed results and not computed by this run."""
    if not any(_folder(context).glob("**/*.json")):
        return Section(missing=[HOW.format(folder=shown(_folder(context)))])
    found = table(_folder(context), context.results_folder / FULL_MODEL)
    return Section(
        tables=[_table(found, split) for split in SPLITS],
        sentences=[
            f"Read from {len(found) - 1} records in {shown(_folder(context))}; this run did not "
            "train them again. All have seed 7301 and differ from the full model in what is named; "
            "hold a model without the prior beside the unbounded one, whose networks are as free.",
            _scatter(context),
        ],
        numbers={"rows": found},
    )


def _scatter(context: Context) -> str:
    """How much chance alone changes a figure: seeds of the full model."""
    records = [context.results_folder / f"state32_seed{seed}.json" for seed in SEEDS]
    if not all(path.is_file() for path in records):
        return "Each was trained once."
    runs, found = [json.loads(path.read_text()) for path in records], []
    for column in RANKED:
        scores = [run["val_id"]["newtongs"][column] for run in runs]
        found.append(f"{HEADINGS[column]} {100 * stdev(scores) / fmean(scores):.2f} %")
    return (
        "Each was trained once. Over the three seeds of the full model the standard deviation on "
        f"ID is {', '.join(found)}; a difference of that order says nothing."
    )


def _table(found: list[dict[str, Any]], split: str) -> Table:
    return Table(
        f"Models trained with one change, State-32 {NAMES[split]}, lower is better",
        ["Model", "Size", *(HEADINGS[c] for c in RANKED)],
        [_row(row, split) for row in found],
        "Beside each figure its difference to the full model. The paper lists these ablations and "
        "has no figures for them.",
    )


def _row(row: dict[str, Any], split: str) -> list[Cell]:
    cells = [_cell(row, split, column) for column in RANKED]
    return [row["label"], row["size"], *cells]


def _cell(row: dict[str, Any], split: str, column: str) -> Cell:
    if not row.get(split):
        return "failed"
    change = row["change"].get(split, {}).get(column, 0.0)
    if not change:
        return Value(row[split][column])
    digits = 0 if abs(change) >= 10 else 1
    return f"{row[split][column]:.4f} {change:+.{digits}f}%"

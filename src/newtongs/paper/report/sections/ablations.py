"""The ablations that the paper lists and never ran, from the records of ``newtongs ablations``."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ...evaluation.ablations import FULL_MODEL, SPLITS, table
from ...evaluation.table import Cell, Table, Value
from ...evaluation.tables import HEADINGS, RANKED
from ..content import Section
from ..registry import section
from ..report_run import SEEDS, ReportRun, shown
from .table1 import NAMES

HOW = "No records in {folder}; make them with newtongs ablations --device cuda, minutes each."


def _folder(report: ReportRun) -> Path:
    return report.results_folder / "ablations"


@section(
    "ablations", "Retrained ablations", "Appendix D, coverage and execution status: never run",
    inputs=lambda report: {"records": _folder(report)},
)  # fmt: skip
def make(report: ReportRun) -> Section:
    """One row per record; these are stored results, not computed by this run."""
    if not any(_folder(report).glob("**/*.json")):
        return Section(missing=[HOW.format(folder=shown(_folder(report)))])
    found = table(_folder(report), report.results_folder / FULL_MODEL)
    return Section(
        tables=[_table(found, split) for split in SPLITS],
        sentences=[
            f"Read from {len(found) - 1} records in {shown(_folder(report))}; this run did not "
            "train them again. All have seed 7301 and differ from the full model only as named; "
            "compare a model without the prior with the unbounded one, whose networks are as free.",
            _scatter(report),
        ],
        numbers={"rows": found},
    )


def _scatter(report: ReportRun) -> str:
    """How much a figure varies by chance: seeds of the full model."""
    records = [report.results_folder / f"state32_seed{seed}.json" for seed in SEEDS]
    if not all(path.is_file() for path in records):
        return "Each was trained once."
    runs, found = [json.loads(path.read_text()) for path in records], []
    for column in RANKED:
        scores = [run["val_id"]["newtongs"][column] for run in runs]
        found.append(f"{HEADINGS[column]} {100 * stdev(scores) / fmean(scores):.2f} %")
    return (
        "Each was trained once. Over the three seeds of the full model the standard deviation on "
        f"ID is {', '.join(found)}; differences of that order are not significant."
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

"""The ablations that the paper lists, trained, from the records of ``newtongs ablations``."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ...evaluation.ablations import ABLATIONS, FULL, FULL_MODEL, LAPTOP, SPLITS, Ablation, table
from ...evaluation.table import Cell, Table, Value
from ...evaluation.tables import HEADINGS, RANKED
from ...training.config import LAPTOP as SETTINGS
from ...training.config import TrainConfig
from ..content import Section
from ..registry import section
from ..report_run import SEEDS, ReportRun, shown
from .table1 import NAMES

HOW = "No records in {folder}; make them with newtongs ablations --device cuda, minutes each."


def _folder(report: ReportRun) -> Path:
    return report.results_folder / "ablations"


@section(
    "ablations", "Retrained ablations", "Appendix D, coverage and execution status",
    inputs=lambda report: {"records": _folder(report)},
)  # fmt: skip
def make(report: ReportRun) -> Section:
    """One row per record; these are stored results, not computed by this run."""
    if not any(_folder(report).glob("**/*.json")):
        return Section(missing=[HOW.format(folder=shown(_folder(report)))])
    found = table(_folder(report), report.results_folder / FULL_MODEL)
    absent = [a for a in ABLATIONS.values() if a.name not in {row["name"] for row in found}]
    records = sum(row["name"] in ABLATIONS for row in found)
    return Section(
        tables=[_table(found, absent, split) for split in SPLITS],
        sentences=[
            f"Of {len(ABLATIONS)} ablations {len(ABLATIONS) - len(absent)} have a record. Read "
            f"from {records} records in {shown(_folder(report))}; this run did not "
            "train them again. All have seed 7301 and differ from the full model only as named; "
            "compare a model without the prior with the unbounded one, whose networks are as free.",
            _scatter(report),
            *_small(report, found),
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


def _small(report: ReportRun, found: list[dict[str, Any]]) -> list[str]:
    """Why the full model at the laptop's size stands below the one at the paper's."""
    full = {row["size"]: row for row in found if row["name"] == FULL.name}
    path = _folder(report) / LAPTOP / "shipped.json"
    if len(full) < 2 or not path.is_file():
        return []
    there = json.loads(path.read_text())["val_id"]["traj"]
    large, small = full["paper"]["val_id"]["traj"], full[LAPTOP]["val_id"]["traj"]
    return [
        f"The laptop's full model has a lower Traj on ID ({small:.4f}) than the paper-size one "
        f"({large:.4f}) because its rows are scored on their own small split: there the paper-size "
        f"model has {there:.4f}. Of the difference {large - small:.4f}, {large - there:.4f} is the "
        f"draw of the split. The remaining {there - small:.4f} goes with the training, at "
        f"{SETTINGS['lr'] / TrainConfig.lr:g} times the paper's learning rate. Compare a row with "
        "the full model of its own size."
    ]


def _table(found: list[dict[str, Any]], absent: list[Ablation], split: str) -> Table:
    return Table(
        f"Models trained with one change, State-32 {NAMES[split]}, lower is better",
        ["Model", "Size", *(HEADINGS[c] for c in RANKED)],
        [*(_row(row, split) for row in found), *(_no_record(a) for a in absent)],
        "Beside each figure its difference to the full model of the same size. The paper retrained "
        "one of these, every layer initialised to zero (its figures stand in the section on "
        "initialisation), and removed residual networks without retraining; for the others it has "
        "no figures.",
    )


def _row(row: dict[str, Any], split: str) -> list[Cell]:
    cells = [_cell(row, split, column) for column in RANKED]
    return [row["label"], row["size"], *cells]


def _no_record(ablation: Ablation) -> list[Cell]:
    return [ablation.label, "no record", *[""] * len(RANKED)]


def _cell(row: dict[str, Any], split: str, column: str) -> Cell:
    if not row.get(split):
        return "failed"
    change = row["change"].get(split, {}).get(column, 0.0)
    if not change:
        return Value(row[split][column])
    digits = 0 if abs(change) >= 10 else 1
    return f"{row[split][column]:.4f} {change:+.{digits}f}%"

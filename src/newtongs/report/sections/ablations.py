"""The ablations that the paper lists and never ran, from the records of ``newtongs ablations``."""

from pathlib import Path
from typing import Any

from ...evaluation.ablations import SPLITS, table
from ...evaluation.tables import HEADINGS, RANKED
from ..content import Cell, Section, Table, Value
from ..context import Context, shown
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
            "train them again. All have seed 7301, and differ from the full model in the one thing "
            "named; each was trained once, so that differences of a few tenths of a percent say "
            "nothing (seeds differ by as much)."
        ],
        numbers={"rows": found},
    )


def _table(found: list[dict[str, Any]], split: str) -> Table:
    return Table(
        f"Models trained with one change, State-32 {NAMES[split]}, lower is better",
        ["Model", "Size", *(HEADINGS[c] for c in RANKED)],
        [_row(row, split) for row in found],
        "In brackets the difference to the full model. The paper lists these ablations and has "
        "no figures for them.",
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
    return f"{row[split][column]:.4f} ({change:+.1f} %)"

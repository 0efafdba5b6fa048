"""The ablations that the paper lists and never ran, from the records of their training runs.

``results/ablations/NAME.json`` is what ``newtongs evaluate --json`` wrote for the trained model; a
record may name itself (``label``) and the size it was trained at (``size``).
"""

import json
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...evaluation.tables import HEADINGS, RANKED
from ..content import Cell, Section, Table, Value
from ..context import SPLITS, Context, shown
from ..registry import section
from .table1 import NAMES

HOW = (
    "No record in {folder}: train an ablation (newtongs train --model.contact False, for one), "
    "evaluate it (newtongs evaluate --data DATA --checkpoint OUT/best.safetensors --json "
    "{folder}/no_contact.json) and run this again."
)


def _folder(context: Context) -> Path:
    return context.results_folder / "ablations"


@section(
    "ablations", "Retrained ablations", "Appendix D, coverage and execution status: never run",
    inputs=lambda context: {"records": _folder(context)},
)  # fmt: skip
def make(context: Context) -> Section:
    """A row for each record; these are committed results and not computed by this run."""
    paths = sorted(_folder(context).glob("*.json"))
    if not paths:
        return Section(missing=[HOW.format(folder=shown(_folder(context)))])
    records = {path.stem: _read(path) for path in paths}
    rows = [_row(name, found, split) for split in SPLITS for name, found in records.items()]
    table = Table(
        "Models trained without one part, lower is better",
        ["Split", "Model", "Size", *(HEADINGS[c] for c in RANKED)],
        rows,
        "The paper lists these ablations and has no figures for them.",
    )
    return Section(
        tables=[table],
        sentences=[
            f"Read from {len(paths)} records of training runs in {shown(_folder(context))}; this "
            "run did not train them again."
        ],
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        for split in SPLITS:
            assert all(isinstance(found[split]["newtongs"][c], float) for c in RANKED)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(f"{path} is no report of newtongs evaluate --json") from error
    return found


def _row(name: str, found: dict[str, Any], split: str) -> list[Cell]:
    label = str(found.get("label", name.replace("_", " ")))
    scores = found[split]["newtongs"]
    return [NAMES[split], label, str(found.get("size", "")), *(Value(scores[c]) for c in RANKED)]

"""Ablations of the model and its loss: the list, and the table of those that were run.

An ablation is the paper's run trained again with one change. ``newtongs ablations`` trains them and
writes one JSON file each; :func:`table` reads the files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from .table import Cell, Table
from .tables import HEADINGS, RANKED, RECORDS, figure

SPLITS = ("val_id", "val_ood")
LAPTOP = "laptop"  # folder of the runs at that size
FULL_MODEL = "state32_seed7301.json"  # metrics of the full model at the paper's size
COLUMNS = (*RANKED, "plane_violation", "penetration_mse")

Row = dict[str, Any]


@dataclass(frozen=True)
class Ablation:
    """One change to the paper's run."""

    name: str
    label: str
    model: Mapping[str, Any] = field(default_factory=dict)
    """Changed fields of ``NNDConfig``."""
    loss: Mapping[str, float] = field(default_factory=dict)
    """Changed fields of ``LossWeights``."""


FULL = Ablation("full", "full model")

# Networks without the prior cannot be bounded like a small correction. The ablation "unbounded"
# shows the effect of the bound alone: compare the two.
ALONE = {"prior": False, "bounded": False}

# The most informative first; those that take less than a minute on a GPU before longer ones.
ABLATIONS = {
    a.name: a
    for a in (
        Ablation("no_prior", "no analytic prior: the networks alone, unbounded", ALONE),
        Ablation("unbounded", "residuals without tanh, amplitudes from 1", {"bounded": False}),
        Ablation("no_contact", "no contact event", {"contact": False}),
        Ablation("euler", "Euler in place of RK4", {"solver": "euler"}),
        Ablation("max_dt_15", "max_dt 1/15: one substep per frame", {"max_dt": 1 / 15}),
        Ablation(
            "no_residuals",
            "no residual networks: the scalars alone",
            {"continuous_residual": False, "contact_residual": False},
        ),
        Ablation(
            "no_continuous_residual", "no continuous residual", {"continuous_residual": False}
        ),
        Ablation("no_penetration", "loss without penetration", loss={"penetration": 0.0}),
        Ablation("no_smoothness", "loss without smoothness", loss={"smooth": 0.0}),
        Ablation("zero_all", "every layer initialised to zero", {"init": "zero-all"}),
        Ablation("max_dt_60", "max_dt 1/60: three substeps per frame", {"max_dt": 1 / 60}),
        Ablation(
            "no_prior_no_contact",
            "no analytic prior, no contact event: f_theta alone, unbounded",
            {**ALONE, "contact": False},
        ),
        Ablation(
            "no_prior_bounded",
            "no analytic prior: the networks alone, bounded as the paper's",
            {"prior": False},
        ),
        Ablation("no_contact_residual", "no contact residual", {"contact_residual": False}),
        Ablation("no_position", "loss without position", loss={"p": 0.0}),
        Ablation("no_velocity", "loss without linear velocity", loss={"v": 0.0}),
        Ablation("no_orientation", "loss without orientation", loss={"q": 0.0}),
        Ablation("no_angular_velocity", "loss without angular velocity", loss={"w": 0.0}),
        Ablation("no_scale", "loss without scale", loss={"s": 0.0}),
        Ablation("no_scale_rate", "loss without scale rate", loss={"u": 0.0}),
    )
}


def table(
    folder: Path | str | None = None,
    full: Path | str | None = None,
    *,
    shipped: Path | None = None,
) -> list[Row]:
    """The ablations that were run, as data; the full model of each size precedes its rows.

    A row: ``name``, ``label``, ``size`` ("paper" or "laptop"), ``epochs``, ``sequences``,
    ``seconds``, ``device``; the metrics under ``val_id`` and ``val_ood`` (without a value where a
    run or its evaluation failed, and ``failed`` says why); under ``change`` the difference of each
    ranked metric to the full model of the same size, in percent, by split. An ablation at the
    paper's size hides the one at the laptop's size in the same folder.

    Args:
        folder: what ``newtongs ablations`` wrote: NAME.json, and laptop/NAME.json; the records that
            come with the package by default.
        full: metrics of the full model at the paper's size, written by ``newtongs evaluate``.
        shipped: folder of records to use where ``folder`` has none of that name.
    """
    folder = Path(folder or RECORDS / "ablations")
    large, small = _records(folder), _records(folder / LAPTOP)
    hidden = large
    if shipped is not None:
        large = _records(shipped / "ablations") | large
        if not small:
            small, hidden = _records(shipped / "ablations" / LAPTOP), large
    rows = [_full_row(Path(full or (shipped or RECORDS) / FULL_MODEL)), *_rows(large)]
    small_rows = _rows({k: p for k, p in small.items() if k == FULL.name or k not in hidden})
    for group in (rows, small_rows):
        for row in group:
            row["change"] = _change(row, group[0])
    return rows + (small_rows if len(small_rows) > 1 else [])


def _records(folder: Path) -> dict[str, Path]:
    """The result files of a folder by the ablation's name."""
    files = {name: folder / f"{name}.json" for name in (FULL.name, *ABLATIONS)}
    return {name: path for name, path in files.items() if path.is_file()}


def _rows(records: Mapping[str, Path]) -> list[Row]:
    """The records' content, the full model first, the others in their order."""
    return [_read(records[name]) for name in (FULL.name, *ABLATIONS) if name in records]


def _read(path: Path) -> Row:
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not a result of newtongs ablations; remove it") from error


def _full_row(path: Path) -> Row:
    """The shipped model's row."""
    if not path.is_file():
        raise InputError(f"no metrics of the full model at {path}; write them with: {_command()}")
    report = _read(path)
    metrics = {split: _metrics(report[split]["newtongs"]) for split in SPLITS if split in report}
    return {"name": FULL.name, "label": FULL.label, "size": "paper", "epochs": 100, **metrics}


def _command() -> str:
    return "newtongs evaluate --data DIR --checkpoint pretrained --json FILE"


def _metrics(scores: Mapping[str, Any]) -> dict[str, float]:
    return {k: x for k, x in scores.items() if isinstance(x, float)}


def _change(row: Row, full: Row) -> dict[str, dict[str, float]]:
    """Difference to the full model in percent."""
    both = [split for split in SPLITS if row.get(split) and full.get(split)]
    return {
        split: {k: 100 * (row[split][k] / full[split][k] - 1) for k in RANKED} for split in both
    }


def ablation_table(rows: Sequence[Row], split: str) -> Table:
    """Each metric, and under it the difference to the full model in percent."""
    shown: list[list[Cell]] = []
    for row in rows:
        size = "" if row["size"] == "paper" else f" ({row['size']})"
        scores, change = row.get(split), row["change"].get(split, {})
        values = [figure(c, scores[c]) if scores else "failed" for c in COLUMNS]
        shown.append([row["label"] + size, *values])
        if change and row["name"] != FULL.name:
            shown.append(["", *(f"{change[c]:+.2f} %" if c in change else "" for c in COLUMNS)])
    headings = ["Ablation", *(HEADINGS[c] for c in COLUMNS)]
    return Table(f"Ablations, State-32 {split}", headings, shown)

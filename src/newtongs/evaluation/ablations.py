"""Ablations of the model and of its loss: which there are, and the table of those that were run.

An ablation is the paper's run with one change, trained anew. ``newtongs ablations`` trains them and
writes one JSON file each; :func:`table` reads the files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..errors import InputError
from .tables import HEADINGS, RANKED

SPLITS = ("val_id", "val_ood")
LAPTOP = "laptop"  # folder of the runs at that size
COLUMNS = (*RANKED, "plane_violation", "penetration_mse")

Row = dict[str, Any]


@dataclass(frozen=True)
class Ablation:
    """One change to the run of the paper; everything else stays."""

    name: str
    label: str
    model: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``NNDConfig``."""
    loss: Mapping[str, float] = field(default_factory=dict)
    """Settings of ``LossWeights``."""


FULL = Ablation("full", "full model")

# Networks that stand alone cannot be bounded like a small correction. What the bound itself costs
# is the ablation "unbounded": hold the two beside each other.
ALONE = {"prior": False, "bounded": False}

# The most telling first, and before a long run those that take less than a minute on a GPU.
ABLATIONS = {
    a.name: a
    for a in (
        Ablation("no_prior", "no analytic prior: the networks alone, unbounded", ALONE),
        Ablation("unbounded", "residuals without tanh, amplitudes from 1", {"bounded": False}),
        Ablation("no_contact", "no contact event", {"contact": False}),
        Ablation("euler", "Euler in place of RK4", {"solver": "euler"}),
        Ablation("max_dt_15", "max_dt 1/15: one substep a frame", {"max_dt": 1 / 15}),
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
        Ablation("max_dt_60", "max_dt 1/60: three substeps a frame", {"max_dt": 1 / 60}),
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
    folder: Path | str = "results/ablations", full: Path | str = "results/state32_seed7301.json"
) -> list[Row]:
    """The ablations that were run, as data; the full model of each size stands before its rows.

    A row: ``name``, ``label``, ``size`` ("paper" or "laptop"), ``epochs``, ``sequences``,
    ``seconds``, ``device``; the metrics under ``val_id`` and ``val_ood`` (without a value where a
    run or its evaluation failed, and ``failed`` says why); under ``change`` the difference of each
    ranked metric to the full model of the same size, in percent, by split. An ablation at the
    paper's size hides the one at the laptop's.

    Args:
        folder: what ``newtongs ablations`` wrote: NAME.json, and laptop/NAME.json.
        full: figures of the full model at the paper's size, written by ``newtongs evaluate``.
    """
    folder = Path(folder)
    rows = [_full_row(Path(full)), *_rows(folder)]
    done = {row["name"] for row in rows}
    small = [r for r in _rows(folder / LAPTOP) if r["name"] == FULL.name or r["name"] not in done]
    for group in (rows, small):
        for row in group:
            row["change"] = _change(row, group[0])
    return rows + (small if len(small) > 1 else [])


def _rows(folder: Path) -> list[Row]:
    """Rows of the files there, the full model first, the others in their order."""
    files = {name: folder / f"{name}.json" for name in (FULL.name, *ABLATIONS)}
    return [_read(path) for path in files.values() if path.is_file()]


def _read(path: Path) -> Row:
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not a result of newtongs ablations; remove it") from error


def _full_row(path: Path) -> Row:
    """The shipped model's row."""
    if not path.is_file():
        raise InputError(f"no figures of the full model at {path}; write them with: {_command()}")
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
    """For people: each metric, and its difference to the full model in percent."""
    out = Table(title=f"Ablations, State-32 {split}", title_justify="left", show_lines=True)
    out.add_column("Ablation")
    for column in COLUMNS:
        out.add_column(HEADINGS[column], justify="right")
    for row in rows:
        size = "" if row["size"] == "paper" else f" ({row['size']})"
        out.add_row(escape(row["label"] + size), *(_cell(row, split, c) for c in COLUMNS))
    return out


def _cell(row: Row, split: str, column: str) -> str:
    if not row.get(split):
        return "failed"
    digits = 4 if column in RANKED else 6
    text = f"{row[split][column]:.{digits}f}"
    change = row["change"].get(split, {}).get(column)
    return text if row["name"] == FULL.name or change is None else f"{text}\n{change:+.2f} %"

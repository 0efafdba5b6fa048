"""Appendix D: the model with every layer started at zero, beside the one with zero last layers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....base.errors import InputError
from ...evaluation.table import Cell, Table, Value
from ...evaluation.tables import HEADINGS, RANKED, paper
from ...figures.plots import objective_curves, reduction_bars
from ..content import Figure, Section
from ..registry import section
from ..report_run import SEED, SPLITS, ReportRun, seed_method, shown, zero_all_weights
from .table1 import NAMES

Row = dict[str, Any]
RUNS = {"zero-all": "zero_all", "zero-last": "zero_last"}
# Mean squared errors per component in the training record, and the factor that makes them a metric.
FROM_RECORD = {"traj": ("val_p", 3, 0.5), "vel": ("val_v", 3, 0.5), "quat": ("val_q", 1, 1.0),
               "scale": ("val_s", 1, 0.5)}  # fmt: skip
HOW = (
    "newtongs train --data DATA --out zero_all --model.init zero-all --seed 7301, then put its "
    "metrics.jsonl at training/zero_all/metrics.jsonl in the folder of --results, beside "
    "training/seed7301.jsonl, and its best.safetensors at "
    "src/newtongs/checkpoints/state32_zero_all_seed7301.safetensors"
)


def _records(report: ReportRun) -> dict[str, Path]:
    """Paths of the training records of the two runs."""
    folder = report.results_folder / "training"
    places = [folder / "zero_all" / "metrics.jsonl", *sorted(folder.glob("zero_all*.jsonl"))]
    found = next((path for path in places if path.is_file()), places[0])
    return {"zero-all": found, "zero-last": folder / f"seed{SEED}.jsonl"}


def _inputs(report: ReportRun) -> dict[str, Path]:
    weights = zero_all_weights()
    return _records(report) | ({"weights": weights} if weights else {})


def _pairs(report: ReportRun) -> Iterator[tuple[str, str]]:
    for split in SPLITS if zero_all_weights() else ():
        yield "zero_all", split
        yield seed_method(SEED), split


@section(
    "initialisation", "Zero-all against zero-last initialisation",
    "Appendix D, initialization comparison", measures=_pairs, inputs=_inputs,
)  # fmt: skip
def make(report: ReportRun) -> Section:
    """Curves of both objectives and bars of the five changes, as far as the runs are available."""
    paths = _records(report)
    absent = [f"No training record {shown(p)}: {HOW}." for p in paths.values() if not p.is_file()]
    if absent:
        return Section(missing=absent)
    records = {name: _read(path) for name, path in paths.items()}
    measured = zero_all_weights() is not None
    reductions = _measured(report) if measured else _recorded(records)
    return Section(
        tables=[_objectives(records), _table(reductions)],
        figures=[_curves(report, records), _bars(report, reductions)],
        sentences=_sentences(records, measured),
        missing=[] if measured else [f"FDE and the OOD split need the zero-all weights: {HOW}."],
        numbers={"reduction_percent": reductions, "records": records},
    )


def _read(path: Path) -> list[Row]:
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        assert all({"epoch", "total"} <= row.keys() for row in rows)
        assert any("val_total" in row for row in rows)
    except (ValueError, AssertionError, AttributeError, OSError) as error:
        raise InputError(f"{path} is not a record of newtongs train (metrics.jsonl)") from error
    return rows


def _final(rows: list[Row]) -> Row:
    """The last epoch with a validation, which both runs select."""
    return [row for row in rows if "val_total" in row][-1]


def _recorded(records: dict[str, list[Row]]) -> dict[str, dict[str, float | None]]:
    """Reductions on ID as far as the training record determines them."""
    final = {name: _final(rows) for name, rows in records.items()}

    def error(name: str, metric: str) -> float:
        key, factor, power = FROM_RECORD[metric]
        return (factor * final[name][key]) ** power

    on_id = {
        m: _reduction(error("zero-all", m), error("zero-last", m)) if m in FROM_RECORD else None
        for m in RANKED
    }
    return {"val_id": on_id, "val_ood": dict.fromkeys(RANKED)}


def _measured(report: ReportRun) -> dict[str, dict[str, float | None]]:
    """Reductions of this run's own measurements."""
    return {split: {m: _measured_reduction(report, split, m) for m in RANKED} for split in SPLITS}


def _measured_reduction(report: ReportRun, split: str, metric: str) -> float:
    both = ("zero_all", seed_method(SEED))
    return _reduction(*(report.measured(m, split)["scores"][metric] for m in both))


def _reduction(before: float, after: float) -> float:
    """``100 (E_all - E_last) / E_all``."""
    return 100 * (before - after) / before


def _objectives(records: dict[str, list[Row]]) -> Table:
    published = paper()["initialisation"]["final_id_objective"]
    rows: list[list[Cell]] = []
    for name, key in RUNS.items():
        last = _final(records[name])
        rows.append(
            [
                name, str(last["epoch"]), Value(last["val_total"], published[key], 6),
                Value(last["total"], digits=6),
            ]
        )  # fmt: skip
    return Table(
        "Final objectives", ["Run", "Epoch", "Full ID objective", "Training objective"], rows,
        f"Seed {SEED}, from the training records. The paper prints no training objective.",
    )  # fmt: skip


def _table(reductions: dict[str, dict[str, float | None]]) -> Table:
    published = paper()["initialisation"]["reduction_percent"]
    rows: list[list[Cell]] = []
    for split in SPLITS:
        cells = [
            "not measured" if (x := reductions[split][m]) is None
            else Value(x, published[split][m], 2, unit="%")
            for m in RANKED
        ]  # fmt: skip
        rows.append([NAMES[split], *cells])
    heads = ["Split", *(HEADINGS[m] for m in RANKED)]
    return Table("Lower error with zero-last, in percent of zero-all's", heads, rows)


def _curves(report: ReportRun, records: dict[str, list[Row]]) -> Figure:
    def curve(name: str, key: str) -> tuple[list[int], list[float]]:
        rows = [row for row in records[name] if key in row]
        return [row["epoch"] for row in rows], [row[key] for row in rows]

    titles = {"Training objective": "total", "Full ID objective": "val_total"}
    curves = {title: {n: curve(n, key) for n in RUNS} for title, key in titles.items()}
    published = paper()["initialisation"]["final_id_objective"]
    finals = {name: published[key] for name, key in RUNS.items()}
    name = objective_curves(report.figures / "initialisation_curves", curves, finals)
    return Figure(name, f"Recorded objectives of the two runs, seed {SEED}, 100 epochs each.")


def _bars(report: ReportRun, reductions: dict[str, dict[str, float | None]]) -> Figure:
    published = paper()["initialisation"]["reduction_percent"]
    name = reduction_bars(
        report.figures / "initialisation_changes",
        {NAMES[s]: reductions[s] for s in SPLITS},
        {NAMES[s]: published[s] for s in SPLITS},
        {m: HEADINGS[m] for m in RANKED},
    )
    return Figure(name, "Change of the five errors from zero-all to zero-last; positive is better.")


def _sentences(records: dict[str, list[Row]], measured: bool) -> list[str]:
    published = paper()["initialisation"]["final_id_objective"]
    parts = []
    for name, key in RUNS.items():
        ours = _final(records[name])["val_total"]
        parts.append(f"{name} {ours:.4f} ({100 * (ours / published[key] - 1):+.2f} %)")
    source = "measured on both splits" if measured else (
        "taken from the training records, which hold the ID errors in position, velocity, "
        "orientation and scale"
    )  # fmt: skip
    return [
        f"Full ID objectives against the paper's: {', '.join(parts)}.",
        f"The changes are {source}. One run each, so the scatter over seeds is unknown; "
        "the paper's two runs also differ in how their batches were distributed (eight and "
        "six processes against seven), ours do not. That, other training data and other initial "
        "weights are what the two comparisons do not share.",
    ]

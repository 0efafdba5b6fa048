"""Table 2: Same-32, the cone on the construction floor in each of the 32 motions."""

import json
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

import torch

from ....base.types import StateTensor
from ...datasets import gaussian32, same32
from ...evaluation import same32 as evaluation
from ...evaluation.evaluate import MethodReport
from ...evaluation.table import Cell, Table, Value
from ...evaluation.tables import HEADINGS, LABELS, RANKED, RECORDS, paper
from ..content import Section, unexplained, within
from ..registry import section
from ..report_run import SEEDS, ReportRun, seed_method, weights_file

COLUMNS = (*RANKED, "plane_violation")
L4GM = "l4gm"
ROWS = (*evaluation.BASELINES, L4GM, "newtongs")  # the paper's order
NAMES = LABELS | {L4GM: "L4GM video-to-4DGS"}
Runs = dict[str, list[MethodReport]]
WHY = "The paper's set is one draw of 32 sequences that cannot be recovered."
L4GM_MISSING = (
    "L4GM's row needs that model's own output: put its dumps, one file per motion, into a folder "
    "and give it with --l4gm DIR; docs/l4gm.md says how to make them."
)


def same32_states() -> StateTensor:
    """Labelled states ``(32, 49, 22)``, as the data set holds them."""
    made = [gaussian32.sequence(item).states[item.repeat] for item in same32.members()]
    return torch.stack(made)


def _inputs(report: ReportRun) -> dict[str, Path]:
    weights = {f"weights {s}": weights_file(seed_method(s)) for s in SEEDS}
    return {name: p for name, p in {"l4gm": report.l4gm, **weights}.items() if p}


@section("table2", "Comparison on Same-32", "Table 2", inputs=_inputs, seconds=5)
def make(report: ReportRun) -> Section:
    """The rows that need no other program, and L4GM's if its dumps are given."""
    runs = _runs(report)
    table = _table(runs)
    largest = max(stdev(_scores(runs, "newtongs", c)) for c in RANKED)
    values = table.values()
    return Section(
        tables=[table],
        sentences=[
            within(values, "figures", near=10),
            *unexplained(values, WHY),
            f"{WHY} Over random draws of such a set traj alone scatters by 6 to 8 %, so that "
            "the rows are compared with that scatter and not digit by digit.",
            f"The largest standard deviation of NewtonGS over its three runs is {largest:.4f} "
            f"(paper {paper()['seed_deviation_max']['same32']:.4f}).",
        ],
        missing=[] if L4GM in runs else [L4GM_MISSING],
        numbers={
            "largest_deviation_over_runs": largest,
            "scores": {m: {c: fmean(_scores(runs, m, c)) for c in COLUMNS} for m in runs},
        },
    )


def _runs(report: ReportRun) -> Runs:
    """Scores by method, one report per run."""
    states = same32_states()
    return evaluation.run_same32(states, l4gm=report.l4gm, progress=report.progress)


def _table(runs: Runs) -> Table:
    lowest = {c: min(fmean(_scores(runs, m, c)) for m in runs if m in ROWS) for c in RANKED}
    rows: list[list[Cell]] = [
        [NAMES[m], *[_cell(runs, m, c, lowest.get(c)) for c in COLUMNS]]
        if m in runs
        else _absent(m)
        for m in ROWS
    ]
    return Table(
        "Table 2: errors on Same-32, lower is better",
        ["Method", *(HEADINGS[c] for c in COLUMNS)],
        rows,
        "NewtonGS: mean and sample standard deviation over three runs. Bold: lowest of a ranked "
        "metric among the rows that are ours; one marked paper is the paper's own. Plane viol. is "
        "a diagnostic.",
    )


def _absent(method: str) -> list[Cell]:
    """The paper's row of a method that was not run."""
    published = paper()["same32"][method]
    return [NAMES[method], *[f"paper {published[c]:.4f}" for c in COLUMNS]]


def _scores(runs: Runs, method: str, metric: str) -> list[float]:
    values = [run[metric] for run in runs[method]]
    return [x for x in values if isinstance(x, float)]


@cache
def _drawn_scatter() -> dict[str, dict[str, float]]:
    """Standard deviation of each figure over random draws of such a set."""
    draws = json.loads((RECORDS / "same32_draws.json").read_text())["scores"]
    return {m: {c: stdev(x) for c, x in row.items()} for m, row in draws.items()}


def _cell(runs: Runs, method: str, metric: str, lowest: float | None) -> Value:
    values = _scores(runs, method, metric)
    published = paper()["same32"][method][metric]
    scatter = _drawn_scatter().get(method, {}).get(metric)
    return Value(
        fmean(values),
        published,
        digits=6 if metric == "plane_violation" else 4,
        spread=stdev(values) if method == "newtongs" else None,
        error=scatter * 2**0.5 if scatter else None,
        best=fmean(values) == lowest,
    )

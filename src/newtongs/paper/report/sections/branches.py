"""Appendix D: the trained model with one or both residual networks set to zero."""

from ...evaluation.table import Table, Value
from ...evaluation.tables import HEADINGS, RANKED, paper
from ..content import Section, unexplained, within
from ..registry import on_both_splits, section
from ..report_run import REMOVED, SEED, SPLITS, ReportRun, seed_method
from .table1 import NAMES, TRANSLATION, WHY

VARIANTS = {
    "full": seed_method(SEED),
    "no_continuous_residual": "no_continuous_residual",
    "no_contact_residual": "no_contact_residual",
    "no_residual_branches": "no_residual_branches",
}
assert set(REMOVED) < set(VARIANTS)


@section(
    "branches",
    "Post-hoc branch removal",
    "Appendix D, post-hoc branch removal",
    measures=on_both_splits(*VARIANTS.values()),
)
def make(report: ReportRun) -> Section:
    """The table, and the order of its rows."""
    table = Table(
        "Residual networks of run 7301 removed without retraining, lower is better",
        ["Split", "Variant", *(HEADINGS[c] for c in RANKED)],
        [
            [NAMES[split], variant.replace("_", " "), *_cells(report, split, variant)]
            for split in SPLITS
            for variant in VARIANTS
        ],
    )
    values = table.values()
    translation = [x for x in values if x[0].split()[-1] in ("Traj", "FDE", "Vel")]
    return Section(
        tables=[table],
        sentences=[
            within(translation, "figures in traj, FDE and vel"),
            *unexplained(values, WHY),
            *(_both_removed(report, metric) for metric in ("traj", "fde")),
            _order(report),
        ],
    )


def _scores(report: ReportRun, split: str, variant: str) -> dict[str, float]:
    return report.measured(VARIANTS[variant], split)["scores"]


def _cells(report: ReportRun, split: str, variant: str) -> list[Value]:
    measured = report.measured(VARIANTS[variant], split)
    published = paper()["branches"][split][variant]
    return [
        Value(measured["scores"][c], published[c], 6, error=report.error(measured, c))
        for c in RANKED
    ]


def _increase(scores: dict[str, dict[str, float]], metric: str) -> float:
    return 100 * (scores["no_residual_branches"][metric] / scores["full"][metric] - 1)


def _both_removed(report: ReportRun, metric: str) -> str:
    parts = []
    for split in SPLITS:
        ours = {v: _scores(report, split, v) for v in VARIANTS}
        theirs = paper()["branches"][split]
        parts.append(
            f"{_increase(ours, metric):.2f} % on {NAMES[split]} "
            f"(paper {_increase(theirs, metric):.2f} %)"
        )
    return f"Without both networks {HEADINGS[metric]} is higher by {' and '.join(parts)}."


def _order(report: ReportRun) -> str:
    same = 0
    for split in SPLITS:
        for metric in TRANSLATION:
            ours = {v: _scores(report, split, v)[metric] for v in VARIANTS}
            theirs = {v: paper()["branches"][split][v][metric] for v in VARIANTS}
            same += sorted(ours, key=ours.__getitem__) == sorted(theirs, key=theirs.__getitem__)
    return f"The four variants are in the paper's order in {same} of 6 translation columns."

"""Appendix D: the trained model with one or both residual networks set to zero."""

from collections.abc import Iterator

from ...evaluation.tables import HEADINGS, RANKED, paper
from ..content import Section, Table, Value
from ..context import REMOVED, SEED, SPLITS, Context, seed_method
from ..registry import section
from ..words import unexplained, within
from .table1 import NAMES, TRANSLATION, WHY

VARIANTS = {
    "full": seed_method(SEED),
    "no_continuous_residual": "no_continuous_residual",
    "no_contact_residual": "no_contact_residual",
    "no_residual_branches": "no_residual_branches",
}
assert set(REMOVED) < set(VARIANTS)


def _pairs(context: Context) -> Iterator[tuple[str, str]]:
    for method in VARIANTS.values():
        for split in SPLITS:
            yield method, split


@section(
    "branches", "Post-hoc branch removal", "Appendix D, post-hoc branch removal", measures=_pairs
)
def make(context: Context) -> Section:
    """The table, and the order of its rows."""
    table = Table(
        "Residual networks of run 7301 removed without retraining, lower is better",
        ["Split", "Variant", *(HEADINGS[c] for c in RANKED)],
        [
            [NAMES[split], variant.replace("_", " "), *_cells(context, split, variant)]
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
            *(_both_removed(context, metric) for metric in ("traj", "fde")),
            _order(context),
        ],
    )


def _scores(context: Context, split: str, variant: str) -> dict[str, float]:
    return context.measured(VARIANTS[variant], split)["scores"]


def _cells(context: Context, split: str, variant: str) -> list[Value]:
    measured = context.measured(VARIANTS[variant], split)
    published = paper()["branches"][split][variant]
    return [
        Value(measured["scores"][c], published[c], 6, error=context.error(measured, c))
        for c in RANKED
    ]


def _increase(scores: dict[str, dict[str, float]], metric: str) -> float:
    return 100 * (scores["no_residual_branches"][metric] / scores["full"][metric] - 1)


def _both_removed(context: Context, metric: str) -> str:
    parts = []
    for split in SPLITS:
        ours = {v: _scores(context, split, v) for v in VARIANTS}
        theirs = paper()["branches"][split]
        parts.append(
            f"{_increase(ours, metric):.2f} % on {NAMES[split]} "
            f"(paper {_increase(theirs, metric):.2f} %)"
        )
    return f"Without both networks {HEADINGS[metric]} is higher by {' and '.join(parts)}."


def _order(context: Context) -> str:
    same = 0
    for split in SPLITS:
        for metric in TRANSLATION:
            ours = {v: _scores(context, split, v)[metric] for v in VARIANTS}
            theirs = {v: paper()["branches"][split][v][metric] for v in VARIANTS}
            same += sorted(ours, key=ours.__getitem__) == sorted(theirs, key=theirs.__getitem__)
    return f"The four variants stand in the paper's order in {same} of 6 translation columns."

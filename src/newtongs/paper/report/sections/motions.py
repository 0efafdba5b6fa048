"""Appendix E: trajectory error of every motion, its gain over the prior, and the heat map."""

from collections.abc import Sequence
from statistics import median

from ....motions import STATE32
from ...evaluation.table import CLEAR, Cell, Table, Value
from ...evaluation.tables import paper
from ...figures.plots import CLIP, gain_heat_map
from ..content import Figure, Named, Section, unexplained, within
from ..registry import on_both_splits, section
from ..report_run import SEED, SPLITS, ReportRun, seed_method
from .table1 import NAMES

PRIOR, OURS = "physics_prior_se3", seed_method(SEED)
SMALL = ("3d rotation", "scale pulse", "sliding then stop")
WHY = (
    "The prior is fixed, so its differences are the draw alone. NewtonGS is retrained, and a "
    "class of small motion (3D rotation, scale pulse, sliding to a stop) shows in percent what "
    "drift the networks happened to learn."
)


@section(
    "motions", "Motion-wise results and heat map", "Appendix E, motion-wise results",
    measures=on_both_splits(OURS, PRIOR),
)  # fmt: skip
def make(report: ReportRun) -> Section:
    """The table of 32 rows, its summary, and the map of its gains."""
    gains = {split: _gains(report, split) for split in SPLITS}
    table, summary = _table(report, gains), _summary(gains)
    figure = gain_heat_map(
        report.figures / "motion_gains",
        names=sorted(STATE32),
        ours=gains,
        paper={s: {n: paper()["per_motion_gain_percent"][n][s] for n in STATE32} for s in SPLITS},
        titles=NAMES,
    )
    values = [x for x in table.values() if x[1].unit != "%"]
    return Section(
        tables=[summary, table],
        figures=[_figure(figure)],
        sentences=[
            within(values, "class errors", near=3),
            *unexplained(values, WHY),
            *_without_reason(values),
            *_extremes(gains),
        ],
        numbers={"gain_percent": gains},
    )


def _without_reason(values: Sequence[Named]) -> list[str]:
    """The figures that neither the draws nor a small motion explains."""
    far = [name for name, x in values if (x.errors or 0) > CLEAR and not name.startswith(SMALL)]
    if not far:
        return []
    return [f"For {', '.join(far)} we have no explanation: these are no small motions."]


def _figure(name: str) -> Figure:
    return Figure(
        name,
        "Reduction of each motion's trajectory RMSE relative to Physics-Prior-SE(3), in percent, "
        f"run {SEED}; positive favours NewtonGS. Colours are clipped at ±{CLIP:g} %, the printed "
        "values are not.",
    )


def _traj(report: ReportRun, method: str, split: str, motion: str) -> float:
    return report.measured(method, split)["per_motion"][motion]["traj"]


def _gains(report: ReportRun, split: str) -> dict[str, float]:
    """``100 (E_prior - E_ours) / E_prior`` of every motion."""
    gains = {}
    for motion in STATE32:
        prior, ours = (_traj(report, m, split, motion) for m in (PRIOR, OURS))
        gains[motion] = 100 * (prior - ours) / prior
    return gains


def _table(report: ReportRun, gains: dict[str, dict[str, float]]) -> Table:
    heads = [f"{NAMES[s]} {what}" for s in SPLITS for what in ("NewtonGS", "Prior", "gain")]
    rows: list[list[Cell]] = []
    for motion in sorted(STATE32):
        cells = [x for split in SPLITS for x in _cells(report, split, motion, gains)]
        rows.append([motion.replace("_", " "), *cells])
    return Table(
        "Trajectory RMSE of every motion and gain over Physics-Prior-SE(3)",
        ["Motion", *heads],
        rows,
        f"Run {SEED}, {report.size:,} sequences per motion; the paper's gains as printed.",
    )


def _cells(
    report: ReportRun, split: str, motion: str, gains: dict[str, dict[str, float]]
) -> list[Value]:
    published = paper()["per_motion_traj"][motion][split]
    cells = []
    for method, key in ((OURS, "newtongs"), (PRIOR, PRIOR)):
        row = report.measured(method, split)["per_motion"][motion]
        error = report.enlarged(row["traj_error"])
        cells.append(Value(row["traj"], published[key], 3, error=error))
    gain = paper()["per_motion_gain_percent"][motion][split]
    return [*cells, Value(gains[split][motion], gain, 1, unit="%")]


def _summary(gains: dict[str, dict[str, float]]) -> Table:
    rows: list[list[Cell]] = []
    for split in SPLITS:
        values, published = gains[split].values(), paper()["motion_gains"][split]
        count = Value(float(sum(g > 0 for g in values)), float(published["count"]), 0)
        middle = Value(median(values), published["median_percent"], 2, unit="%")
        rows.append([NAMES[split], count, middle])
    heads = ["Split", "Motions of 32 with a gain", "Median gain, percent"]
    return Table("Gains in short", heads, rows)


def _extremes(gains: dict[str, dict[str, float]]) -> list[str]:
    order = sorted(STATE32, key=lambda n: min(gains[s][n] for s in SPLITS))
    best, worst = order[:-4:-1], order[:3]
    return [
        f"The largest gains on both splits: {_names(best)} (paper: stop and go motion, rolling "
        "then collision, two stage motion).",
        f"The largest losses: {_names(worst)} (paper: 3d rotation, sliding then stop, scale "
        "pulse).",
    ]


def _names(motions: list[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in motions)

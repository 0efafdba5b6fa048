"""Facts that the report's measurements and sections answer."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ....dynamics import BASELINES
from ....motions import STATE32
from ...evaluation.ablations import ABLATIONS, table
from ...evaluation.same32 import BASELINES as SAME32_BASELINES
from ...evaluation.table import CLEAR, Value
from ...evaluation.tables import RANKED, RECORDS
from ...evaluation.tables import paper as figures_of_the_paper
from ..report_run import SEED, SEEDS, SPLITS, seed_method
from .evidence import Evidence, NotMeasuredError, fact

OURS, PRIOR = "newtongs", "physics_prior_se3"
RUN = seed_method(SEED)
TRANSLATION = ("traj", "fde", "vel")
ALIKE_PERCENT = 0.5  # from the paper's figure; counts as the same where no standard error is known
NAMES = {"val_id": "ID", "val_ood": "OOD"}
MAIN_TABLE = {"table1": 0, "table2": 0, "branches": 0, "motions": 1}
DRAWS = RECORDS / "same32_draws.json"
RELEASED = RECORDS / "common12_released.json"


@fact
def near(_: Evidence, ours: float, theirs: float, share: float) -> bool:
    """Whether a figure differs from the paper's by at most a share of it."""
    return abs(ours - theirs) <= share * abs(theirs)


@fact
def reduces_alike(_: Evidence, ours: float, theirs: float, spread: float) -> bool:
    """Whether an error is reduced at all, and by as much as two draws of a known spread allow."""
    return ours > 0 and abs(ours - theirs) <= CLEAR * 2**0.5 * spread


@fact
def published(_: Evidence, *keys: str) -> float:
    """A figure of the paper."""
    found: Any = figures_of_the_paper()
    for key in keys:
        found = found[key]
    return float(found)


@fact
def min(_: Evidence, *values: float) -> float:
    """The smallest."""
    return sorted(values)[0]


# --- State-32 -------------------------------------------------------------------------------------


def _score(run: Evidence, method: str, split: str, metric: str) -> float:
    """A method's score; ``newtongs`` is the mean over the runs."""
    methods = [seed_method(s) for s in SEEDS] if method == OURS else [method]
    return fmean(run.measured(m, split)["scores"][metric] for m in methods)


def _best(run: Evidence, split: str, metric: str) -> float:
    return sorted(_score(run, b, split, metric) for b in BASELINES)[0]


@fact
def margin(run: Evidence, split: str, metric: str) -> float:
    """Percent by which NewtonGS is below the best baseline."""
    return 100 * (1 - _score(run, OURS, split, metric) / _best(run, split, metric))


def _margins(run: Evidence) -> list[float]:
    return sorted(margin(run, split, metric) for split in SPLITS for metric in TRANSLATION)


@fact
def smallest_margin(run: Evidence) -> float:
    """The smallest of the six translation margins."""
    return _margins(run)[0]


@fact
def largest_margin(run: Evidence) -> float:
    """The largest of them."""
    return _margins(run)[-1]


@fact
def columns_led(run: Evidence) -> float:
    """Translation columns of both splits in which NewtonGS is lowest."""
    return sum(x > 0 for x in _margins(run))


@fact
def led(run: Evidence, metric: str, method: str = OURS) -> float:
    """Splits on which a method has the lowest value of a metric."""
    rivals = (*BASELINES, OURS)
    scores = [{m: _score(run, m, split, metric) for m in rivals} for split in SPLITS]
    return sum(_lowest(row) == method for row in scores)


def _lowest(scores: Mapping[str, float]) -> str:
    return sorted(scores, key=scores.__getitem__)[0]


@fact
def seed_spread(run: Evidence) -> float:
    """Largest standard deviation over the three runs."""
    return float(run.numbers("table1")["largest_deviation_over_runs"])


@fact
def smallest_gap(run: Evidence) -> float:
    """Smallest distance to the best baseline in a translation column."""
    return sorted(
        _best(run, split, metric) - _score(run, OURS, split, metric)
        for split in SPLITS
        for metric in TRANSLATION
    )[0]


@fact
def change(run: Evidence, method: str, reference: str, split: str, metric: str) -> float:
    """Percent by which a method's score is above another's."""
    above = _score(run, method, split, metric) / _score(run, reference, split, metric)
    return 100 * (above - 1)


@fact
def single_branches_worse(run: Evidence) -> float:
    """Translation figures that are worse without one of the networks, of twelve."""
    return sum(
        change(run, variant, RUN, split, metric) > 0
        for variant in ("no_continuous_residual", "no_contact_residual")
        for split in SPLITS
        for metric in TRANSLATION
    )


@fact
def contact_removal_lowers(run: Evidence) -> float:
    """How many of Scale ID, Scale OOD and Quat OOD are lower without the contact network."""
    where = (("val_id", "scale"), ("val_ood", "scale"), ("val_ood", "quat"))
    return sum(change(run, "no_contact_residual", RUN, *at) < 0 for at in where)


@fact
def earliest_best_epoch(run: Evidence) -> float:
    """The earliest epoch at which one of the three runs had its lowest ID objective."""
    return sorted(_best_epoch(run, seed) for seed in SEEDS)[0]


def _best_epoch(run: Evidence, seed: int) -> int:
    path = run.report.results_folder / "training" / f"seed{seed}.jsonl"
    if not path.is_file():
        raise NotMeasuredError(str(path))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row for row in rows if "val_total" in row]
    if not rows:
        raise NotMeasuredError(str(path))
    return int(sorted(rows, key=lambda row: row["val_total"])[0]["epoch"])


# --- figures of whole tables ----------------------------------------------------------------------


def _compared(run: Evidence, name: str) -> list[tuple[str, Value]]:
    """The figures of a section's main table that stand beside the paper's."""
    values = run.section(name).tables[MAIN_TABLE[name]].values()
    return [(label, x) for label, x in values if x.paper is not None and x.unit == ""]


@fact
def figures(run: Evidence, name: str) -> float:
    """Figures of a section's main table that stand beside the paper's."""
    return len(_compared(run, name))


@fact
def figures_alike(run: Evidence, name: str) -> float:
    """Figures that two random draws explain, or that differ by next to nothing."""
    return sum(_alike(x) for _, x in _compared(run, name))


def _alike(x: Value) -> bool:
    close = x.percent is not None and abs(x.percent) <= ALIKE_PERCENT
    return close or (x.errors is not None and x.errors <= CLEAR) or x.ours == x.paper


@fact
def farthest(run: Evidence, name: str) -> str:
    """The figure that is the most standard errors away from the paper's."""
    label, x = sorted(_compared(run, name), key=lambda row: row[1].errors or 0)[-1]
    return f"{label} with {x.errors:.1f} standard errors"


# --- motions --------------------------------------------------------------------------------------


@fact
def motion(run: Evidence, method: str, split: str, name: str) -> float:
    """A method's trajectory RMSE in a motion."""
    return float(run.measured(method, split)["per_motion"][name]["traj"])


def _gain(run: Evidence, split: str, name: str) -> float:
    return 100 * (1 - motion(run, RUN, split, name) / motion(run, PRIOR, split, name))


@fact
def gains(run: Evidence, split: str) -> float:
    """Motions in which NewtonGS is below Physics-Prior."""
    return sum(_gain(run, split, name) > 0 for name in STATE32)


@fact
def median_gain(run: Evidence, split: str) -> float:
    """Median gain over the motions, in percent."""
    return median(_gain(run, split, name) for name in STATE32)


@fact
def gains_above(run: Evidence, *names: str) -> float:
    """Gains over Physics-Prior among some motions, both splits counted."""
    return sum(_gain(run, split, name) > 0 for split in SPLITS for name in names)


@fact
def published_gains_above(_: Evidence, *names: str) -> float:
    """The same in the paper's table."""
    table = figures_of_the_paper()["per_motion_gain_percent"]
    return sum(table[name][split] > 0 for split in SPLITS for name in names)


def _by_worse_split(run: Evidence) -> list[str]:
    """Motions by the lower of their two gains."""
    return sorted(STATE32, key=lambda n: sorted(_gain(run, s, n) for s in SPLITS)[0])


@fact
def among_largest_gains(run: Evidence, *names: str) -> float:
    """How many of some motions are among as many with the largest gains on both splits."""
    return len(set(names) & set(_by_worse_split(run)[-len(names) :]))


@fact
def among_largest_losses(run: Evidence, *names: str) -> float:
    """How many of some motions are among as many with the largest losses."""
    return len(set(names) & set(_by_worse_split(run)[: len(names)]))


@fact
def better_than_standing(run: Evidence, *names: str) -> float:
    """Motions that NewtonGS predicts better on ID than Hold-Z0 does."""
    return sum(motion(run, RUN, "val_id", n) < motion(run, "hold_z0", "val_id", n) for n in names)


@fact
def motions_led(run: Evidence) -> float:
    """Motions on ID in which NewtonGS is the lowest of the six methods."""
    rivals = (*BASELINES, RUN)
    rows = ({m: motion(run, m, "val_id", name) for m in rivals} for name in STATE32)
    return sum(_lowest(row) == RUN for row in rows)


# --- Same-32 --------------------------------------------------------------------------------------


@fact
def same32(run: Evidence, method: str, metric: str) -> float:
    """A method's score on our draw of Same-32."""
    return float(run.numbers("table2")["scores"][method][metric])


@fact
def same32_led(run: Evidence, metric: str, method: str = OURS) -> float:
    """1 if a method is the lowest of those that start from Z0, else 0."""
    row = {m: same32(run, m, metric) for m in (*SAME32_BASELINES, OURS)}
    return float(_lowest(row) == method)


@fact
def same32_over(run: Evidence, method: str, metric: str) -> float:
    """Percent by which NewtonGS is below a method."""
    return 100 * (1 - same32(run, OURS, metric) / same32(run, method, metric))


@fact
def same32_margin(run: Evidence, metric: str) -> float:
    """Percent by which NewtonGS is below the best baseline."""
    return sorted(same32_over(run, m, metric) for m in SAME32_BASELINES)[0]


@fact
def same32_better(run: Evidence, method: str) -> float:
    """Ranked metrics in which NewtonGS is below a method."""
    return sum(same32_over(run, method, metric) > 0 for metric in RANKED)


@fact
def same32_spread(run: Evidence) -> float:
    """Largest standard deviation over the three runs."""
    return float(run.numbers("table2")["largest_deviation_over_runs"])


@cache
def _draws() -> dict[str, dict[str, np.ndarray]]:
    """Scores over random draws of such a set, by method and metric."""
    scores = json.loads(DRAWS.read_text())["scores"]
    return {m: {c: np.array(x) for c, x in row.items()} for m, row in scores.items()}


@fact
def draws(_: Evidence) -> float:
    """Number of random draws."""
    return len(_draws()[OURS]["traj"])


def _drawn_over(metric: str, methods: Iterable[str]) -> np.ndarray:
    """Percent by which NewtonGS is below the best of some methods, in every draw."""
    best = np.min([_draws()[m][metric] for m in methods], axis=0)
    return np.asarray(100 * (1 - _draws()[OURS][metric] / best))


@fact
def draws_led(_: Evidence, metric: str) -> float:
    """Share of the draws in which NewtonGS is lowest."""
    return float((_drawn_over(metric, SAME32_BASELINES) > 0).mean())


@fact
def draws_margin(_: Evidence, metric: str) -> float:
    """Mean margin over the draws, in percent."""
    return float(_drawn_over(metric, SAME32_BASELINES).mean())


@fact
def draws_margin_spread(_: Evidence, metric: str) -> float:
    """Its standard deviation."""
    return float(_drawn_over(metric, SAME32_BASELINES).std(ddof=1))


@fact
def draws_margin_errors(run: Evidence, metric: str, theirs: float) -> float:
    """Standard deviations between a figure of the paper and that mean."""
    return abs(theirs - draws_margin(run, metric)) / draws_margin_spread(run, metric)


@fact
def draws_over(_: Evidence, metric: str) -> float:
    """Mean over the draws of the percentage below Physics-Prior."""
    return float(_drawn_over(metric, [PRIOR]).mean())


@fact
def draws_over_spread(_: Evidence, metric: str) -> float:
    """Its standard deviation."""
    return float(_drawn_over(metric, [PRIOR]).std(ddof=1))


# --- Common-12 ------------------------------------------------------------------------------------


@fact
def released_figures(_: Evidence) -> float:
    """Figures of released clips that were measured."""
    return float(json.loads(RELEASED.read_text())["agreement"]["figures"])


@fact
def released_figures_alike(_: Evidence) -> float:
    """How many of them agreed with the paper's."""
    return float(json.loads(RELEASED.read_text())["agreement"]["alike"])


def _row(run: Evidence, column: str, what: str) -> float:
    rows = run.numbers("table3")["rows"]
    if OURS not in rows:
        raise NotMeasuredError("our clips")
    return float(rows[OURS][column][what])


COLUMNS = ("pis_p", "bc_p", "ms_p")


def _others(column: str, what: str) -> list[float]:
    table = figures_of_the_paper()["common12"]
    return [row[column][what] for name, row in table.items() if name != OURS]


@fact
def clips_led(run: Evidence, what: str) -> float:
    """Columns in which our row has the highest mean, or the lowest ``std``."""
    if what == "mean":
        return sum(_row(run, c, what) > sorted(_others(c, what))[-1] for c in COLUMNS)
    return sum(_row(run, c, what) < sorted(_others(c, what))[0] for c in COLUMNS)


def _wan(column: str, what: str) -> float:
    return float(figures_of_the_paper()["common12"]["wan"][column][what])


@fact
def clips_over_wan(run: Evidence, column: str) -> float:
    """Percent by which our mean is above Wan's in the paper."""
    return 100 * (_row(run, column, "mean") / _wan(column, "mean") - 1)


@fact
def clips_steadier_than_wan(run: Evidence, column: str) -> float:
    """Percent by which our standard deviation is below Wan's in the paper."""
    return 100 * (1 - _row(run, column, "std") / _wan(column, "std"))


@fact
def frozen(run: Evidence, column: str) -> float:
    """The score of a frozen video."""
    return float(run.numbers("table3")["frozen_video"][column])


@fact
def best_published(_: Evidence, column: str) -> float:
    """The highest mean of the paper's table."""
    return float(sorted(r[column]["mean"] for r in figures_of_the_paper()["common12"].values())[-1])


# --- pictures -------------------------------------------------------------------------------------


def _main(run: Evidence) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = run.numbers("main_figure")["traj"]
    return {m: {k: x for k, x in row.items() if k != "ground truth"} for m, row in rows.items()}


@fact
def main_cases(run: Evidence) -> float:
    """Motions of the main figure."""
    return len(_main(run))


@fact
def main_led(run: Evidence) -> float:
    """Those in which NewtonGS has the lowest trajectory RMSE."""
    return sum(_lowest(row) == "NewtonGS" for row in _main(run).values())


@fact
def gallery_lost(run: Evidence) -> float:
    """Rows of the gallery whose object leaves the picture."""
    return len(run.numbers("gallery")["paper"]["reasons"])


# --- Appendix D and E -----------------------------------------------------------------------------


@fact
def objective(run: Evidence, which: str) -> float:
    """Final ID objective of ``zero_all`` or ``zero_last``."""
    rows = run.numbers("initialisation")["records"][which.replace("_", "-")]
    return float([row["val_total"] for row in rows if "val_total" in row][-1])


@fact
def reduction(run: Evidence, split: str, metric: str) -> float:
    """Percent by which zero-last is below zero-all."""
    found = run.numbers("initialisation")["reduction_percent"][split][metric]
    if found is None:
        raise NotMeasuredError("the zero-all weights")
    return float(found)


@fact
def reductions_above_zero(run: Evidence) -> float:
    """How many of the ten reductions are reductions."""
    return sum(reduction(run, split, metric) > 0 for split in SPLITS for metric in RANKED)


@fact
def full_size_ablations(run: Evidence) -> float:
    """Ablations with a record at the paper's size."""
    return len(_ablated(run)["paper"])


@fact
def laptop_ablations(run: Evidence) -> float:
    """Ablations with a record at the laptop's size alone."""
    return len(_ablated(run)["laptop"] - _ablated(run)["paper"])


def _ablated(run: Evidence) -> dict[str, set[str]]:
    rows = table(run.report.results_folder / "ablations", shipped=RECORDS)
    return {
        size: {row["name"] for row in rows if row["size"] == size} & ABLATIONS.keys()
        for size in ("paper", "laptop")
    }


@fact
def response_rank(run: Evidence, parameter: str) -> float:
    """Rank correlation of the full model's response with a parameter."""
    found = run.numbers("response")[parameter]
    return float(spearmanr(found["values"], found["full"]).statistic)


@fact
def response_end(run: Evidence, parameter: str) -> float:
    """The response at the paper's endpoint: the lowest restitution, the highest of the others."""
    return float(
        run.numbers("response")[parameter]["full"][0 if parameter == "restitution" else -1]
    )


SIX = (*BASELINES, RUN)


def _points(run: Evidence, split: str) -> np.ndarray:
    """Traj and PIS-3D of the six methods ``(6, 2)``."""
    scores = [run.measured(m, split)["scores"] for m in SIX]
    return np.array([[x["traj"], x["pis3d"]] for x in scores])


@fact
def pis3d_rank(run: Evidence, split: str) -> float:
    """Rank correlation of PIS-3D with trajectory RMSE."""
    return float(spearmanr(*_points(run, split).T).statistic)


@fact
def pis3d_share(run: Evidence, split: str, theirs: float) -> float:
    """Percent of the resampled splits with a given rank correlation."""
    drawn = run.numbers("pis3d")["correlations_over_draws"]
    found = np.array(drawn[NAMES[split]])
    return float(100 * (np.abs(found - theirs) < 0.0015).mean())


@fact
def pis3d_place(run: Evidence, method: str) -> float:
    """Place of a method by PIS-3D on ID, 1 for the highest."""
    scores = dict(zip(SIX, _points(run, "val_id")[:, 1], strict=True))
    return sum(x >= scores[method] for x in scores.values())

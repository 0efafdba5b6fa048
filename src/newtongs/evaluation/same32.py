"""Table 2 on Same-32: the rows that need no external model.

The draw of the paper's seed cannot be recovered, so its figures are those of other 32 sequences of
the same families. :data:`EXPECTED` says what the methods score over random draws of such a set, and
how far single draws scatter.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.table import Table

from ..datasets import same32
from ..datasets.gaussian32 import DT
from ..datasets.gaussian_sample import FRAMES
from ..datasets.state32 import State32
from ..dynamics import GaussianNND
from ..dynamics.backends import predictor
from ..dynamics.baselines import Predictor
from ..dynamics.weights import load_pretrained
from ..errors import InputError
from ..state import DIM, as_tensor, checked_device
from ..types import StateTensor
from .evaluate import MethodReport, evaluate, methods_by_name
from .tables import HEADINGS, RANKED, cell, label, lowest, paper

BASELINES = ("hold_z0", "gravity_bounce_se3", "physics_prior_se3")
MODEL = "newtongs"
COLUMNS = (*RANKED, "plane_violation")

# Mean and standard deviation over random 32-sample sets: 4,000 of them, 400 for the model.
EXPECTED: dict[str, dict[str, tuple[float, float]]] = {
    "hold_z0": {
        "traj": (2.458, 0.154), "fde": (2.976, 0.199), "vel": (4.799, 0.239),
        "quat": (0.3907, 0.0100), "scale": (0.0844, 0.0027),
    },
    "gravity_bounce_se3": {
        "traj": (2.493, 0.190), "fde": (3.139, 0.205), "vel": (3.468, 0.208),
        "quat": (0.1551, 0.0122), "scale": (0.3538, 0.0163),
    },
    "physics_prior_se3": {
        "traj": (2.471, 0.187), "fde": (3.114, 0.202), "vel": (3.461, 0.206),
        "quat": (0.1662, 0.0124), "scale": (0.3107, 0.0122),
    },
    MODEL: {
        "traj": (2.392, 0.173), "fde": (2.984, 0.191), "vel": (3.379, 0.205),
        "quat": (0.1469, 0.0161), "scale": (0.3038, 0.0121),
    },
}  # fmt: skip


def shipped_seeds() -> list[int]:
    """Seeds of the models that come with the package."""
    folder = Path(str(files("newtongs").joinpath("checkpoints")))
    return sorted(int(p.stem.removeprefix("state32_seed")) for p in folder.glob("state32_seed*"))


def evaluate_same32(
    data: Path | str | StateTensor,
    *,
    methods: Sequence[str] = BASELINES,
    models: Sequence[GaussianNND] | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, MethodReport]:
    """Scores by method: the analytic rows, and NewtonGS as the mean over its models.

    Args:
        data: a Same-32 folder, or its states ``(32, 49, 22)`` in the order of the motions.
        methods: names of baselines; by default those of the paper's table.
        models: trained models; None for all that are shipped, empty for none.
        device: where to predict.
    """
    device = checked_device(device)
    if models is None:
        models = [load_pretrained(seed) for seed in shipped_seeds()]
    runs = {f"{MODEL} {i}": predictor(model.to(device)) for i, model in enumerate(models)}
    chosen: dict[str, Predictor | None] = {**methods_by_name(methods), **runs}
    report = evaluate({"same32": _split(data)}, splits=("same32",), methods=chosen, device=device)
    scores = report["same32"]
    rows = {name: scores[name] for name in methods}
    if runs:
        rows[MODEL] = mean_report([scores[name] for name in runs])
    return rows


def _split(data: Path | str | StateTensor) -> State32:
    """The 32 sequences as :func:`evaluate` takes them."""
    names = tuple(item.motion.name for item in same32.members())
    if isinstance(data, str | Path):
        source, states = Path(data), same32.states(data)[0]
    else:
        source, states = Path("same32"), as_tensor(data, "data")
        if states.shape != (len(names), FRAMES, DIM):
            wanted = (len(names), FRAMES, DIM)
            raise InputError(f"data: expected states {wanted}, got {tuple(states.shape)}")
    return State32(source, "same32", states, torch.arange(len(names)), names, DT)


def mean_report(reports: Sequence[MethodReport]) -> MethodReport:
    """Means of every figure, per motion too."""
    return {key: _mean([report[key] for report in reports]) for key in reports[0]}


def _mean(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        return {key: _mean([x[key] for x in values]) for key in first}
    return fmean(values)


def same32_table(rows: Mapping[str, MethodReport]) -> Table:
    """Our figure, under it the paper's, under it the expectation over draws."""
    table = Table(title="Same-32 (Table 2)", title_justify="left", caption_justify="left")
    table.caption = (
        "* lowest of the ranked metrics\n"
        "second line: the paper's figure, of a draw that cannot be recovered\n"
        "third line: mean and standard deviation over random draws of such a set\n"
        "Plane viol. is a diagnostic; L4GM's row needs that model and is left out"
    )
    table.add_column("Method", no_wrap=True)
    for column in COLUMNS:
        table.add_column(HEADINGS[column], justify="right", no_wrap=True)
    published, best = paper()["same32"], lowest(rows)
    for name, scores in rows.items():
        cells = [cell(c, scores[c], name in best.get(c, ())) for c in COLUMNS]
        table.add_row(label(name), *cells)
        if name in published:
            table.add_row("", *[f"[dim]{published[name][c]:.4f}[/] " for c in COLUMNS])
        table.add_row("", *[_expectation(name, c) for c in COLUMNS], end_section=True)
    return table


def _expectation(method: str, column: str) -> str:
    if column not in EXPECTED.get(method, {}):
        return ""
    mean, deviation = EXPECTED[method][column]
    return f"[dim]{mean:.3f} ±{deviation:.3f}[/] "

"""Table 2 on Same-32: analytic rows, NewtonGS over its seeds, and L4GM if its dumps are given.

The paper's random draw cannot be recovered, so its figures belong to 32 other sequences of the same
families. :data:`EXPECTED` has the methods' expected scores over random draws of such a set, and the
scatter of single draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from ...base.errors import InputError
from ...base.state import DIM, as_tensor, checked_device
from ...base.types import Progress, StateTensor
from ...dynamics import GaussianNND
from ...dynamics.backends import predictor
from ...dynamics.weights import load_pretrained
from ..datasets import same32
from ..datasets.gaussian32 import DT
from ..datasets.gaussian_sample import FRAMES
from ..datasets.state32 import State32
from .evaluate import Method, MethodReport, evaluate, methods_by_name
from .l4gm import GUIDE, L4GM, l4gm_states
from .table import Cell, Table
from .tables import HEADINGS, RANKED, figure, label, lowest, paper

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


Runs = dict[str, list[MethodReport]]


def run_same32(
    data: Path | str | StateTensor,
    *,
    methods: Sequence[str] = BASELINES,
    models: Sequence[GaussianNND] | None = None,
    l4gm: Path | str | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Runs:
    """Scores of every run by method: one run of a deterministic method, one per NewtonGS model.

    Args:
        data: a Same-32 folder, or its states ``(32, 49, 22)`` in the order of the motions.
        methods: names of baselines; by default those of the paper's table.
        models: trained models; None for all shipped ones, empty for none.
        l4gm: folder with L4GM's dumps, ``{sample id}.npy`` each; see :mod:`.l4gm`.
        device: where to predict.
        progress: called with ("L4GM", dumps read, number of dumps).
    """
    device = checked_device(device)
    if models is None:
        models = [load_pretrained(seed) for seed in shipped_seeds()]
    seeds = [f"{MODEL} {i}" for i in range(len(models))]
    chosen: dict[str, Method] = dict(methods_by_name(methods))
    if l4gm is not None:
        chosen[L4GM] = l4gm_states(l4gm, sample_ids(data), progress=progress)
    rows = {name: [name] for name in chosen} | ({MODEL: seeds} if seeds else {})
    chosen |= {s: predictor(m.to(device)) for s, m in zip(seeds, models, strict=True)}
    report = evaluate({"same32": _split(data)}, splits=("same32",), methods=chosen, device=device)
    return {row: [report["same32"][name] for name in names] for row, names in rows.items()}


def evaluate_same32(data: Path | str | StateTensor, **options: Any) -> dict[str, MethodReport]:
    """Scores by method, means over the runs; options as of :func:`run_same32`."""
    return {name: mean_report(runs) for name, runs in run_same32(data, **options).items()}


def table2(runs: Runs) -> dict[str, Any]:
    """Table 2 as data: ours, its spread over runs, and the paper's figure beside it.

    Returns:
        ``{"columns": [...], "rows": {method: row}, "missing": {method: what to do}}``. A row has
        ``runs`` (how many), and by column ``ours``, ``std`` (sample standard deviation over the
        runs, None for one), ``paper``, ``percent`` (our deviation from the paper) and ``expected``
        ([mean, standard deviation] over random draws of such a set).
    """
    absent = {} if L4GM in runs else {L4GM: f"give its dumps with --l4gm DIR; {GUIDE}"}
    rows = {name: _row(name, reports) for name, reports in runs.items()}
    return {"columns": list(COLUMNS), "rows": rows, "missing": absent}


def _row(name: str, runs: Sequence[MethodReport]) -> dict[str, Any]:
    ours = {c: mean_report(runs)[c] for c in COLUMNS}
    theirs = paper()["same32"].get(name, {})
    return {
        "label": label(name),
        "runs": len(runs),
        "ours": ours,
        "std": spread(runs),
        "paper": theirs,
        "percent": {c: 100 * (ours[c] / x - 1) for c, x in theirs.items()},
        "expected": {c: list(x) for c, x in EXPECTED.get(name, {}).items()},
    }


def spread(runs: Sequence[MethodReport]) -> dict[str, float] | None:
    """Sample standard deviation of every figure over the runs; None for a single run."""
    if len(runs) < 2:
        return None
    return {c: stdev(float(run[c]) for run in runs) for c in COLUMNS}  # type: ignore[arg-type]


def sample_ids(data: Path | str | StateTensor) -> list[str]:
    """Names of the samples in the order of the motions, which are those of the dumps."""
    members = same32.members()
    if not isinstance(data, str | Path):
        return [item.sample_id for item in members]
    ids = {row["motion_type"]: row["sample_id"] for row in same32.selected(data)}
    return [ids.get(item.motion.name, item.sample_id) for item in members]


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


def same32_table(runs: Runs) -> Table:
    """Our figure, under it the paper's, under it the expectation over draws."""
    content = table2(runs)
    notes = [
        "* lowest of the ranked metrics; ± sample standard deviation over the trained models",
        "second line: the paper's figure, of a draw that cannot be recovered",
        "third line: mean and standard deviation over random draws of such a set",
        "Plane viol. is a diagnostic",
        *(f"{label(k)}: {todo}" for k, todo in content["missing"].items()),
    ]
    best = lowest({name: mean_report(reports) for name, reports in runs.items()})
    rows: list[list[Cell]] = []
    for name, row in content["rows"].items():
        ours = [figure(c, row["ours"][c], best=name in best.get(c, ())) for c in COLUMNS]
        if row["std"]:
            ours = [replace(x, spread=row["std"][c]) for x, c in zip(ours, COLUMNS, strict=True)]
        rows.append([row["label"], *ours])
        if row["paper"]:
            rows.append(["", *(f"{row['paper'][c]:.4f}" for c in COLUMNS)])
        rows.append(["", *(_expectation(name, c) for c in COLUMNS)])
    headings = ["Method", *(HEADINGS[c] for c in COLUMNS)]
    return Table("Same-32 (Table 2)", headings, rows, "\n".join(notes))


def _expectation(method: str, column: str) -> str:
    if column not in EXPECTED.get(method, {}):
        return ""
    mean, deviation = EXPECTED[method][column]
    return f"{mean:.3f} ±{deviation:.3f}"

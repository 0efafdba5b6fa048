"""Run predictors over State-32 splits and compute every metric, per motion and in total."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...base.errors import InputError, unknown_name
from ...base.ranks import Ranks
from ...base.state import DIM, checked_device, require_finite
from ...base.types import Progress, StateTensor, Times
from ...dynamics.baselines import BASELINES, Predictor, get_baseline
from ..datasets import state32
from .metrics import MetricSums
from .pis3d import PisSums

ORACLE = "oracle"
METHODS = (*BASELINES, ORACLE)
SEEN_METHODS = ("context", "bayes_bound")
RENAMED = {"limit": "bayes_bound"}  # earlier names of methods
UNSEEN = "_unseen"
MAX_BATCH = 65_534


@dataclass(frozen=True)
class SeenPredictor:
    """A method that sees the first states of a sequence, exactly or with noise.

    It is measured twice: over all frames, as in the paper, and over the unseen frames.
    """

    predict: Callable[[StateTensor, Times], StateTensor]
    """From observed states ``(B, k, 22)`` and times ``(T,)`` to states ``(B, T, 22)``."""
    seen: int = 1
    """Number of states that it sees."""
    spoil: Callable[[StateTensor, int], StateTensor] | None = None
    """Noise added to them: a function of the states and the number of the first sequence."""

    def __call__(self, states: StateTensor, times: Times, first: int) -> StateTensor:
        """Predict a batch of sequences ``(B, T, 22)`` from their beginning."""
        observed = states[:, : self.seen].clone()
        return self.predict(self.spoil(observed, first) if self.spoil else observed, times)


Method = Predictor | SeenPredictor | StateTensor | None
Scores = dict[str, float]
MethodReport = dict[str, float | dict[str, Scores]]
Report = dict[str, dict[str, MethodReport]]


def evaluate(
    data: Path | str | Mapping[str, state32.State32],
    *,
    splits: Sequence[str] = ("val_id", "val_ood"),
    methods: Sequence[str] | Mapping[str, Method] = METHODS,
    batch_size: int = 4096,
    device: torch.device | str = "cpu",
    group: Ranks | None = None,
    progress: Progress | None = None,
) -> Report:
    """Evaluate methods on splits: ``report[split][method]["traj"]``.

    Args:
        data: a State-32 folder, or open splits by name.
        splits: which of them.
        methods: names of baselines and ``oracle``, or predictors of your own by name; a predictor
            maps ``z0 (B, 22)`` and ``times (T,)`` to ``(B, T, 22)``, a :class:`SeenPredictor` sees
            more than the first state, None is the oracle, and a tensor ``(N, T, 22)`` is a
            prediction of the whole split made beforehand.
        batch_size: sequences predicted at once, at most 65,534.
        device: where to predict.
        group: processes that share the work, of :func:`newtongs.base.ranks.ranks`; then
            ``device`` is the group's. Ranks take whole batches, so that each is predicted as in one
            process, and every rank gets the report of all sequences.
        progress: called with (split, sequences done, number of sequences).

    Returns:
        ``{split: {method: {traj, fde, vel, quat, scale, ang_vel, penetration_mse,
        plane_violation, pis3d, per_motion: {name: {...}}}}}``. A :class:`SeenPredictor` has a
        second row ``name_unseen`` over its unseen frames.
    """
    if not 1 <= batch_size <= MAX_BATCH:
        raise InputError(f"batch size must be between 1 and {MAX_BATCH:,}, got {batch_size}")
    predictors = methods if isinstance(methods, Mapping) else methods_by_name(methods)
    if not predictors:
        raise InputError("no method given; expected at least one predictor by name")
    if not splits:
        raise InputError(f"no split given; known: {', '.join(state32.SPLITS)}")
    group = group or Ranks(0, 1, checked_device(device))
    with group.agreed():
        opened = {name: _open(data, name) for name in splits}
    return {
        name: _evaluate_split(split, predictors, batch_size, group, progress)
        for name, split in opened.items()
    }


def _open(data: Path | str | Mapping[str, state32.State32], split: str) -> state32.State32:
    if isinstance(data, Mapping):
        if split not in data:
            raise unknown_name("split", split, data)
        return data[split]
    return state32.load(data, split)


def methods_by_name(names: Sequence[str]) -> dict[str, Method]:
    """Predictors of the named methods; None stands for the oracle, which needs the targets."""
    if not names:
        raise InputError(f"no method given; known: {', '.join(METHODS)}")
    for name in names:
        if name in RENAMED:
            raise InputError(f"unknown method {name!r}; it is called {RENAMED[name]} now")
        if name in SEEN_METHODS:
            raise InputError(
                f"method {name!r} sees states of State-32: use newtongs evaluate --data, or give "
                f"newtongs.paper.evaluation.seen_predictors.{name}_methods(...) as the methods"
            )
        if name not in METHODS:
            raise unknown_name("method", name, (*METHODS, *SEEN_METHODS))
    return {name: None if name == ORACLE else get_baseline(name) for name in names}


def rows_of(name: str, method: Method) -> list[str]:
    """Rows of the report that a method fills."""
    return [name, f"{name}{UNSEEN}"] if isinstance(method, SeenPredictor) else [name]


def shown(method: Method) -> int:
    """Number of states that a method sees."""
    return method.seen if isinstance(method, SeenPredictor) else 1


class SplitSums:
    """Sums over the predictions of a split for every metric and PIS-3D, per motion."""

    def __init__(self, split: state32.State32) -> None:
        self.names = split.motion_names
        self.metrics = MetricSums(len(self.names))
        self.pis = PisSums(self.names, split.dt)

    def add(self, predicted: StateTensor, target: StateTensor, motion: Tensor) -> None:
        """Add sequences ``(B, T, 22)`` with the motion index ``(B,)`` of each."""
        self.metrics.add(predicted, target, motion)
        self.pis.add(predicted, motion)

    def reduce(self, group: Ranks) -> None:
        """Sum over all ranks."""
        self.metrics.reduce(group)
        self.pis.reduce(group)

    def report(self, method: str) -> MethodReport:
        """Every figure in total and per motion; ``method`` is named in an error."""
        present = [i for i, n in enumerate(self.pis.count) if n]
        per_motion = {
            self.names[i]: {**self.metrics.motion(i), "pis3d": self.pis.motion(i)} for i in present
        }
        report: MethodReport = {
            **self.metrics.total(), "pis3d": self.pis.total(), "per_motion": per_motion
        }  # fmt: skip
        bad = next((k for k, x in report.items() if isinstance(x, float) and math.isnan(x)), None)
        if bad is not None:
            raise InputError(f"method {method!r}: predictions too large, {bad} cannot be computed")
        return report


def _evaluate_split(
    split: state32.State32,
    methods: Mapping[str, Method],
    batch_size: int,
    group: Ranks,
    progress: Progress | None,
) -> dict[str, MethodReport]:
    sums = {
        row: SplitSums(split) for name, method in methods.items() for row in rows_of(name, method)
    }
    with group.agreed():
        for i, first in enumerate(range(0, len(split), batch_size)):
            if not group.takes(i):
                continue
            rows = slice(first, min(first + batch_size, len(split)))
            for name, predicted, target in predictions(split, methods, rows, group.device):
                method, motion = methods[name], split.motion_indices[rows]
                for row, skipped in zip(rows_of(name, method), (0, shown(method)), strict=False):
                    sums[row].add(predicted[:, skipped:], target[:, skipped:], motion)
            if progress:  # the other ranks are about as far
                done = min((i + group.size) * batch_size, len(split))
                progress(split.split, done, len(split))
    for found in sums.values():
        found.reduce(group)
    return {name: found.report(name) for name, found in sums.items()}


@torch.no_grad()
def predictions(
    split: state32.State32,
    methods: Mapping[str, Method],
    rows: slice,
    device: torch.device | str = "cpu",
) -> Iterator[tuple[str, StateTensor, StateTensor]]:
    """For every method: its name, its prediction for some rows, and the truth ``(B, T, 22)``."""
    first, states = rows.start, split.states[rows]
    require_finite(states, str(split.path), first=first)
    target = states.to(device)
    for name, method in methods.items():
        predicted = target
        if isinstance(method, Tensor):
            predicted = method[rows].to(device)
        elif isinstance(method, SeenPredictor):
            predicted = method(target, split.times, first)
        elif method is not None:
            # A copy: a predictor that works in place must not change the truth.
            predicted = method(target[:, 0].clone(), split.times)
        _check_prediction(predicted, target, name, first)
        yield name, predicted, target


def _check_prediction(predicted: object, target: StateTensor, method: str, first: int) -> None:
    """Refuse a prediction that cannot be measured; ``first`` is its first sequence."""
    if not isinstance(predicted, Tensor) or not predicted.is_floating_point():
        raise InputError(
            f"method {method!r}: expected a tensor of states, got {type(predicted).__name__}"
        )
    if predicted.shape != target.shape:
        raise InputError(
            f"method {method!r}: expected states (B, T, {DIM}) = {tuple(target.shape)}, "
            f"got {tuple(predicted.shape)}"
        )
    if predicted.device != target.device:
        raise InputError(
            f"method {method!r}: expected states on {target.device} as z0 is, "
            f"got {predicted.device}"
        )
    require_finite(predicted, f"method {method!r}", first=first)

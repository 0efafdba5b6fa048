"""Run predictors over State-32 splits and collect every metric, per motion and in total."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..datasets import state32
from ..dynamics.baselines import BASELINES, Predictor, get_baseline
from ..errors import InputError, unknown_name
from ..ranks import Ranks
from ..state import DIM, checked_device, require_finite
from ..types import StateTensor, Times
from .metrics import MetricSums
from .pis3d import PisSums

ORACLE = "oracle"
METHODS = (*BASELINES, ORACLE)
READERS = ("context", "limit")
UNSEEN = "_unseen"
MAX_BATCH = 65_534


@dataclass(frozen=True)
class Reader:
    """A method that is shown the first states of a sequence, exactly or with noise.

    It is measured twice: over all frames as the paper counts, and over those it was not shown.
    """

    predict: Callable[[StateTensor, Times], StateTensor]
    """From observed states ``(B, k, 22)`` and times ``(T,)`` to states ``(B, T, 22)``."""
    seen: int = 1
    """How many it is shown."""
    spoil: Callable[[StateTensor, int], StateTensor] | None = None
    """What is done to them first: takes them and the number of the first sequence."""

    def __call__(self, states: StateTensor, times: Times, first: int) -> StateTensor:
        """Predict a batch of sequences ``(B, T, 22)``, of which it sees the beginning."""
        observed = states[:, : self.seen].clone()
        return self.predict(self.spoil(observed, first) if self.spoil else observed, times)


Method = Predictor | Reader | StateTensor | None
Scores = dict[str, float]
MethodReport = dict[str, float | dict[str, Scores]]
Report = dict[str, dict[str, MethodReport]]
Progress = Callable[[str, int, int], None]


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
            maps ``z0 (B, 22)`` and ``times (T,)`` to ``(B, T, 22)``, a :class:`Reader` is shown
            more than the first state, None is the oracle, and a tensor ``(N, T, 22)`` is a
            prediction of the whole split made beforehand.
        batch_size: sequences predicted at once, at most 65,534.
        device: where to predict.
        group: processes that share the work, of :func:`newtongs.ranks.ranks`; then ``device`` is
            the group's. Batches are dealt out whole, so that every one is predicted as one process
            would, and each rank gets the report of all sequences.
        progress: called with (split, sequences done, sequences in all).

    Returns:
        ``{split: {method: {traj, fde, vel, quat, scale, ang_vel, penetration_mse,
        plane_violation, pis3d, per_motion: {name: {...}}}}}``. A reader ``name`` has a second row
        ``name_unseen`` over the frames that it was not shown.
    """
    if not 1 <= batch_size <= MAX_BATCH:
        raise InputError(f"batch size must be between 1 and {MAX_BATCH:,}, got {batch_size}")
    predictors = methods if isinstance(methods, Mapping) else methods_by_name(methods)
    if not predictors:
        raise InputError("no method given; expected at least one predictor by name")
    if not splits:
        raise InputError(f"no split named; known: {', '.join(state32.SPLITS)}")
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
        raise InputError(f"no method named; known: {', '.join(METHODS)}")
    unknown = next((name for name in names if name not in METHODS), None)
    if unknown is not None:
        raise unknown_name("method", unknown, (*METHODS, *READERS))
    return {name: None if name == ORACLE else get_baseline(name) for name in names}


def rows_of(name: str, method: Method) -> list[str]:
    """Rows of the report that a method fills."""
    return [name, f"{name}{UNSEEN}"] if isinstance(method, Reader) else [name]


def shown(method: Method) -> int:
    """How many states a method sees."""
    return method.seen if isinstance(method, Reader) else 1


Sums = dict[str, tuple[MetricSums, PisSums]]


def _evaluate_split(
    split: state32.State32,
    predictors: Mapping[str, Method],
    batch_size: int,
    group: Ranks,
    progress: Progress | None,
) -> dict[str, MethodReport]:
    names = split.motion_names
    rows = [row for name, method in predictors.items() for row in rows_of(name, method)]
    sums = {row: (MetricSums(len(names)), PisSums(names, split.dt)) for row in rows}
    with group.agreed():
        for i, (states, motion) in enumerate(split.batches(batch_size)):
            if group.takes(i):
                _add_batch(sums, split, states, motion, i * batch_size, predictors, group.device)
                if progress:  # the others are as far as we are
                    progress(
                        split.split, min((i + group.size) * batch_size, len(split)), len(split)
                    )
    for pair in sums.values():
        for part in pair:
            part.reduce(group)
    return {method: _report(method, names, *pair) for method, pair in sums.items()}


@torch.no_grad()
def _add_batch(
    sums: Sums,
    split: state32.State32,
    states: StateTensor,
    motion: Tensor,
    first: int,
    predictors: Mapping[str, Method],
    device: torch.device,
) -> None:
    """Predict a batch, whose first sequence has the number ``first``, with every method."""
    require_finite(states, str(split.path), first=first)
    target = states.to(device)
    for method, predict in predictors.items():
        predicted = target
        if isinstance(predict, Tensor):
            predicted = predict[first : first + len(states)].to(device)
        elif isinstance(predict, Reader):
            predicted = predict(target, split.times, first)
        elif predict is not None:
            # Copies: a predictor that works in place must not change what it is measured by.
            predicted = predict(target[:, 0].clone(), split.times)
        _check_prediction(predicted, target, method, first)
        for row, skipped in zip(rows_of(method, predict), (0, shown(predict)), strict=False):
            metrics, pis = sums[row]
            metrics.add(predicted[:, skipped:], target[:, skipped:], motion)
            pis.add(predicted[:, skipped:], motion)


def _check_prediction(predicted: object, target: StateTensor, method: str, first: int) -> None:
    """Raise one line on a prediction that cannot be measured; ``first`` is its first sequence."""
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


def _report(method: str, names: Sequence[str], metrics: MetricSums, pis: PisSums) -> MethodReport:
    present = [i for i, n in enumerate(pis.count) if n]
    per_motion = {names[i]: {**metrics.motion(i), "pis3d": pis.motion(i)} for i in present}
    report: MethodReport = {**metrics.total(), "pis3d": pis.total(), "per_motion": per_motion}
    bad = next((k for k, x in report.items() if isinstance(x, float) and math.isnan(x)), None)
    if bad is not None:
        raise InputError(f"method {method!r}: predictions too large, {bad} cannot be computed")
    return report

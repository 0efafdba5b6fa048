"""One method on one split: its scores, and their scatter over draws of that size.

The 32 shards of a split are independent draws. Resampling them with replacement gives splits of the
same size; every method sees the same resamples, so that differences between methods can be judged.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...dynamics.baselines import Predictor
from ..datasets.state32 import SplitPlan, State32
from ..evaluation.evaluate import SplitSums, predictions
from ..evaluation.metrics import METRICS, ROOTED, sequence_terms
from ..evaluation.pis3d import Diagnostic, Mean, Slope
from ..evaluation.tables import paper

RESAMPLES = 400
SEED = 7301
BATCH = 4096

Advance = Callable[[int, int], None]


def measure(
    split: State32,
    predict: Predictor,
    *,
    device: torch.device | str = "cpu",
    advance: Advance | None = None,
) -> dict[str, Any]:
    """Scores of a predictor, as plain numbers.

    Returns:
        ``scores`` and ``error`` by metric (the latter a standard error), ``per_motion`` with the
        same metrics and ``traj_error``, ``lowest`` sequence of every motion (index in the split and
        trajectory RMSE; where the paper shows one, the fraction of ours at or below it), ``draws``
        of traj and pis3d over the resamples, ``sequences``.
    """
    shards, traj = [], []
    for rows, sizes in _batches(split):
        ((_, predicted, target),) = predictions(split, {"method": predict}, rows, device)
        traj.append(sequence_terms(predicted, target)["traj"].sqrt().cpu())
        motion = split.motion_indices[rows]
        for part in zip(*(x.split(sizes) for x in (predicted, target, motion)), strict=True):
            shards.append(SplitSums(split))
            shards[-1].add(*part)
        if advance:
            advance(rows.stop, len(split))
    return _summary(split, shards) | {"lowest": _lowest(split, torch.cat(traj))}


def _batches(split: State32) -> Iterator[tuple[slice, list[int]]]:
    """Whole shards, about ``BATCH`` sequences at once: their rows, and the size of each shard."""
    kinds = len(split.motion_names)
    sizes = [n * kinds for n in SplitPlan(split.split, len(split) // kinds).shard_sizes if n]
    together = max(1, BATCH // sizes[0])
    first = 0
    for i in range(0, len(sizes), together):
        group = sizes[i : i + together]
        yield slice(first, first := first + sum(group)), group


def _summary(split: State32, shards: Sequence[SplitSums]) -> dict[str, Any]:
    names = split.motion_names
    whole, drawn = torch.ones(1, len(shards), dtype=torch.float64), _multiplicities(len(shards))
    total, by_motion = _pooled(shards, whole)
    totals, by_motions = _pooled(shards, drawn)
    return {
        "sequences": len(split),
        "scores": {k: x.item() for k, x in total.items()},
        "error": {k: x.std().item() for k, x in totals.items()},
        "per_motion": {
            name: {k: x[0, i].item() for k, x in by_motion.items()}
            | {"traj_error": by_motions["traj"][:, i].std().item()}
            for i, name in enumerate(names)
        },
        "draws": {k: totals[k].tolist() for k in ("traj", "pis3d")},
    }


def _multiplicities(shards: int) -> Tensor:
    """How often each shard occurs in each resample ``(RESAMPLES, shards)``."""
    generator = torch.Generator().manual_seed(SEED)
    picks = torch.randint(shards, (RESAMPLES, shards), generator=generator)
    return torch.zeros(RESAMPLES, shards, dtype=torch.float64).scatter_add_(
        1, picks, torch.ones(RESAMPLES, shards, dtype=torch.float64)
    )


def _pooled(
    shards: Sequence[SplitSums], times: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Metrics with each shard counted ``times (R, shards)``: in total ``(R,)``, by motion."""
    count = times @ torch.stack([x.metrics.count for x in shards])
    total, by_motion = {}, {}
    for name in METRICS:
        sums = times @ torch.stack([x.metrics.sums[name] for x in shards])
        total[name] = _rooted(name, sums.sum(1) / count.sum(1))
        by_motion[name] = _rooted(name, sums / count)
    scores = torch.stack([_pis_score(x, times) for x in _diagnostics(shards)], 1)
    total["pis3d"] = (count * scores).sum(1) / count.sum(1)
    return total, by_motion | {"pis3d": scores}


def _rooted(name: str, x: Tensor) -> Tensor:
    return x.sqrt() if name in ROOTED else x


def _diagnostics(shards: Sequence[SplitSums]) -> Iterator[tuple[Diagnostic, ...]]:
    """The shards' diagnostics of each motion."""
    return zip(*(x.pis.diagnostics for x in shards), strict=True)


def _pis_score(parts: Sequence[Diagnostic], times: Tensor) -> Tensor:
    """``exp(-E_c)`` of a motion with each shard counted ``times (R, shards)``: ``(R,)``."""
    means = {}
    for name in parts[0].means:
        sums = [[part.means[name].total, part.means[name].count] for part in parts]
        means[name] = times @ torch.tensor(sums, dtype=torch.float64)
    errors = [_error(parts, means, row, times[row]) for row in range(len(times))]
    return torch.tensor(errors, dtype=torch.float64).neg().exp()


def _error(parts: Sequence[Diagnostic], means: dict[str, Tensor], row: int, times: Tensor) -> float:
    """``E_c`` of one resample."""
    pooled = type(parts[0])()
    for name, sums in means.items():
        mean = pooled.means[name] = Mean()
        mean.total, mean.count = sums[row, 0].item(), int(sums[row, 1].item())
    if isinstance(pooled, Slope):  # not a function of means: it keeps its samples
        for part, n in zip(parts, times.int().tolist(), strict=True):
            assert isinstance(part, Slope)
            pooled.a_x += part.a_x * n
    return pooled.error()


def _lowest(split: State32, traj: Tensor) -> dict[str, dict[str, float]]:
    """The best predicted sequence of every motion."""
    found = {}
    for i, name in enumerate(split.motion_names):
        rows = (split.motion_indices == i).nonzero().squeeze(1)
        at = int(traj[rows].argmin())
        found[name] = {"index": int(rows[at]), "traj": traj[rows[at]].item()}
        if (drawn := paper()["figure_samples"].get(name)) is not None:
            share = (traj[rows] <= drawn["traj"]).double().mean().item()
            found[name]["share_at_or_below_paper"] = share
    return found

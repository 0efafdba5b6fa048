"""One method on one split: its scores, and how far another draw of that size would scatter them.

The 32 shards of a split are independent draws. Resampling them with replacement gives splits of the
same size; every method sees the same resamples, so that differences between methods can be judged.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..datasets.state32 import Plan, State32
from ..dynamics.baselines import Predictor
from ..evaluation.metrics import METRICS, ROOTED, MetricSums, sequence_terms
from ..evaluation.pis3d import Diagnostic, Mean, PisSums, Slope
from ..evaluation.tables import paper
from ..types import StateTensor

RESAMPLES = 400
SEED = 7301
BATCH = 4096

Advance = Callable[[int, int], None]
Block = tuple[MetricSums, PisSums]


@torch.no_grad()
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
        trajectory RMSE; where the paper draws one, the share of ours at or below its), ``draws`` of
        traj and pis3d over the resamples, ``sequences``.
    """
    blocks, traj = [], []
    for states, motion, sizes in _batches(split):
        target = states.to(device)
        predicted = predict(target[:, 0].clone(), split.times)
        traj.append(sequence_terms(predicted, target)["traj"].sqrt().cpu())
        parts = zip(predicted.split(sizes), target.split(sizes), motion.split(sizes), strict=True)
        blocks += [sums_of(split, *part) for part in parts]
        if advance:
            advance(sum(map(len, traj)), len(split))
    return _summary(split, blocks) | {"lowest": _lowest(split, torch.cat(traj))}


def _batches(split: State32) -> Iterator[tuple[StateTensor, Tensor, list[int]]]:
    """Whole shards, about ``BATCH`` sequences at once, and the size of each of them."""
    kinds = len(split.motion_names)
    plan = Plan(split.split, len(split) // kinds)
    sizes = [n * kinds for n in plan.shard_sizes if n]
    together = max(1, BATCH // sizes[0])
    first = 0
    for i in range(0, len(sizes), together):
        group = sizes[i : i + together]
        rows = slice(first, first := first + sum(group))
        yield split.states[rows], split.motion_indices[rows], group


def sums_of(split: State32, predicted: StateTensor, target: StateTensor, motion: Tensor) -> Block:
    """What a block of predictions adds to the metrics and to PIS-3D."""
    metrics = MetricSums(len(split.motion_names))
    pis = PisSums(split.motion_names, split.dt)
    metrics.add(predicted, target, motion)
    pis.add(predicted, motion)
    return metrics, pis


def _summary(split: State32, blocks: Sequence[Block]) -> dict[str, Any]:
    names = split.motion_names
    whole, drawn = torch.ones(1, len(blocks), dtype=torch.float64), _multiplicities(len(blocks))
    total, by_motion = _pooled(blocks, whole)
    totals, by_motions = _pooled(blocks, drawn)
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


def _multiplicities(blocks: int) -> Tensor:
    """How often each block occurs in each resample ``(RESAMPLES, blocks)``."""
    generator = torch.Generator().manual_seed(SEED)
    picks = torch.randint(blocks, (RESAMPLES, blocks), generator=generator)
    return torch.zeros(RESAMPLES, blocks, dtype=torch.float64).scatter_add_(
        1, picks, torch.ones(RESAMPLES, blocks, dtype=torch.float64)
    )


def _pooled(blocks: Sequence[Block], times: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Metrics with each block counted ``times (R, blocks)``: in total ``(R,)``, by motion."""
    count = times @ torch.stack([metrics.count for metrics, _ in blocks])
    total, by_motion = {}, {}
    for name in METRICS:
        sums = times @ torch.stack([metrics.sums[name] for metrics, _ in blocks])
        total[name] = _rooted(name, sums.sum(1) / count.sum(1))
        by_motion[name] = _rooted(name, sums / count)
    scores = torch.stack([_pis_score(x, times) for x in _diagnostics(blocks)], 1)
    total["pis3d"] = (count * scores).sum(1) / count.sum(1)
    return total, by_motion | {"pis3d": scores}


def _rooted(name: str, x: Tensor) -> Tensor:
    return x.sqrt() if name in ROOTED else x


def _diagnostics(blocks: Sequence[Block]) -> Iterator[tuple[Diagnostic, ...]]:
    """The blocks' diagnostics of each motion."""
    return zip(*(pis.diagnostics for _, pis in blocks), strict=True)


def _pis_score(parts: Sequence[Diagnostic], times: Tensor) -> Tensor:
    """``exp(-E_c)`` of a motion with each block counted ``times (R, blocks)``: ``(R,)``."""
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
    """The sequence of every motion that is predicted best."""
    found = {}
    for i, name in enumerate(split.motion_names):
        rows = (split.motion_indices == i).nonzero().squeeze(1)
        at = int(traj[rows].argmin())
        found[name] = {"index": int(rows[at]), "traj": traj[rows[at]].item()}
        if (drawn := paper()["figure_samples"].get(name)) is not None:
            share = (traj[rows] <= drawn["traj"]).double().mean().item()
            found[name]["share_at_or_below_paper"] = share
    return found

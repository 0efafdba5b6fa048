"""All pictures of ContextNND, from fresh sequences."""

from collections.abc import Callable
from pathlib import Path

import torch

from .. import motions
from ..dynamics.context import ContextNND
from ..evaluation.metrics import MetricSums
from ..evaluation.readers import context_readers
from ..figures.context import (
    TIMES,
    calibration,
    changed_velocity,
    error_against_seen,
    motion_heat_map,
    reliability,
    response,
    sequences,
)

COUNTS = (1, 2, 4, 8, 16)
NOISE = 0.01
SPLITS = {"ID": False, "OOD": True}
Progress = Callable[[str, int, int], None]


def context_figures(
    model: ContextNND, out: Path, per_motion: int, *, progress: Progress
) -> list[str]:
    """Draw them; the names of those drawn."""
    curves: dict[str, dict[int, float]] = {}
    columns: dict[str, dict[str, float]] = {}
    reliable = {}
    steps = 2 * len(SPLITS) * len(COUNTS)
    for split, ood in SPLITS.items():
        truth = sequences(per_motion, ood=ood)
        for noise, word in ((0.0, "exact"), (NOISE, "1 % noise")):
            for k in COUNTS:
                sums = _measured(model, truth, k, noise)
                curves.setdefault(f"{split}, {word}", {})[k] = sums.total()["traj"]
                if not noise:
                    columns[f"{split}\n{k} seen"] = {
                        name: sums.motion(i)["traj"] for i, name in enumerate(motions.STATE32)
                    }
                progress("predict", sum(map(len, curves.values())), steps)
        reliable[f"{split}, $Z_0$ alone"] = reliability(model, truth, 1)
    return [
        error_against_seen(out / "seen", curves, {}),
        motion_heat_map(out / "motions", columns),
        response(out / "response", model),
        changed_velocity(out / "velocity", model),
        calibration(out / "calibration", reliable),
    ]


@torch.no_grad()
def _measured(model: ContextNND, truth: torch.Tensor, seen: int, noise: float) -> MetricSums:
    """Errors on sequences ``(32 n, 64, 22)`` that stand motion by motion."""
    reader = context_readers(model, (seen,), noise=noise)["context"]
    sums, count = MetricSums(len(motions.STATE32)), len(truth) // len(motions.STATE32)
    index = torch.arange(len(motions.STATE32)).repeat_interleave(count)
    sums.add(reader(truth, TIMES, 0), truth, index)
    return sums

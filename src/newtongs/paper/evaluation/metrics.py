"""State metrics (Appendix A), accumulated over batches in double precision, per motion.

A sequence contributes its means over time; sums over a motion's sequences give the motion's
metrics, and sums over motions give the split's.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.linalg import vector_norm

from ...base import rotations
from ...base.ranks import Ranks
from ...base.state import State
from ...base.types import StateTensor, Y

VIOLATION = 1e-6
METRICS = (
    "traj", "fde", "vel", "quat", "scale", "ang_vel", "penetration_mse", "plane_violation"
)  # fmt: skip


def sequence_terms(predicted: StateTensor, target: StateTensor) -> dict[str, Tensor]:
    """Contribution of each sequence to each metric before the root: ``{name: (B,) float64}``.

    Both inputs are ``(B, T, 22)``. Every term is already a mean over the sequence's frames (and
    components, where the metric has a factor of three).
    """
    a, b = State(predicted), State(target)
    position = (a.p - b.p).square().sum(-1)
    depth = (a.s[..., Y].abs() - a.p[..., Y]).relu()
    frames = {
        "traj": position,
        "vel": (a.v - b.v).square().sum(-1),
        "quat": rotations.discrepancy(a.q, b.q),
        "scale": (a.s - b.s).square().sum(-1) / 3,
        "ang_vel": (a.w - b.w).square().sum(-1) / 3,
        "penetration_mse": depth.square(),
        "plane_violation": (depth > VIOLATION).to(depth.dtype),
    }
    terms = {name: x.mean(-1, dtype=torch.float64) for name, x in frames.items()}
    terms["fde"] = vector_norm(a.p[..., -1, :] - b.p[..., -1, :], dim=-1).double()
    return terms


ROOTED = ("traj", "vel", "scale", "ang_vel")


def finish(means: Mapping[str, float]) -> dict[str, float]:
    """Turn means of the sequence terms into metrics: RMSEs take the root."""
    return {k: means[k] ** 0.5 if k in ROOTED else means[k] for k in METRICS}


class MetricSums:
    """Sums of the sequence terms of every motion."""

    def __init__(self, motions: int) -> None:
        self.count = torch.zeros(motions, dtype=torch.float64)
        self.sums = {name: torch.zeros(motions, dtype=torch.float64) for name in METRICS}

    def add(self, predicted: StateTensor, target: StateTensor, motion: Tensor) -> None:
        """Add a batch; ``motion`` (B,) holds each sequence's motion index."""
        motion = motion.cpu()
        self.count.index_add_(0, motion, torch.ones(len(motion), dtype=torch.float64))
        for name, term in sequence_terms(predicted, target).items():
            self.sums[name].index_add_(0, motion, term.cpu())

    def reduce(self, group: Ranks) -> None:
        """Sum over all ranks; each then has the sums of all sequences."""
        total = group.sum(torch.stack([self.count, *self.sums.values()]))
        self.count, self.sums = total[0], dict(zip(self.sums, total[1:], strict=True))

    def motion(self, index: int) -> dict[str, float]:
        """Metrics of one motion."""
        n = self.count[index].item()
        return finish({k: x[index].item() / n for k, x in self.sums.items()})

    def total(self) -> dict[str, float]:
        """Metrics over all sequences."""
        n = self.count.sum().item()
        return finish({k: x.sum().item() / n for k, x in self.sums.items()})

"""The training objective and its gradient in one pass over the states.

It has no semantics of its own: what it computes is :func:`newtongs.training.loss.objective`, and
parity with it, in value and gradient, is a test.
"""

import torch
from torch import Tensor

from ..dynamics.backends.ahead import launch
from ..types import StateTensor
from .config import LossWeights
from .loss import FLOOR, SCALE_BENDS, term_names
from .triton_loss import objective_kernel

ROWS = 128  # objects of a program
SQUARES = ("p", "v", "w", "s", "u")  # terms that are mean squares of three channels
SUMS = (*SQUARES, "q", "penetration", "curvature_p", "curvature_s", "material")  # of a program


def objective_and_gradient(
    predicted: StateTensor, target: StateTensor, weights: LossWeights
) -> tuple[dict[str, Tensor], StateTensor]:
    """Terms as :func:`objective` names them, in float64, and the total's gradient ``(B, T, 22)``.

    ``predicted`` ``(B, T, 22)`` stands in memory frame by frame and channel by channel, as the
    fused rollout writes it, and so does its gradient; that of the material is zero, since it is
    the initial state's.
    """
    n, frames, _ = target.shape
    states = predicted.detach().permute(1, 2, 0)
    assert states.is_contiguous()
    assert target.is_contiguous()
    gradient = torch.empty_like(states)
    blocks = -(-n // ROWS)
    sums = states.new_empty(len(SUMS), frames, blocks)
    each = n * frames
    bends = n * (frames - 2)
    to_bends = 2 * weights.smooth / (3 * bends)
    launch(objective_kernel, (blocks, frames))(
        states, target, gradient, sums, n, frames, FLOOR,
        *(2 * getattr(weights, name) / (3 * each) for name in SQUARES),
        2 * weights.q / each, 2 * weights.penetration / each,
        to_bends, SCALE_BENDS * to_bends,
        ROWS=ROWS,
    )  # fmt: skip
    counts = {"q": each, "penetration": each, "curvature_p": 3 * bends, "curvature_s": 3 * bends}
    total = dict(zip(SUMS, sums.sum((1, 2), dtype=torch.float64), strict=True))
    means = {name: x / counts.get(name, 3 * each) for name, x in total.items()}
    return _terms(means, weights), gradient.permute(2, 0, 1)


def _terms(means: dict[str, Tensor], weights: LossWeights) -> dict[str, Tensor]:
    """From the kernel's means to the objective's terms and their total."""
    terms = dict(means, smooth=means["curvature_p"] + SCALE_BENDS * means["curvature_s"])
    *names, _ = term_names(weights)
    chosen = {name: terms[name] for name in names}
    weighed = [getattr(weights, name) * x for name, x in chosen.items()]
    return chosen | {"total": torch.stack(weighed).sum()}

"""Fast paths: the quickest rollout of a model on this machine, with the reference's results."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from ...base.state import project
from ...base.types import StateTensor, Times
from ..analytic import G
from ..baselines import Predictor
from ..gaussian_nnd import GaussianNND
from ..interface import Dynamics
from ..rollout import advanced, check_initial, finite, intervals
from ..surfaces import FLOOR, Surface, touch

WIDTHS = (128, 256)  # hidden units that the CUDA kernels are made for


def backend(model: Dynamics) -> Literal["cuda", "numba"] | None:
    """The fast path that covers a model, if there is one.

    Fast paths read weights and repeat the equations of :class:`GaussianNND` in float32. They serve
    exactly that type: a subclass may have changed an equation and goes to the reference, as every
    other model does.
    """
    if type(model) is not GaussianNND or model.like.dtype != torch.float32:
        return None
    if model.like.device.type == "cpu":
        return "numba"
    cuda = model.like.device.type == "cuda" and model.config.hidden in WIDTHS
    cuda = cuda and model.gravity == G  # a constant of the kernels
    return "cuda" if cuda and find_spec("triton") else None


def predictor(model: Dynamics) -> Predictor:
    """Rollouts over the floor without gradients, by the fast path if there is one.

    It uses the model's current weights: ask again after changing them.
    """
    if not isinstance(model, GaussianNND):
        return partial(rollout_over_floor, model)
    fast = backend(model)
    if fast == "cuda":
        return _on_cuda(model)
    if fast == "numba":
        from .numba_rollout import rollout_cpu

        return partial(rollout_cpu, model)
    return torch.no_grad()(model.rollout)


def rollout_over_floor(model: Dynamics, z0: StateTensor, times: Times) -> StateTensor:
    """States ``(B, T, 22)`` of any model, with the paper's floor event."""
    z = project(check_initial(z0)).to(model.like)
    paths = advance(model, z, intervals(times), (FLOOR,))
    return finite(torch.cat([z.unsqueeze(1), paths.transpose(0, 1)], dim=1))


@torch.no_grad()
def advance(
    dynamics: Dynamics, z: StateTensor, dt: Sequence[float], surfaces: Sequence[Surface]
) -> StateTensor:
    """States ``(T, K, 22)`` after each of the intervals ``dt`` (T,), from projected ``z`` (K, 22).

    Each interval is cut into substeps as in :func:`newtongs.dynamics.rollout.rollout`; the result
    does not depend on how many intervals a call has.
    """
    if isinstance(dynamics, GaussianNND) and backend(dynamics) == "numba":
        from .numba_rollout import advance_cpu

        if tuple(surfaces) == ((FLOOR,) if dynamics.config.contact else ()):
            return advance_cpu(dynamics, z, dt).transpose(0, 1)

    def event(z: StateTensor) -> StateTensor:
        return touch(z, surfaces, dynamics.jump)

    return torch.stack(list(advanced(z, dt, dynamics.step, event, dynamics.max_dt)))


@torch.no_grad()
def repaired(states: StateTensor, again: Callable[[Tensor], StateTensor]) -> StateTensor:
    """States ``(B, T, 22)``; rows that overflowed in half precision are recomputed by ``again``."""
    beyond = ~torch.isfinite(states.sum((1, 2)))
    if beyond.any():
        states[beyond] = again(beyond)
    return states


def _on_cuda(model: GaussianNND) -> Predictor:
    from .triton_rollout import ROWS_ALIGNED, TritonRollout

    made: dict[tuple[int, tuple[float, ...]], TritonRollout] = {}

    @torch.no_grad()
    def predict(z0: StateTensor, times: Times) -> StateTensor:
        model.require_stable(check_initial(z0), intervals(times))
        more = -len(z0) % ROWS_ALIGNED  # repeat the last object to align the batch
        z = torch.cat([z0, z0[-1:].expand(more, -1)]) if more else z0
        key = len(z), tuple(torch.as_tensor(times).tolist())
        if key not in made:
            made.clear()  # one size at a time: an evaluation has one, and a shorter last batch
            made[key] = TritonRollout(model, times, rows=len(z), passes=3)
        frames = made[key](z)[: len(z0)]
        return finite(repaired(frames, lambda rows: model.rollout(z0[rows], times)))

    return predict

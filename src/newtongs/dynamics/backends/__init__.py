"""The quickest rollout of a model on the machine at hand; what it computes is the reference.

Fast paths read weights and repeat the equations of :class:`GaussianNND`. They serve exactly that
type: a subclass may have changed an equation and goes to the reference, as every other model does.
"""

from collections.abc import Sequence
from importlib.util import find_spec

import torch

from ...state import project
from ...types import StateTensor, Times
from ..baselines import Predictor
from ..gaussian_nnd import GaussianNND
from ..interface import Dynamics
from ..rollout import check_initial, finite, intervals, substeps
from ..surfaces import FLOOR, Surface, touch


def predictor(model: Dynamics) -> Predictor:
    """Rollouts over the floor without gradients: fused on CUDA, compiled on the CPU, or as it is.

    The model's present weights count: ask again after changing them.
    """
    if not isinstance(model, GaussianNND):
        return lambda z0, times: rollout_over_floor(model, z0, times)
    if _plain(model, "cuda") and find_spec("triton"):
        from .triton_rollout import FusedRollout

        if FusedRollout.supports(model):
            return _fused(model)
    if _plain(model, "cpu") and find_spec("numba"):
        from .numba_few import rollout_cpu

        return lambda z0, times: rollout_cpu(model, z0, times)
    return torch.no_grad()(model.rollout)


def rollout_over_floor(model: Dynamics, z0: StateTensor, times: Times) -> StateTensor:
    """States ``(B, T, 22)`` of any model, with the paper's floor event."""
    z = project(check_initial(z0)).to(model.like)
    paths = advance(model, z, intervals(times), (FLOOR,))
    return finite(torch.cat([z.unsqueeze(1), paths.transpose(0, 1)], dim=1))


def _plain(model: Dynamics, device: str) -> bool:
    """Whether the model is one that fast paths were written for, in float32 on such a device."""
    like = model.like
    return type(model) is GaussianNND and like.dtype == torch.float32 and like.device.type == device


@torch.no_grad()
def advance(
    dynamics: Dynamics, z: StateTensor, dt: Sequence[float], surfaces: Sequence[Surface]
) -> StateTensor:
    """States ``(T, K, 22)`` after each of the intervals ``dt`` (T,), from projected ``z`` (K, 22).

    Each interval is cut into substeps as in :func:`newtongs.dynamics.rollout.rollout`; what comes
    out does not depend on how many intervals a call has.
    """
    if _plain(dynamics, "cpu") and find_spec("numba") and _only_floor(dynamics, surfaces):
        from .numba_few import advance_cpu

        assert isinstance(dynamics, GaussianNND)
        return advance_cpu(dynamics, z, dt).transpose(0, 1)
    frames = []
    for interval in dt:
        n = substeps(interval, dynamics.max_dt)
        for _ in range(n):
            z = touch(dynamics.step(z, interval / n), surfaces, dynamics.jump)
        frames.append(z)
    return torch.stack(frames)


def _only_floor(dynamics: Dynamics, surfaces: Sequence[Surface]) -> bool:
    """Whether the compiled contact is the one asked for."""
    assert isinstance(dynamics, GaussianNND)
    return tuple(surfaces) == ((FLOOR,) if dynamics.config.contact else ())


def _fused(model: GaussianNND) -> Predictor:
    from .context import whole
    from .triton_rollout import ROWS_ALIGNED, FusedRollout

    made: dict[tuple[int, tuple[float, ...]], FusedRollout] = {}

    @torch.no_grad()
    def predict(z0: StateTensor, times: Times) -> StateTensor:
        model.require_stable(check_initial(z0), intervals(times))
        more = -len(z0) % ROWS_ALIGNED  # the last object again, so that every batch is aligned
        z = torch.cat([z0, z0[-1:].expand(more, -1)]) if more else z0
        key = len(z), tuple(torch.as_tensor(times).tolist())
        if key not in made:
            made.clear()  # one size at a time: an evaluation has one, and a last shorter batch
            made[key] = FusedRollout(model, times, rows=len(z), passes=3)
        frames = made[key](z)[: len(z0)]
        return finite(whole(frames, lambda rows: model.rollout(z0[rows], times)))

    return predict

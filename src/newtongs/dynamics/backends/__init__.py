"""The quickest rollout of a model on the machine at hand; what it computes is the reference."""

from collections.abc import Sequence
from importlib.util import find_spec

import torch

from ...state import StateLike
from ...types import StateTensor, Times
from ..baselines import Predictor
from ..body import Body
from ..gaussian_nnd import GaussianNND


def predictor(model: GaussianNND) -> Predictor:
    """``model.rollout`` without gradients: fused on CUDA, compiled on the CPU, or as it is.

    The model's present weights count: ask again after changing them.
    """
    kind, dtype = model.c_v.device.type, model.c_v.dtype
    if dtype == torch.float32 and kind == "cuda" and find_spec("triton"):
        from .triton_rollout import FusedRollout

        if FusedRollout.supports(model):
            return _fused(model)
    if dtype == torch.float32 and kind == "cpu" and find_spec("numba"):
        from .numba_few import rollout_cpu

        return lambda z0, times: rollout_cpu(model, z0, times)
    return torch.no_grad()(model.rollout)


def predict_body(
    model: GaussianNND, z0: StateLike, times: Times | Sequence[float], body: Body, **switches: bool
) -> StateTensor:
    """States ``(T, 22)`` of one object ``(22,)``; see :func:`predict_bodies`."""
    return predict_bodies(model, [z0], times, [body], **switches)[0]


def predict_bodies(
    model: GaussianNND,
    z0: Sequence[StateLike],
    times: Times | Sequence[float],
    bodies: Sequence[Body],
    **switches: bool,
) -> StateTensor:
    """``resting.rollout_body`` of each object, ``(K, T, 22)``: compiled on the CPU, or as it is.

    ``switches`` are its ``rest`` and ``topple``.
    """
    if model.c_v.dtype == torch.float32 and model.c_v.device.type == "cpu" and find_spec("numba"):
        from ..fast_body import rollout_bodies_cpu

        return rollout_bodies_cpu(model, z0, times, bodies, **switches)
    from ..resting import rollout_body

    pairs = zip(z0, bodies, strict=True)
    return torch.stack([rollout_body(model, z, times, body, **switches) for z, body in pairs])


def _fused(model: GaussianNND) -> Predictor:
    from .triton_rollout import FusedRollout

    made: dict[tuple[int, tuple[float, ...]], FusedRollout] = {}

    @torch.no_grad()
    def predict(z0: StateTensor, times: Times) -> StateTensor:
        key = len(z0), tuple(torch.as_tensor(times).tolist())
        if key not in made:
            made.clear()  # one size at a time: an evaluation has one, and a last shorter batch
            made[key] = FusedRollout(model, times, rows=len(z0), passes=3)
        return made[key](z0)

    return predict

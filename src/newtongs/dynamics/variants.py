"""Named dynamics: the trained model, its structured part, or the analytic prior.

``learned`` is the paper's model. ``structured`` is the same without its two residual networks, with
the trained scalars. ``analytic`` is the model before training. In each the scale follows the
paper's equation (``free``) or keeps its initial value (``rigid``).
"""

import copy
from dataclasses import replace as changed
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import torch

from ..base.errors import InputError, argument, unknown_name
from ..base.state import StateLike, replace
from ..base.types import StateTensor
from .analytic import G
from .gaussian_nnd import GaussianNND
from .interface import Dynamics
from .weights import load_model, load_pretrained

Variant: TypeAlias = Literal["learned", "structured", "analytic"]
Scale: TypeAlias = Literal["free", "rigid"]

SCALE_OUTPUTS = slice(6, 9)  # of f_theta: r_v, r_w, r_s


def choose(
    dynamics: Variant = "learned", scale: Scale = "free", *, seed: int = 7301, gravity: float = G
) -> GaussianNND:
    """The model for a choice of dynamics and scale, in evaluation mode on the CPU.

    ``seed`` selects the trained weights; ``analytic`` has none. With ``scale="rigid"`` start from
    ``rigid_state(z0)``. The networks of ``learned`` know only a ``gravity`` of 9.81.
    """
    if dynamics not in get_args(Variant):
        raise unknown_name("dynamics", dynamics, get_args(Variant))
    if scale not in get_args(Scale):
        raise unknown_name("scale", scale, get_args(Scale))
    model = _untrained() if dynamics == "analytic" else load_pretrained(seed)
    if dynamics == "learned" and gravity != G:
        raise InputError(
            f"{argument('gravity')}: the learned dynamics were trained at {G:g}, got {gravity:g}; "
            "use the analytic or the structured dynamics"
        )
    if dynamics != "learned":
        model = without_residuals(model)
        model.gravity = gravity
    return rigid(model) if scale == "rigid" else model


def model_of(
    dynamics: Variant | Dynamics | Path | str,
    scale: Scale = "free",
    *,
    seed: int = 7301,
    gravity: float = G,
) -> Dynamics:
    """A named choice, the model of a checkpoint file that ``newtongs train`` wrote, or a model.

    A model that is not a :class:`GaussianNND` is used unchanged, whatever ``scale`` is: its sizes
    follow its own rates. Only a named choice takes a ``gravity``.
    """
    if isinstance(dynamics, Path) or (
        isinstance(dynamics, str) and dynamics.endswith(".safetensors")
    ):
        dynamics = load_model(dynamics)
    if isinstance(dynamics, str):
        return choose(dynamics, scale, seed=seed, gravity=gravity)  # type: ignore[arg-type]  # choose() checks it
    if gravity != G:
        raise InputError(
            f"{argument('gravity')}: a model of your own has its own gravity; leave one of them out"
        )
    if type(dynamics) is GaussianNND and scale == "rigid":
        return rigid(dynamics)
    missing = [name for name in ("rates", "step", "jump", "like") if not hasattr(dynamics, name)]
    if missing:
        raise InputError(
            f"dynamics: a {type(dynamics).__name__} has no {', '.join(missing)}; "
            "derive it from newtongs.dynamics.Dynamics and define rates(z)"
        )
    return dynamics


def _untrained() -> GaussianNND:
    """The initial model, without changing the caller's random state."""
    with torch.random.fork_rng(devices=[]):
        return GaussianNND().eval()


def without_residuals(model: GaussianNND) -> GaussianNND:
    """A copy without its networks: only the trained scalars remain."""
    model = copy.deepcopy(model)
    model.config = changed(model.config, continuous_residual=False, contact_residual=False)
    return model


@torch.no_grad()
def rigid(model: GaussianNND) -> GaussianNND:
    """A copy in which nothing accelerates the scale; the other equations are unchanged.

    ``k_s = c_s = 0`` and f_theta's three scale outputs are zero, so ``u' = 0`` exactly.
    """
    model = copy.deepcopy(model)
    model.k_s.zero_()
    model.c_s.zero_()
    last = model.f_theta[-1]
    assert isinstance(last, torch.nn.Linear)
    last.weight[SCALE_OUTPUTS] = 0
    last.bias[SCALE_OUTPUTS] = 0
    return model


def rigid_state(z0: StateLike) -> StateTensor:
    """A copy of the state ``(..., 22)`` with constant scale: ``u = 0``."""
    return replace(z0, u=(0.0, 0.0, 0.0))

"""The weights of a Gaussian-NND on disk, and models without some of their parts."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..base.checkpoints import load_tensors, save_tensors, shipped
from ..base.errors import InputError, unknown_name
from .config import NNDConfig
from .gaussian_nnd import GaussianNND

BRANCHES = {"continuous": "f_theta", "contact": "h_phi"}
SWITCHES: dict[str, dict[str, Any]] = {"event": {"contact": False}, "euler": {"solver": "euler"}}
MAX_DT = "max_dt="


def save_model(path: Path, model: GaussianNND, info: Mapping[str, Any]) -> None:
    """Write a model's weights, its configuration and ``info`` on their training."""
    save_tensors(path, model.state_dict(), describe(model, info))


def describe(model: GaussianNND, info: Mapping[str, Any]) -> dict[str, Any]:
    """Description stored with a model's weights."""
    return {"version": __version__, "model": asdict(model.config), **info}


def load_model(path: Path | str) -> GaussianNND:
    """A model as it was saved, in evaluation mode on the CPU."""
    tensors, description = load_tensors(path)
    weights = {k: x for k, x in tensors.items() if not k.startswith("optimizer.")}
    try:
        known = {f.name for f in fields(NNDConfig)}
        config = NNDConfig(**{k: v for k, v in description["model"].items() if k in known})
        _require_fitting(path, config, weights)
        model = GaussianNND(config)
        model.load_state_dict(weights)
    except (KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise InputError(f"{path} does not hold the weights of a Gaussian-NND") from error
    return model.eval()


def _require_fitting(path: Path | str, config: NNDConfig, weights: Mapping[str, Tensor]) -> None:
    """Check the weights against the claimed model before it is made: it may be of any size."""
    with torch.device("meta"):
        wanted = {k: x.shape for k, x in GaussianNND(config).state_dict().items()}
    if wanted != {k: x.shape for k, x in weights.items()}:
        raise InputError(
            f"{path} does not hold the weights of a Gaussian-NND with {config.hidden} hidden units"
        )
    for name, x in weights.items():
        if not x.is_floating_point() or not torch.isfinite(x).all():
            raise InputError(f"{path}: the weights {name} contain non-finite values")


def load_pretrained(seed: int = 7301) -> GaussianNND:
    """The model trained on State-32 at the paper's size with the given seed."""
    return load_model(shipped("state32", seed))


def remove_branches(model: GaussianNND, *branches: str) -> GaussianNND:
    """Set the named residual networks to zero without retraining (the paper's branch removal).

    ``continuous`` is f_theta, ``contact`` is h_phi; the trained scalars stay.
    """
    for branch in branches:
        if branch not in BRANCHES:
            raise InputError(f"unknown branch {branch!r}; branches: {', '.join(BRANCHES)}")
        with torch.no_grad():
            for parameter in getattr(model, BRANCHES[branch]).parameters():
                parameter.zero_()
    return model


def ablated(model: GaussianNND, *names: str) -> GaussianNND:
    """The model without the named parts, not retrained.

    ``continuous`` and ``contact`` set a residual network to zero, as the paper does. ``event``
    takes the floor away, ``euler`` the RK4; ``max_dt=1/15`` sets the longest substep in seconds.
    """
    for name in names:
        if name in BRANCHES:
            remove_branches(model, name)
        else:
            model.config = replace(model.config, **_setting(name))
    return model


def _setting(name: str) -> dict[str, Any]:
    """The change of configuration for a name."""
    if name in SWITCHES:
        return SWITCHES[name]
    if not name.startswith(MAX_DT):
        raise unknown_name("ablation", name, (*BRANCHES, *SWITCHES, f"{MAX_DT}1/15"))
    try:
        return {"max_dt": float(Fraction(name.removeprefix(MAX_DT)))}
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(f"expected seconds such as {MAX_DT}1/15, got {name!r}") from None

"""ContextNND's weights on disk: safetensors in half precision, with their description."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...errors import InputError
from ..weights import load_tensors, save_tensors
from .config import ContextConfig
from .model import ContextNND

KIND = "ContextNND"
EXACT = ("mean", "std", "low", "high")  # what inputs are measured by


def save_context(path: Path, model: ContextNND, info: Mapping[str, Any]) -> None:
    """Write a model; half precision costs less than a thousandth of its error."""
    tensors = {k: x if k in EXACT else x.to(torch.float16) for k, x in model.state_dict().items()}
    save_tensors(path, tensors, describe(model, info))


def describe(model: ContextNND, info: Mapping[str, Any]) -> dict[str, Any]:
    """Description stored with the weights."""
    return {"version": __version__, "kind": KIND, "model": asdict(model.config), **info}


def load_context(path: Path | str) -> ContextNND:
    """A model as it was saved, in float32, in evaluation mode on the CPU."""
    tensors, description = load_tensors(path)
    try:
        known = {f.name for f in fields(ContextConfig)}
        config = {k: v for k, v in description["model"].items() if k in known}
        model = ContextNND(ContextConfig(**config))
        model.load_state_dict({k: x.float() for k, x in tensors.items()})
    except (KeyError, RuntimeError, TypeError) as error:
        raise InputError(f"{path} does not hold the weights of a ContextNND") from error
    return model.eval()


@cache
def load_pretrained_context(seed: int = 7301) -> ContextNND:
    """The shipped model."""
    folder = Path(str(resources.files("newtongs").joinpath("checkpoints")))
    path = folder / f"context_seed{seed}.safetensors"
    if not path.is_file():
        shipped = sorted(p.stem.removeprefix("context_seed") for p in folder.glob("context_seed*"))
        raise InputError(f"no ContextNND with seed {seed} is shipped; seeds: {', '.join(shipped)}")
    return load_context(path)

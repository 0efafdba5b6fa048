"""ContextNND's weights on disk: safetensors in half precision, with their description."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..base.checkpoints import load_tensors, save_tensors, shipped
from ..base.errors import InputError
from .config import ContextConfig
from .model import ContextNND

KIND = "ContextNND"
RANGE = ("low", "high")  # of the readings; infinite before training
EXACT = ("mean", "std", *RANGE)  # kept in float32


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
        config = _fitting_config(path, description["model"], tensors)
        model = ContextNND(config)
        model.load_state_dict({k: x.float() for k, x in tensors.items()})
    except (KeyError, RuntimeError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path} does not hold the weights of a ContextNND") from error
    return model.eval()


def _fitting_config(
    path: Path | str, claimed: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> ContextConfig:
    """The configuration, checked against the tensors before a model of that size is made.

    A description of a few bytes may claim any width and any number of layers; the tensors cannot
    be larger than the file. So the sizes are read from them, and every shape must fit.
    """
    config = ContextConfig(
        width=tensors["read.weight"].shape[0],
        blocks=sum(f"blocks.{i}.norm.weight" in tensors for i in range(len(tensors))),
        hidden=tensors["decoder.out.weight"].shape[1],
        layers=sum(f"decoder.hidden.{i}.weight" in tensors for i in range(len(tensors))),
        hypotheses=tensors["logits.weight"].shape[0],
    )
    with torch.device("meta"):  # shapes alone, no memory
        wanted = {k: x.shape for k, x in ContextNND(config).state_dict().items()}
    known = {f.name for f in fields(ContextConfig)}
    same_sizes = ContextConfig(**{k: v for k, v in claimed.items() if k in known}) == config
    if not same_sizes or wanted != {k: x.shape for k, x in tensors.items()}:
        raise InputError(f"{path} does not hold the weights of the ContextNND that it describes")
    for name, x in tensors.items():
        broken = torch.isnan(x) if name in RANGE else ~torch.isfinite(x)
        if not x.is_floating_point() or broken.any():
            raise InputError(f"{path}: the weights {name} contain non-finite values")
    return config


@cache
def load_pretrained_context(seed: int = 7301) -> ContextNND:
    """The shipped model."""
    return load_context(shipped("context", seed))

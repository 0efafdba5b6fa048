"""Checkpoints: one safetensors file with its own description as JSON."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from torch import Tensor

from .errors import InputError
from .files import parsed_json, private_copy, write_atomically

_DESCRIPTION = "newtongs"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Write tensors and a JSON description atomically, flushed to disk."""
    from safetensors.torch import save

    plain = {k: x.detach().cpu().contiguous() for k, x in tensors.items()}
    content = save(plain, metadata={_DESCRIPTION: json.dumps(description)})
    write_atomically(path, lambda f: f.write(content), sync=True)


def load_tensors(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and description of a file written by :func:`save_tensors`."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(f"no checkpoint {path}; give a .safetensors file made by newtongs train")
    try:
        with private_copy(path) as copy, safe_open(copy, framework="pt") as f:
            tensors = {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118  (not a mapping)
            description = parsed_json(path, (f.metadata() or {})[_DESCRIPTION])
        if not isinstance(description, dict):
            raise InputError(f"{path}: its description is not a JSON object")
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{path} is not a newtongs checkpoint (damaged, cut short, or another program's file)"
        ) from error
    return tensors, description


def shipped(kind: str, seed: int) -> Path:
    """The file of weights that comes with the package, by kind of model and training seed."""
    folder = Path(str(resources.files("newtongs").joinpath("checkpoints")))
    path = folder / f"{kind}_seed{seed}.safetensors"
    if not path.is_file():
        seeds = sorted(p.stem.removeprefix(f"{kind}_seed") for p in folder.glob(f"{kind}_seed*"))
        raise InputError(f"no {kind} weights with seed {seed}; seeds: {', '.join(seeds)}")
    return path

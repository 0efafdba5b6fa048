"""A run on disk: everything needed to go on as if it had never stopped."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from ..dynamics import GaussianNND, NNDConfig
from ..dynamics.weights import describe, load_tensors, save_model, save_tensors
from ..errors import InputError
from ..files import write_atomically
from .config import TrainConfig

# Settings that change neither the data seen nor the arithmetic asked for.
FREE = ("out", "data", "device", "backend", "micro_batch")


@dataclass
class Position:
    """Where a run stands: ``update`` updates of epoch ``epoch`` are done."""

    epoch: int = 1
    update: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of this epoch's loss terms
    best: float = float("inf")  # lowest val_id objective so far
    best_epoch: int = 0


class RunFolder:
    """Files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = path / "last.safetensors"
        self.best = path / "best.safetensors"
        self.metrics = path / "metrics.jsonl"

    def epoch(self, epoch: int) -> Path:
        """Weights kept at a checkpoint epoch."""
        return self.path / f"epoch_{epoch:03d}.safetensors"

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add one line to metrics.jsonl."""
        try:
            with self.metrics.open("a") as f:
                f.write(json.dumps(row) + "\n")
        except OSError as error:
            raise InputError(f"cannot write {self.metrics}: {error.strerror}") from error

    def cut_metrics(self, epochs_done: int) -> None:
        """Forget lines written after the checkpoint that a resumed run starts from."""
        if not self.metrics.exists():
            return
        kept = [
            line
            for line in self.metrics.read_text(errors="replace").splitlines()
            if _epoch_of(line) is not None and (_epoch_of(line) or 0) <= epochs_done
        ]
        text = "".join(line + "\n" for line in kept)
        write_atomically(self.metrics, lambda f: f.write(text.encode()))


def _epoch_of(line: str) -> int | None:
    """Epoch of a metrics line; None for one that a crash cut short."""
    try:
        return int(json.loads(line)["epoch"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def identity(config: TrainConfig) -> dict[str, Any]:
    """The settings two runs must share to be the same run, as plain JSON values."""
    return {k: v for k, v in asdict(config).items() if k not in FREE}


def save_weights(
    path: Path,
    model: GaussianNND,
    config: TrainConfig,
    fingerprint: str,
    metrics: Mapping[str, Any],
) -> None:
    """Weights alone, for use; with config, data fingerprint and metrics as their description."""
    info = {"training": identity(config), "data": fingerprint, "metrics": dict(metrics)}
    save_model(path, model, info)


def save_run(
    folder: RunFolder,
    model: GaussianNND,
    optimizer: AdamW,
    schedule: CosineAnnealingLR,
    config: TrainConfig,
    fingerprint: str,
    position: Position,
) -> None:
    """Model, optimiser, schedule, generator and position in one file, replaced as a whole."""
    tensors: dict[str, Tensor] = dict(model.state_dict())
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{name}.{key}"] = value
    tensors["optimizer.rng"] = torch.get_rng_state()
    info = {
        "training": identity(config),
        "data": fingerprint,
        "position": asdict(position),
        "schedule": schedule.state_dict(),
        "lr": [group["lr"] for group in optimizer.param_groups],
    }
    save_tensors(folder.last, tensors, describe(model, info))


def resume_run(
    folder: RunFolder,
    model: GaussianNND,
    optimizer: AdamW,
    schedule: CosineAnnealingLR,
    config: TrainConfig,
    fingerprint: str,
) -> Position:
    """Restore an unfinished run found in the folder, or start at the beginning."""
    if not folder.last.exists():
        return Position()
    tensors, info = load_tensors(folder.last)
    try:
        _check_same_run(folder, info, config, fingerprint)
        return _restored(folder, model, optimizer, schedule, tensors, info)
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(
            f"{folder.last} is damaged: its run cannot go on; choose another --out, or remove it"
        ) from error


def _restored(
    folder: RunFolder,
    model: GaussianNND,
    optimizer: AdamW,
    schedule: CosineAnnealingLR,
    tensors: Mapping[str, Tensor],
    info: Mapping[str, Any],
) -> Position:
    """Put model, optimiser, schedule and generator back to where a run stopped."""
    model.load_state_dict({k: x for k, x in tensors.items() if not k.startswith("optimizer.")})
    torch.set_rng_state(tensors["optimizer.rng"])
    for name, parameter in model.named_parameters():
        prefix = f"optimizer.{name}."
        state = {k.removeprefix(prefix): x for k, x in tensors.items() if k.startswith(prefix)}
        if state:
            # AdamW keeps its step counter on the CPU and the moments beside the parameter.
            optimizer.state[parameter] = {
                k: x if k == "step" else x.to(parameter.device) for k, x in state.items()
            }
    schedule.load_state_dict(info["schedule"])
    for group, lr in zip(optimizer.param_groups, info["lr"], strict=True):
        group["lr"] = lr
    position = Position(**info["position"])
    folder.cut_metrics(position.epoch - 1)
    return position


def _check_same_run(
    folder: RunFolder, info: Mapping[str, Any], config: TrainConfig, fingerprint: str
) -> None:
    there, here = info["training"], json.loads(json.dumps(identity(config)))
    # A run from before a setting existed had its default.
    there = {**there, "model": {**asdict(NNDConfig()), **there.get("model", {})}}
    different = [k for k in here if there.get(k) != here[k]]
    if different:
        k = different[0]
        raise InputError(
            f"{folder.path} holds a run with {k} = {there.get(k)}, this one has {here[k]}; "
            "choose another --out, or the same settings to go on"
        )
    if info["data"] != fingerprint:
        raise InputError(f"{folder.path} holds a run on other training data; choose another --out")

"""Training Gaussian-NND on State-32, top to bottom (the paper's optimisation table).

AdamW, cosine schedule over the epochs, 16 updates per epoch on a permutation seeded with
``seed + epoch``, float32, no clipping. The complete ``val_id`` objective is evaluated at epoch 1
and every fifth.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from ...base.errors import InputError, Interrupted, argument
from ...base.ranks import Ranks, ranks
from ...base.runs import (
    OPTIMIZER,
    RunFolder,
    identity,
    optimizer_tensors,
    require_finite,
    restore_optimizer,
    running,
)
from ...dynamics import GaussianNND
from ...dynamics.weights import describe
from ..datasets import state32
from .config import TrainConfig
from .loss import objective, term_names
from .update import Update, make_update

EVALUATION_BATCH = {"cpu": 2048, "cuda": 65_536}  # on CUDA an update's: kernels are compiled


@dataclass
class Position:
    """Where a run stands: ``update`` updates of epoch ``epoch`` are done."""

    epoch: int = 1
    update: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of this epoch's loss terms
    best: float = float("inf")  # lowest val_id objective so far
    best_epoch: int = 0


TrainProgress = Callable[[Position, dict[str, float], TrainConfig], None]


def train(config: TrainConfig, *, progress: TrainProgress | None = None) -> Path:
    """Train, or resume an unfinished run, and return the file of the best weights."""
    with (
        ranks(config.device) as group,
        running(config.out, group) as (folder, stopped),
        ExitStack() as opened,
    ):
        with group.agreed():
            if config.tensorboard:
                require_tensorboard()
            data = state32.load(config.data, "train")
            val = on_device(state32.load(config.data, "val_id"), group)
            batch = global_batch(data, config)
            about: dict[str, Any] = {"training": identity(config)}
            about["data"] = state32.fingerprint(data)

        random.seed(config.seed)
        np.random.seed(config.seed)  # noqa: NPY002  (the paper seeds the legacy generator)
        torch.manual_seed(config.seed)
        model = GaussianNND(config.model).to(group.device)
        optimizer = AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
        schedule = CosineAnnealingLR(optimizer, T_max=config.epochs, eta_min=config.lr_min)
        with group.agreed():
            at = resume(folder, model, optimizer, schedule, config, about["data"])
        rows = Rows(on_device(data, group), group)
        update = make_update(model, data.times, config, group)
        log = opened.enter_context(tensorboard(folder, config.tensorboard and group.first))

        while at.epoch <= config.epochs:
            started = time.perf_counter()
            order = permutation(len(data), config.seed + at.epoch)
            while at.update < config.updates_per_epoch:
                chosen = order[at.update * batch :][:batch]
                optimizer.zero_grad(set_to_none=False)
                terms = update(rows[group.share(chosen)], len(chosen))
                terms["gradient"] = gradient_norm(model)
                require_finite(terms, f"epoch {at.epoch}, update {at.update + 1}", folder)
                optimizer.step()
                at.update += 1
                at.sums = {k: at.sums.get(k, 0.0) + x for k, x in terms.items()}
                if progress and group.first:
                    progress(at, terms, config)
                if group.any(stopped()):
                    save(folder, model, optimizer, schedule, about, at)
                    raise Interrupted(f"stopped at epoch {at.epoch}, update {at.update}")

            row: dict[str, Any] = {"epoch": at.epoch, "lr": optimizer.param_groups[0]["lr"]}
            row |= {k: x / config.updates_per_epoch for k, x in at.sums.items()}
            schedule.step()
            if is_checkpoint(at.epoch, config):
                terms = evaluate_objective(model, val, config, group, update)
                row |= {f"val_{k}": x for k, x in terms.items()}
                weights, info = model.state_dict(), describe(model, {**about, "metrics": row})
                folder.save(folder.epoch(at.epoch), weights, info)
                if terms["total"] < at.best:
                    at.best, at.best_epoch = terms["total"], at.epoch
                    folder.save(folder.best, weights, info)
            folder.append_metrics({**row, "seconds": time.perf_counter() - started})
            log(row)
            at.epoch, at.update, at.sums = at.epoch + 1, 0, {}
            save(folder, model, optimizer, schedule, about, at)
    return folder.best


def save(
    folder: RunFolder,
    model: GaussianNND,
    optimizer: AdamW,
    schedule: CosineAnnealingLR,
    about: dict[str, Any],
    at: Position,
) -> None:
    """Write model, optimiser, schedule, generator and position to one file, atomically."""
    tensors = model.state_dict() | optimizer_tensors(model, optimizer)
    tensors[f"{OPTIMIZER}rng"] = torch.get_rng_state()
    info = {
        **about,
        "position": asdict(at),
        "schedule": schedule.state_dict(),
        "lr": [group["lr"] for group in optimizer.param_groups],
    }
    folder.save(folder.last, tensors, describe(model, info))


def resume(
    folder: RunFolder,
    model: GaussianNND,
    optimizer: AdamW,
    schedule: CosineAnnealingLR,
    config: TrainConfig,
    data: str,
) -> Position:
    """Restore an unfinished run found in the folder; ``data`` is the fingerprint of its data."""
    at = Position()

    def restore(tensors: dict[str, Tensor], info: dict[str, Any]) -> None:
        nonlocal at
        if info["data"] != data:
            raise InputError(
                f"{folder.path} holds a run on other training data; choose another "
                f"{argument('out')}"
            )
        model.load_state_dict({k: x for k, x in tensors.items() if not k.startswith(OPTIMIZER)})
        restore_optimizer(model, optimizer, tensors)
        torch.set_rng_state(tensors[f"{OPTIMIZER}rng"])
        schedule.load_state_dict(info["schedule"])
        for group, lr in zip(optimizer.param_groups, info["lr"], strict=True):
            group["lr"] = lr
        at = Position(**info["position"])
        folder.cut_metrics("epoch", at.epoch - 1)

    folder.resume(config, restore)
    return at


def gradient_norm(model: GaussianNND) -> float:
    """Euclidean norm of the gradient over all parameters; monitored, never clipped."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return float(torch.nn.utils.get_total_norm(gradients))


def is_checkpoint(epoch: int, config: TrainConfig) -> bool:
    """Epoch 1, every fifth, and the last."""
    return epoch == 1 or epoch % config.checkpoint_every == 0 or epoch == config.epochs


def global_batch(data: state32.State32, config: TrainConfig) -> int:
    """Sequences per update over all ranks: the training set divided by the updates."""
    batch = len(data) // config.updates_per_epoch
    if batch < 1:
        raise InputError(
            f"{data.path} holds {len(data)} sequences, fewer than the "
            f"{config.updates_per_epoch} updates of an epoch; make a larger one"
        )
    return batch


def permutation(n: int, seed: int) -> Tensor:
    """Order of the sequences in an epoch, the same on every rank and device."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def on_device(data: state32.State32, group: Ranks) -> state32.State32:
    """The split on the rank's GPU if it fits; otherwise memory-mapped."""
    if group.device.type != "cuda":
        return data
    free, _ = torch.cuda.mem_get_info(group.device)
    fits = data.states.nbytes < free // 4
    return replace(data, states=data.states.to(group.device)) if fits else data


class Rows:
    """Sequences by index, delivered on the rank's device."""

    def __init__(self, data: state32.State32, group: Ranks) -> None:
        self.states, self.device = data.states, group.device

    def __getitem__(self, index: Tensor) -> Tensor:
        return self.states[index.to(self.states.device)].to(self.device)


@torch.no_grad()
def evaluate_objective(
    model: GaussianNND, val: state32.State32, config: TrainConfig, group: Ranks, update: Update
) -> dict[str, float]:
    """The complete objective on a split; ranks share the rows of every batch."""
    names = term_names(config.loss)
    sums = torch.zeros(len(names), dtype=torch.float64, device=group.device)
    for states, _ in val.batches(EVALUATION_BATCH[group.device.type]):
        target = group.share(states).to(group.device)
        if len(target):
            terms = objective(update.predict(target[:, 0]), target, config.loss)
            sums += torch.stack([terms[name] for name in names]).double() * len(target)
    return dict(zip(names, (group.sum(sums) / len(val)).tolist(), strict=True))


def require_tensorboard() -> None:
    """Check before the training that TensorBoard is installed."""
    if find_spec("tensorboard") is None:
        raise InputError(
            f"{argument('tensorboard')} needs tensorboard; install it with: pip install tensorboard"
        )


@contextmanager
def tensorboard(folder: RunFolder, wanted: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes rows of metrics.jsonl for TensorBoard, if that is wanted."""
    if not wanted:
        yield lambda row: None
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder.path / "tensorboard")) as writer:

        def log(row: dict[str, Any]) -> None:
            for name, value in row.items():
                writer.add_scalar(name, value, row["epoch"])
            writer.flush()

        yield log

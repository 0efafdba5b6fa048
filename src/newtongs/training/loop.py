"""Training Gaussian-NND on State-32, top to bottom (the paper's optimisation table).

AdamW, cosine schedule over the epochs, 16 updates an epoch on a permutation seeded with
``seed + epoch``, float32, no clipping. Evaluated on the complete ``val_id`` objective at epoch 1
and every fifth.
"""

import math
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from ..datasets import state32
from ..dynamics import GaussianNND
from ..errors import InputError, Interrupted
from ..locks import alone
from ..ranks import Ranks, ranks
from .checkpoint import Position, RunFolder, resume_run, save_run, save_weights
from .config import TrainConfig
from .loss import objective, term_names
from .update import Update, make_update

EVALUATION_BATCH = {"cpu": 2048, "cuda": 65_536}  # on CUDA an update's: kernels are compiled

Progress = Callable[[Position, dict[str, float], TrainConfig], None]


class DivergedError(InputError):
    """The loss or its gradient is no number any more."""


def train(config: TrainConfig, *, progress: Progress | None = None) -> Path:
    """Train, or go on training, and return the best weights' file."""
    with ranks(config.device) as group, sole_writer(config.out, group), stop_flag() as stopped:
        data = state32.load(config.data, "train")
        val = on_device(state32.load(config.data, "val_id"), group)
        batch = global_batch(data, config)
        fingerprint = state32.fingerprint(data)

        random.seed(config.seed)
        np.random.seed(config.seed)  # noqa: NPY002  (the paper seeds the legacy generator)
        torch.manual_seed(config.seed)
        model = GaussianNND(config.model).to(group.device)
        optimizer = AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
        schedule = CosineAnnealingLR(optimizer, T_max=config.epochs, eta_min=config.lr_min)

        folder = RunFolder(config.out)
        at = resume_run(folder, model, optimizer, schedule, config, fingerprint)
        rows = Rows(on_device(data, group), group)
        update = make_update(model, data.times, config, group)

        def save() -> None:
            if group.first:
                save_run(folder, model, optimizer, schedule, config, fingerprint, at)

        while at.epoch <= config.epochs:
            started = time.perf_counter()
            order = permutation(len(data), config.seed + at.epoch)
            while at.update < config.updates_per_epoch:
                chosen = order[at.update * batch :][:batch]
                optimizer.zero_grad(set_to_none=False)
                terms = update(rows[group.share(chosen)], len(chosen))
                terms["gradient"] = gradient_norm(model)
                if not math.isfinite(terms["total"] + terms["gradient"]):
                    raise DivergedError(
                        f"loss {terms['total']} and gradient {terms['gradient']} at epoch "
                        f"{at.epoch}, update {at.update + 1} are no numbers; "
                        f"{folder.last} is the run before it"
                    )
                optimizer.step()
                at.update += 1
                at.sums = {k: at.sums.get(k, 0.0) + x for k, x in terms.items()}
                if progress and group.first:
                    progress(at, terms, config)
                if group.any(stopped()):
                    save()
                    raise Interrupted(f"stopped at epoch {at.epoch}, update {at.update}")

            row: dict[str, Any] = {"epoch": at.epoch, "lr": optimizer.param_groups[0]["lr"]}
            row |= {k: x / config.updates_per_epoch for k, x in at.sums.items()}
            schedule.step()
            if is_checkpoint(at.epoch, config):
                terms = evaluate_objective(model, val, config, group, update)
                row |= {f"val_{k}": x for k, x in terms.items()}
                if group.first:
                    save_weights(folder.epoch(at.epoch), model, config, fingerprint, row)
                if terms["total"] < at.best:
                    at.best, at.best_epoch = terms["total"], at.epoch
                    if group.first:
                        save_weights(folder.best, model, config, fingerprint, row)
            if group.first:
                folder.append_metrics({**row, "seconds": time.perf_counter() - started})
                log_tensorboard(folder, row)
            at.epoch, at.update, at.sums = at.epoch + 1, 0, {}
            save()
    return folder.best


def gradient_norm(model: GaussianNND) -> float:
    """Euclidean norm over all parameters; watched, never clipped."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return float(torch.nn.utils.get_total_norm(gradients))


def is_checkpoint(epoch: int, config: TrainConfig) -> bool:
    """Epoch 1, every fifth, and the last."""
    return epoch == 1 or epoch % config.checkpoint_every == 0 or epoch == config.epochs


def global_batch(data: state32.State32, config: TrainConfig) -> int:
    """Sequences an update sees over all ranks: the training set divided by the updates."""
    batch = len(data) // config.updates_per_epoch
    if batch < 1:
        raise InputError(
            f"{data.path} holds {len(data)} sequences, fewer than the "
            f"{config.updates_per_epoch} updates of an epoch; make a larger one"
        )
    return batch


def permutation(n: int, seed: int) -> Tensor:
    """Order of an epoch, the same on every rank and device."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def on_device(data: state32.State32, group: Ranks) -> state32.State32:
    """The split on the rank's GPU if that has the room; memory-mapped as it is otherwise."""
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


def sole_writer(folder: Path, group: Ranks) -> AbstractContextManager[None]:
    """The run's folder, made and kept from other runs; of all ranks only the first writes."""
    return alone(folder) if group.first else nullcontext()


def log_tensorboard(folder: RunFolder, row: dict[str, Any]) -> None:
    """The same figures for TensorBoard, where it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return
    with SummaryWriter(str(folder.path / "tensorboard")) as writer:
        for name, value in row.items():
            writer.add_scalar(name, value, row["epoch"])


@contextmanager
def stop_flag() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a flag; the second acts at once."""
    caught: list[int] = []

    def handle(number: int, _frame: object) -> None:
        caught.append(number)
        signal.signal(number, previous[signal.Signals(number)])

    try:
        previous = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: signals are somebody else's business
        yield lambda: False
        return
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

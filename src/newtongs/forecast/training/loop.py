"""Training ContextNND, top to bottom: new sequences, AdamW, a cosine schedule, averaged weights."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import motions
from ...base.errors import Interrupted
from ...base.ranks import Ranks
from ...base.runs import (
    OPTIMIZER,
    RunFolder,
    identity,
    optimizer_tensors,
    require_finite,
    restore_optimizer,
    running,
)
from ...base.state import State, checked_device
from .. import ContextNND
from ..weights import describe, save_context
from .config import ContextTrainConfig
from .loss import objective
from .sampling import Batch, batches, draw_pool

CLIP = 1.0  # largest norm of a gradient
BETAS = (0.9, 0.99)
HELD_OUT = 16  # sequences of each motion for measuring progress
MEASURED = (1, 4)  # states seen when measuring progress

Terms = dict[str, Tensor]
ContextTrainProgress = Callable[[int, Mapping[str, float], ContextTrainConfig], None]


@dataclass
class Run:
    """The state of a run."""

    model: ContextNND
    average: ContextNND
    optimizer: torch.optim.AdamW
    generator: torch.Generator
    done: int = 0


def train(config: ContextTrainConfig, *, progress: ContextTrainProgress | None = None) -> Path:
    """Train, or resume an unfinished run, and return the file of the averaged weights."""
    group = Ranks(0, 1, checked_device(config.device))
    torch.set_float32_matmul_precision("high")
    with running(config.out, group) as (folder, stopped):
        run = start(config)
        resume(folder, run, config)
        step = make_step(run, config)
        began = time.perf_counter()
        while run.done < config.updates:
            for batch in of_round(run, config):
                set_rate(run, config)
                terms = step(batch)
                run.done += 1
                if progress and run.done % 20 == 0:
                    progress(run.done, numbers(terms, run, folder), config)
                if run.done % config.save_every == 0 or run.done == config.updates:
                    found = numbers(terms, run, folder)
                    row = {"update": run.done, **found, **measured(run.average)}
                    folder.append_metrics({**row, "seconds": time.perf_counter() - began})
                    save(folder, run, config)
                if stopped():
                    save(folder, run, config)
                    raise Interrupted(f"stopped at update {run.done}")
    out = config.out / "context.safetensors"
    save_context(out, run.average, {"training": identity(config), "metrics": measured(run.average)})
    return out


def start(config: ContextTrainConfig) -> Run:
    """A run before its first update."""
    torch.manual_seed(config.seed)
    model, average = (ContextNND(config.model).to(config.device) for _ in range(2))
    model.standardise(draw_pool(config, 0, per_motion=min(config.pool, 2048)))
    average.load_state_dict(model.state_dict())
    average.requires_grad_(False)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.lr, betas=BETAS, weight_decay=config.weight_decay,
        fused=config.device != "cpu",
    )  # fmt: skip
    return Run(model, average, optimizer, torch.Generator(config.device).manual_seed(config.seed))


def of_round(run: Run, config: ContextTrainConfig) -> Iterator[Batch]:
    """The remaining batches of the current pool."""
    length = math.ceil(config.updates / config.rounds)
    number = run.done // length
    last = min((number + 1) * length, config.updates)
    stream = batches(draw_pool(config, number), run.model.std, config, run.generator)
    return (next(stream) for _ in range(last - run.done))


def make_step(run: Run, config: ContextTrainConfig) -> Callable[[Batch], Terms]:
    """One update, compiled on CUDA."""
    parameters: list[Tensor] = list(run.model.parameters())
    averaged: list[Tensor] = list(run.average.parameters())

    def losses(z0: Tensor, readings: Tensor, times: Tensor, target: Tensor) -> Terms:
        logits, gains, offsets = run.model.contexts(readings)
        states = run.model.futures(z0, times, gains, offsets)
        return objective(states, logits, target, config)

    compute = losses if config.device == "cpu" else torch.compile(losses)

    def step(batch: Batch) -> Terms:
        with torch.no_grad():
            readings = run.model.readings(batch.observed, batch.seen, batch.rates)
        terms = compute(batch.observed[:, 0], readings, batch.times, batch.target)
        run.optimizer.zero_grad(set_to_none=True)
        terms["total"].backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        run.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(averaged, parameters, 1 - config.average)
        return {name: x.detach() for name, x in terms.items()}

    return step


def set_rate(run: Run, config: ContextTrainConfig) -> None:
    """Set the learning rate of the next update: linear warm-up, then a cosine."""
    cosine = 0.5 * (1 + math.cos(math.pi * run.done / config.updates))
    rise = min(1.0, (run.done + 1) / config.warm_up)
    for group in run.optimizer.param_groups:
        group["lr"] = rise * (config.lr_min + (config.lr - config.lr_min) * cosine)


def numbers(terms: Terms, run: Run, folder: RunFolder) -> dict[str, float]:
    """Loss terms as finite numbers."""
    found = {name: float(x) for name, x in terms.items()}
    require_finite(found, f"update {run.done}", folder)
    return found


@torch.no_grad()
def measured(model: ContextNND) -> dict[str, float]:
    """Trajectory error on held-out sequences in distribution: progress, not a result."""
    device = model.like.device
    truth = torch.cat([
        motions.generate(name, HELD_OUT, seed=1, stream=6, device=device).states
        for name in motions.STATE32
    ])  # fmt: skip
    times = torch.arange(truth.shape[1], device=device) * motions.DT
    found = {}
    for k in MEASURED:
        error = State(model(truth[:, :k], times).mean()).p - State(truth).p
        found[f"traj_seen_{k}"] = float(error.square().sum(-1).mean().sqrt())
    return found


def save(folder: RunFolder, run: Run, config: ContextTrainConfig) -> None:
    """Write everything needed to resume to one file, atomically."""
    tensors = run.model.state_dict() | optimizer_tensors(run.model, run.optimizer)
    tensors |= {f"average.{k}": x for k, x in run.average.state_dict().items()}
    tensors[f"{OPTIMIZER}generator"] = run.generator.get_state()
    info = {"training": identity(config), "done": run.done}
    folder.save(folder.last, tensors, describe(run.model, info))


def resume(folder: RunFolder, run: Run, config: ContextTrainConfig) -> None:
    """Restore an unfinished run found in the folder."""

    def restore(tensors: dict[str, Tensor], info: dict[str, Any]) -> None:
        for prefix, model in {"": run.model, "average.": run.average}.items():
            model.load_state_dict({k: tensors[prefix + k] for k in model.state_dict()})
        restore_optimizer(run.model, run.optimizer, tensors)
        run.generator.set_state(tensors[f"{OPTIMIZER}generator"])
        run.done = int(info["done"])
        folder.cut_metrics("update", run.done)

    folder.resume(config, restore)

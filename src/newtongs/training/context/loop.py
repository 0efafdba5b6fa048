"""Training ContextNND, top to bottom: fresh sequences, AdamW, a cosine, averaged weights."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import motions
from ...dynamics.context import ContextNND
from ...dynamics.context.weights import describe, save_context
from ...dynamics.weights import load_tensors, save_tensors
from ...errors import InputError, Interrupted
from ...locks import alone
from ...state import State, checked_device
from ..checkpoint import RunFolder
from ..loop import DivergedError, stop_flag
from .config import ContextTrainConfig
from .loss import objective
from .sampling import Batch, batches, draw_pool

CLIP = 1.0  # largest norm of a gradient
BETAS = (0.9, 0.99)
HELD_OUT = 16  # sequences of each motion that progress is measured by
MEASURED = (1, 4)  # states shown in doing so
FREE = ("out", "device", "save_every")  # settings that two parts of one run need not share

Terms = dict[str, Tensor]
Progress = Callable[[int, Mapping[str, float], ContextTrainConfig], None]


@dataclass
class Run:
    """What a run consists of, and goes on from."""

    model: ContextNND
    average: ContextNND
    optimizer: torch.optim.AdamW
    generator: torch.Generator
    done: int = 0


def train(config: ContextTrainConfig, *, progress: Progress | None = None) -> Path:
    """Train, or go on training, and return the file of the averaged weights."""
    checked_device(config.device)
    folder = RunFolder(config.out)
    torch.set_float32_matmul_precision("high")
    with alone(config.out), stop_flag() as stopped:
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
                    progress(run.done, numbers(terms, run), config)
                if run.done % config.save_every == 0 or run.done == config.updates:
                    row = {"update": run.done, **numbers(terms, run), **measured(run.average)}
                    row["seconds"] = time.perf_counter() - began
                    folder.append_metrics(row)
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
    """The batches that the current pool has left to give."""
    length = math.ceil(config.updates / config.rounds)
    number = run.done // length
    last = min((number + 1) * length, config.updates)
    stream = batches(draw_pool(config, number), run.model.std, config, run.generator)
    return (next(stream) for _ in range(last - run.done))


def make_step(run: Run, config: ContextTrainConfig) -> Callable[[Batch], Terms]:
    """One update; on CUDA as compiled code."""
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
    """Learning rate of the next update: a short rise, then a cosine."""
    cosine = 0.5 * (1 + math.cos(math.pi * run.done / config.updates))
    rise = min(1.0, (run.done + 1) / config.warm_up)
    for group in run.optimizer.param_groups:
        group["lr"] = rise * (config.lr_min + (config.lr - config.lr_min) * cosine)


def numbers(terms: Terms, run: Run) -> dict[str, float]:
    """Loss terms as numbers, if they are any."""
    found = {name: float(x) for name, x in terms.items()}
    if not math.isfinite(found["total"]):
        raise DivergedError(f"the loss at update {run.done} is {found['total']}, no number")
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


def identity(config: ContextTrainConfig) -> dict[str, Any]:
    """The settings two parts of a run must share, as plain JSON values."""
    return {k: v for k, v in asdict(config).items() if k not in FREE}


def save(folder: RunFolder, run: Run, config: ContextTrainConfig) -> None:
    """Everything needed to go on, in one file that is replaced as a whole."""
    tensors = dict(run.model.state_dict())
    tensors |= {f"average.{k}": x for k, x in run.average.state_dict().items()}
    for name, parameter in run.model.named_parameters():
        for key, value in run.optimizer.state[parameter].items():
            tensors[f"optimizer.{name}.{key}"] = value
    tensors["optimizer.generator"] = run.generator.get_state()
    info = {"training": identity(config), "done": run.done}
    save_tensors(folder.last, tensors, describe(run.model, info))


def resume(folder: RunFolder, run: Run, config: ContextTrainConfig) -> None:
    """Take up an unfinished run found in the folder."""
    if not folder.last.exists():
        return
    tensors, info = load_tensors(folder.last)
    _check_same_run(folder, info, config)
    parts = {"": run.model, "average.": run.average}
    for prefix, model in parts.items():
        model.load_state_dict({k: tensors[prefix + k] for k in model.state_dict()})
    for name, parameter in run.model.named_parameters():
        prefix = f"optimizer.{name}."
        run.optimizer.state[parameter] = {
            k.removeprefix(prefix): x.to(parameter.device)
            for k, x in tensors.items()
            if k.startswith(prefix)
        }
    run.generator.set_state(tensors["optimizer.generator"])
    run.done = int(info["done"])


def _check_same_run(folder: RunFolder, info: Mapping[str, Any], config: ContextTrainConfig) -> None:
    there, here = info.get("training", {}), json.loads(json.dumps(identity(config)))
    different = next((k for k in here if there.get(k) != here[k]), None)
    if different is not None:
        raise InputError(
            f"{folder.path} holds a run with {different} = {there.get(different)}, this one has "
            f"{here[different]}; choose another --out, or the same settings to go on"
        )

"""Batches of a training step: new sequences, how many states of each are seen, and their noise."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ... import motions
from ...base.state import DIM
from ...base.types import StateTensor
from ..config import SEEN
from ..reading import add_noise
from .config import ContextTrainConfig

STREAM = 5  # separate from the data sets' streams, whose seeds may coincide with ours
# How often k states are seen: the first alone most often, since it is the hardest case.
SHOWN = (0.35, 0.12, 0.11, 0.12, *[0.025] * 12)
MISSTATED = (0.6, 1.7)  # factors, log-uniform


class Batch(NamedTuple):
    """Sequences of one step."""

    observed: StateTensor  # (B, 16, 22), with noise
    seen: Tensor  # (B,)
    times: Tensor  # (T,)
    target: StateTensor  # (B, T, 22)
    rates: Tensor  # (B, 2), factors on velocity and spin in the reader's input


def draw_pool(
    config: ContextTrainConfig, number: int, *, per_motion: int | None = None
) -> StateTensor:
    """Sequences ``(32 n, 64, 22)`` of all motions, in distribution; ``number`` selects the pool."""
    n, seed = per_motion or config.pool, config.seed + 1000 * number
    names = motions.STATE32
    pool = torch.empty(len(names) * n, motions.FRAMES, DIM, device=config.device)
    for i, name in enumerate(names):
        drawn = motions.generate(name, n, seed=seed, stream=STREAM, device=config.device)
        pool[i * n : (i + 1) * n] = drawn.states
    return pool


def batches(
    pool: StateTensor, std: Tensor, config: ContextTrainConfig, generator: torch.Generator
) -> Iterator[Batch]:
    """An endless stream of batches."""
    shown = torch.tensor(SHOWN, device=pool.device)
    group = pool.shape[1] // config.frames
    steps = torch.arange(config.frames, device=pool.device) * group

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=pool.device)

    while True:
        chosen = (random(config.batch) * len(pool)).long().clamp_max(len(pool) - 1)
        frames = steps + (random(config.frames) * group).long()
        seen = 1 + torch.multinomial(shown, config.batch, replacement=True, generator=generator)
        level = config.noise * random(config.batch) * (random(config.batch) < 0.5)
        rows = pool[chosen]
        noise = torch.randn(config.batch, SEEN, DIM, generator=generator, device=pool.device)
        observed = add_noise(rows[:, :SEEN], level, std, noise)
        wrong = MISSTATED[0] * (MISSTATED[1] / MISSTATED[0]) ** random(config.batch, 2)
        rates = torch.where(random(config.batch, 1) < config.misstated, wrong, 1.0)
        yield Batch(observed, seen, frames * motions.DT, rows[:, frames], rates)

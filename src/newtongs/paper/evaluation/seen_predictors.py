"""Methods that see the first states of a sequence: ContextNND and the Bayes bound."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ...base.errors import InputError
from ...base.types import StateTensor, Times
from ...forecast import SEEN, ContextNND
from ...forecast.reading import add_noise
from ..datasets import state32
from .bayes_bound import BayesBound
from .evaluate import SeenPredictor

NOISE_SEED = 20_000


def context_methods(
    model: ContextNND, seen: Sequence[int] = (1,), *, noise: float = 0.0
) -> dict[str, SeenPredictor]:
    """ContextNND as a method, by the name of its row: `context`, or one for each count.

    Args:
        model: on the device where it will predict.
        seen: how many states it sees, 1 to 16.
        noise: on these states, in standard deviations of each channel of Z_0: 0.01 is one per cent.
    """
    predict = partial(mean_future, model)
    spoil = noisy(model, noise) if noise else None
    return _by_count("context", {k: SeenPredictor(predict, k, spoil) for k in checked(seen)})


@torch.no_grad()
def mean_future(model: ContextNND, observed: StateTensor, times: Times) -> StateTensor:
    """The mean ``(B, T, 22)`` of a model's futures after observed states ``(B, k, 22)``."""
    rows = 4096 if model.like.device.type == "cuda" else 256  # what fits into the cache
    return torch.cat([model(part, times).mean() for part in observed.split(rows)])


def bayes_bound_methods(split: str, seen: Sequence[int] = (1,)) -> dict[str, SeenPredictor]:
    """The smallest expected error on a split of State-32, as a method."""
    bound = BayesBound(ood=state32.get_split(split).ood)
    return _by_count("bayes_bound", {k: SeenPredictor(bound, k) for k in checked(seen)})


def checked(seen: Sequence[int]) -> Sequence[int]:
    """Check the numbers of states."""
    wrong = next((k for k in seen if not 1 <= k <= SEEN), None)
    if wrong is not None or not seen:
        raise InputError(f"seen: expected numbers of states from 1 to {SEEN}, got {wrong}")
    return tuple(dict.fromkeys(seen))


def noisy(model: ContextNND, level: float) -> Callable[[StateTensor, int], StateTensor]:
    """Add noise that is the same for the same sequences on every device."""
    if not 0 < level <= 1:
        raise InputError(f"noise: expected 0 to 1 standard deviations of each channel, got {level}")

    def spoil(observed: StateTensor, first: int) -> StateTensor:
        generator = torch.Generator().manual_seed(NOISE_SEED + first)
        noise: Tensor = torch.randn(observed.shape, generator=generator).to(observed)
        levels = torch.full((len(observed),), level).to(observed)
        return add_noise(observed, levels, model.std, noise)

    return spoil


def _by_count(name: str, by_seen: dict[int, SeenPredictor]) -> dict[str, SeenPredictor]:
    if len(by_seen) == 1:
        return {name: next(iter(by_seen.values()))}
    return {f"{name}_{k}": method for k, method in by_seen.items()}

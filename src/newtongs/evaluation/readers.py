"""Methods that are shown the first states: ContextNND, and the limit of what can be known."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..datasets import state32
from ..dynamics.backends.context import context_predictor
from ..dynamics.context import SEEN, ContextNND
from ..dynamics.context.noise import add_noise
from ..errors import InputError
from ..types import StateTensor
from .evaluate import Reader
from .limit import Limit

NOISE_SEED = 20_000


def context_readers(
    model: ContextNND, seen: Sequence[int] = (1,), *, noise: float = 0.0
) -> dict[str, Reader]:
    """ContextNND as a method, by the name of its row: `context`, or one for each count.

    Args:
        model: on the device where it will predict.
        seen: how many states it is shown, 1 to 16.
        noise: on them, in standard deviations of each channel of Z_0: 0.01 is one per cent.
    """
    predict = context_predictor(model)
    spoil = noisy(model, noise) if noise else None
    return _by_count("context", {k: Reader(predict, k, spoil) for k in checked(seen)})


def limit_readers(split: str, seen: Sequence[int] = (1,)) -> dict[str, Reader]:
    """The least error possible on a split of State-32, as a method."""
    limit = Limit(ood=state32.get_split(split).ood)
    return _by_count("limit", {k: Reader(limit, k) for k in checked(seen)})


def checked(seen: Sequence[int]) -> Sequence[int]:
    """Counts of states that can be shown."""
    wrong = next((k for k in seen if not 1 <= k <= SEEN), None)
    if wrong is not None or not seen:
        raise InputError(f"seen: expected numbers of states from 1 to {SEEN}, got {wrong}")
    return tuple(dict.fromkeys(seen))


def noisy(model: ContextNND, level: float) -> Callable[[StateTensor, int], StateTensor]:
    """Noise that is the same for the same sequences on every device."""
    if not 0 < level <= 1:
        raise InputError(f"noise: expected a part of each channel's deviation, 0 to 1, got {level}")

    def spoil(observed: StateTensor, first: int) -> StateTensor:
        generator = torch.Generator().manual_seed(NOISE_SEED + first)
        noise: Tensor = torch.randn(observed.shape, generator=generator).to(observed)
        levels = torch.full((len(observed),), level).to(observed)
        return add_noise(observed, levels, model.std, noise)

    return spoil


def _by_count(name: str, readers: dict[int, Reader]) -> dict[str, Reader]:
    if len(readers) == 1:
        return {name: next(iter(readers.values()))}
    return {f"{name}_{k}": reader for k, reader in readers.items()}

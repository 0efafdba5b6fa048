"""What the reader is given of the observed states: numbers of about unit size."""

import torch
from torch import Tensor

from ...state import State
from ...types import StateTensor
from .config import RATE, SEEN

FIELDS = ("p", "v", "w", "s", "u", "m", "e", "mu")  # q only turns the result, see model.py
# Differences to the first state that count as small; asinh is linear below and a logarithm above.
SMALL = {"p": 0.01, "v": 0.02, "w": 0.05, "s": 0.005, "u": 0.02, "m": 0.01, "e": 0.003, "mu": 0.003}
BELOW = 0.2  # the logarithms' scale
WAVES = (3.0, 9.0)  # rad per unit of length, by which positions are told apart finely
CHANNELS = 18
FIRST = 2 * CHANNELS + 3 + 6 * 2 * len(WAVES)
WIDTH = FIRST + (SEEN - 1) * CHANNELS + SEEN


def fields(z: StateTensor) -> Tensor:
    """The channels that count ``(..., 18)``: all but the orientation."""
    x = State(z)
    return torch.cat([getattr(x, name) for name in FIELDS], -1)


def statistics(z0: StateTensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of :func:`fields` over first states ``(N, 22)``."""
    x = fields(z0.double())
    return x.mean(0).float(), x.std(0).clamp_min(1e-3).float()


def reading(
    observed: StateTensor, seen: Tensor, mean: Tensor, std: Tensor, rates: Tensor | None = None
) -> Tensor:
    """Input of the reader ``(B, WIDTH)``.

    Args:
        observed: states ``(B, k, 22)`` at 24 Hz, k up to 16; those from ``seen`` on are ignored.
        seen: how many count ``(B,)``, 1 to k.
        mean: of the first state's channels, see :func:`statistics`.
        std: the same.
        rates: training only, see :func:`first_state`.
    """
    number = torch.arange(SEEN, device=observed.device)
    k = observed.shape[1]
    shown = (number[1:k] < seen.unsqueeze(-1)).to(observed.dtype)
    first = first_state(observed[:, 0], mean, std, rates)
    later = (differences(observed) * shown.unsqueeze(-1)).flatten(1)
    later = torch.nn.functional.pad(later, (0, (SEEN - k) * CHANNELS))
    count = (number == seen.unsqueeze(-1) - 1).to(observed.dtype)
    return torch.cat([first, later, count], -1)


def first_state(z0: StateTensor, mean: Tensor, std: Tensor, rates: Tensor | None = None) -> Tensor:
    """Z_0 in bounded numbers ``(B, FIRST)``.

    The position one frame before, by the first velocity, is among them: where an object comes from
    tells some kinds of motion apart. ``rates (B, 2)`` are factors by which velocity and spin are
    misstated: a reader that is now and then told wrong ones learns to tell kinds of motion apart by
    what does not depend on how fast they go, and reads faster ones than it was trained with.
    """
    x = State(z0)
    before = x.p - x.v / RATE
    values = fields(z0)
    if rates is not None:
        values = torch.cat([
            values[:, :3], values[:, 3:6] * rates[:, :1], values[:, 6:9] * rates[:, 1:],
            values[:, 9:],
        ], -1)  # fmt: skip
    scaled = (values - mean) / std
    places = torch.cat([x.p, before], -1)
    waves = [wave(k * places) for k in WAVES for wave in (torch.sin, torch.cos)]
    came = (before - mean[:3]) / std[:3]
    return torch.cat([torch.tanh(scaled), torch.tanh(scaled / 4), torch.tanh(came), *waves], -1)


def differences(observed: StateTensor) -> Tensor:
    """How the later states differ from going straight on from the first ``(B, k - 1, 18)``."""
    x, first = State(observed[:, 1:]), State(observed[:, :1])
    t = (torch.arange(1, observed.shape[1], device=observed.device) / RATE).unsqueeze(-1)
    parts = {name: getattr(x, name) - getattr(first, name) for name in FIELDS}
    parts["p"] = parts["p"] - t * first.v
    return BELOW * torch.cat([torch.asinh(parts[name] / SMALL[name]) for name in FIELDS], -1)

"""The reader's input: observed states as numbers of order one."""

import torch
from torch import Tensor

from ..base import rotations
from ..base.state import LAYOUT, State, project
from ..base.types import StateTensor
from .config import RATE, SEEN

FIELDS = ("p", "v", "w", "s", "u", "m", "e", "mu")  # q only rotates the result, see model.py
# Scale of differences to the first state: asinh is linear below it and logarithmic above.
KNEE = {"p": 0.01, "v": 0.02, "w": 0.05, "s": 0.005, "u": 0.02, "m": 0.01, "e": 0.003, "mu": 0.003}
BELOW = 0.2  # the logarithms' scale
WAVES = (3.0, 9.0)  # rad per unit of length, of the sinusoidal position features
CHANNELS = 18
FIRST = 2 * CHANNELS + 3 + 6 * 2 * len(WAVES)
WIDTH = FIRST + (SEEN - 1) * CHANNELS + SEEN


def fields(z: StateTensor) -> Tensor:
    """The channels that are read ``(..., 18)``: all but the orientation."""
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
    """Z_0 as bounded features ``(B, FIRST)``.

    They include the position one frame earlier, extrapolated with the first velocity, since the
    origin of an object distinguishes some families. ``rates (B, 2)`` are factors by which velocity
    and spin are misstated: a reader that sees some wrong ones in training learns to recognise a
    family by features that do not depend on speed, and generalises to faster motions.
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
    """Differences of the later states to straight motion from the first ``(B, k - 1, 18)``."""
    x, first = State(observed[:, 1:]), State(observed[:, :1])
    t = (torch.arange(1, observed.shape[1], device=observed.device) / RATE).unsqueeze(-1)
    parts = {name: getattr(x, name) - getattr(first, name) for name in FIELDS}
    parts["p"] = parts["p"] - t * first.v
    return BELOW * torch.cat([torch.asinh(parts[name] / KNEE[name]) for name in FIELDS], -1)


# --- noise on observed states, as from a tracker; for training and evaluation ---------------------


def channel_sizes(std: Tensor) -> Tensor:
    """Deviations of :data:`FIELDS` spread over all channels ``(22,)``; zero for the orientation."""
    sizes, done = std.new_zeros(22), 0
    for name in FIELDS:
        part = LAYOUT[name]
        sizes[part] = std[done : done + part.stop - part.start]
        done += part.stop - part.start
    return sizes


def add_noise(observed: StateTensor, level: Tensor, std: Tensor, noise: Tensor) -> StateTensor:
    """States ``(B, k, 22)`` with noise, ``level (B,)`` times each channel's deviation.

    Args:
        observed: without noise.
        level: 0.01 is one per cent. Sequences with level zero are returned unchanged.
        std: of :data:`FIELDS` over first states.
        noise: normal numbers ``(B, k, 22)``. Orientations are rotated by ``level`` radians.
    """
    by = level[:, None, None]
    noisy = observed + by * channel_sizes(std) * noise
    turn = rotations.exp(by * noise[..., LAYOUT["q"]][..., 1:])
    noisy[..., LAYOUT["q"]] = rotations.multiply(State(observed).q, turn)
    return torch.where(by > 0, project(noisy), observed)

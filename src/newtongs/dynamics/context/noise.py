"""Noise on observed states, as a tracker would have it; for training and for measuring."""

import torch
from torch import Tensor

from ... import rotations
from ...state import LAYOUT, State, project
from ...types import StateTensor
from .reading import FIELDS


def channel_sizes(std: Tensor) -> Tensor:
    """Deviations of :data:`FIELDS` as those of all channels ``(22,)``; zero for the orientation."""
    sizes, done = std.new_zeros(22), 0
    for name in FIELDS:
        part = LAYOUT[name]
        sizes[part] = std[done : done + part.stop - part.start]
        done += part.stop - part.start
    return sizes


def add_noise(observed: StateTensor, level: Tensor, std: Tensor, noise: Tensor) -> StateTensor:
    """States ``(B, k, 22)`` with noise, ``level (B,)`` times each channel's deviation.

    Args:
        observed: as they are.
        level: 0.01 is one per cent. Where it is zero nothing changes.
        std: of :data:`newtongs.dynamics.context.reading.FIELDS` over first states.
        noise: normal numbers ``(B, k, 22)``. An orientation is turned by ``level`` radians.
    """
    by = level[:, None, None]
    noisy = observed + by * channel_sizes(std) * noise
    turn = rotations.exp(by * noise[..., LAYOUT["q"]][..., 1:])
    noisy[..., LAYOUT["q"]] = rotations.multiply(State(observed).q, turn)
    return torch.where(by > 0, project(noisy), observed)

"""Hybrid rollout: substeps of a continuous step, each followed by the test for an event.

This file knows neither physics nor floor; it is given a ``step``, a ``gap`` and a ``jump``.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..errors import InputError
from ..state import (
    CHANNELS,
    DIM,
    MASS_FLOOR,
    State,
    StateLike,
    as_tensor,
    project,
    require_simulable,
)
from ..types import StateTensor, Times

Step = Callable[[StateTensor, float], StateTensor]
Gap = Callable[[StateTensor], Tensor]
Jump = Callable[[StateTensor], StateTensor]

# In pieces. A float32 time t is off by up to 6e-8 t, a step between two of them by twice that: at
# pieces of 1/30 s a thousandth covers every time up to 512 s, and changes no solution visibly.
SLACK = 1e-3


def rollout(
    z0: StateLike,
    times: Times | Sequence[float],
    step: Step,
    *,
    gap: Gap | None = None,
    jump: Jump | None = None,
    max_dt: float = math.inf,
) -> StateTensor:
    """Advance ``z0`` of shape ``(..., 22)`` over the grid ``times`` to ``(..., T, 22)``.

    Each interval is cut into the fewest equal substeps no longer than ``max_dt``. The first
    returned state is the projected input.
    """
    z = project(check_initial(z0))
    frames = [z]
    for dt in intervals(times):
        n = substeps(dt, max_dt)
        for _ in range(n):
            z = step(z, dt / n)
            if gap is not None and jump is not None:
                # Every row is evaluated and only hits are kept: the same values as evaluating
                # hits alone, without a shape that depends on the data.
                z = torch.where(gap(z).unsqueeze(-1) <= 0, project(jump(z)), z)
        frames.append(z)
    return finite(torch.stack(frames, dim=-2))


def substeps(dt: float, max_dt: float) -> int:
    """How many equal pieces of at most ``max_dt`` make ``dt``.

    A piece may be longer by ``SLACK``, so that a grid with spacing ``max_dt`` takes one piece a
    frame however its times were rounded.
    """
    return max(1, math.ceil(dt / max_dt - SLACK))


def intervals(times: Times | Sequence[float]) -> list[float]:
    """Lengths of the steps of an increasing time grid, in seconds."""
    t = torch.as_tensor(times, dtype=torch.float64, device="cpu")
    if t.dim() != 1 or len(t) == 0:
        raise InputError(f"times: expected shape (T,) with T >= 1, got {tuple(t.shape)}")
    dt = t.diff()
    good = torch.isfinite(t[:1]) if len(t) == 1 else torch.isfinite(dt) & (dt > 0)
    if not good.all():
        bad = int(good.int().argmin())
        around = t[bad : bad + 2].tolist()
        raise InputError(f"times: expected increasing finite seconds, got {around} at index {bad}")
    return dt.tolist()


def check_initial(z0: StateLike) -> StateTensor:
    """The initial state as a tensor, or one line on what is wrong with it."""
    z0 = as_tensor(z0, "z0")
    if z0.dim() == 0 or z0.shape[-1] != DIM:
        raise InputError(f"z0: expected shape (..., {DIM}), got {tuple(z0.shape)}")
    require_simulable(z0, "z0")
    return z0


def require_mass(z: StateTensor, least: float) -> None:
    """Refuse states ``(..., 22)`` lighter than the steps to come can follow."""
    too_light = State(z).m < least
    if least <= MASS_FLOOR or not too_light.any():
        return
    *where, _ = torch.nonzero(too_light)[0].tolist()
    raise InputError(
        f"z0: channel m at index {tuple(where)} is {float(State(z).m[(*where, 0)]):g}; with "
        f"these steps a mass below {least:.3g} cannot be simulated"
    )


def finite(paths: StateTensor) -> StateTensor:
    """The states ``(..., T, 22)``, or one line on the first that left all bounds.

    What is no number once stays so: the last frame tells of all of them.
    """
    last = paths[..., -1, :]
    if not torch.isfinite(last).all():
        *where, channel = torch.nonzero(~torch.isfinite(last))[0].tolist()
        raise InputError(
            f"z0: from index {tuple(where)} channel {CHANNELS[channel]} left all bounds; start "
            "with smaller rates or a larger mass, or take shorter steps"
        )
    return paths

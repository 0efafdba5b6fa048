"""Hybrid rollout: substeps of a continuous step, each followed by a test for an event.

This file knows neither physics nor floor: it takes a ``step``, a ``gap`` and a ``jump``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.state import (
    CHANNELS,
    DIM,
    MASS_FLOOR,
    State,
    StateLike,
    as_tensor,
    project,
    require_simulable,
)
from ..base.types import StateTensor, Times

Step = Callable[[StateTensor, float], StateTensor]
Gap = Callable[[StateTensor], Tensor]
Jump = Callable[[StateTensor], StateTensor]

# In substeps. A float32 time t is off by up to 6e-8 t, a step between two of them by twice that.
# With substeps of 1/30 s a thousandth covers every time up to 512 s, with no visible effect.
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
    event = None if gap is None or jump is None else partial(landed, gap=gap, jump=jump)
    frames = advanced(z, intervals(times), step, event, max_dt)
    return finite(torch.stack([z, *frames], dim=-2))


def advanced(
    z: StateTensor,
    dt: Sequence[float],
    step: Step,
    event: Callable[[StateTensor], StateTensor] | None,
    max_dt: float,
) -> Iterator[StateTensor]:
    """The state after each of the intervals ``dt``, from a projected one: the loop over substeps.

    ``event`` handles contacts after every substep.
    """
    for interval in dt:
        n = substeps(interval, max_dt)
        for _ in range(n):
            z = step(z, interval / n)
            z = z if event is None else event(z)
        yield z


def landed(z: StateTensor, gap: Gap, jump: Jump) -> StateTensor:
    """The states ``(..., 22)``; where ``gap`` finds contact, after ``jump``.

    Every row is evaluated and only hits are kept: the same values as evaluating hits alone, without
    shapes that depend on the data.
    """
    return torch.where(gap(z).unsqueeze(-1) <= 0, project(jump(z)), z)


def substeps(dt: float, max_dt: float) -> int:
    """Number of equal substeps of at most ``max_dt`` that make up ``dt``.

    A substep may be longer by ``SLACK``, so that a grid with spacing ``max_dt`` takes one substep
    per frame however its times were rounded.
    """
    return max(1, math.ceil(dt / max_dt - SLACK))


def intervals(times: Times | Sequence[float]) -> list[float]:
    """Lengths of the intervals of an increasing time grid, in seconds."""
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
    """The initial state as a tensor; InputError if it cannot be simulated."""
    z0 = as_tensor(z0, "z0")
    if z0.dim() == 0 or z0.shape[-1] != DIM:
        raise InputError(f"z0: expected shape (..., {DIM}), got {tuple(z0.shape)}")
    require_simulable(z0, "z0")
    return z0


def require_mass(z: StateTensor, least: float) -> None:
    """Refuse states ``(..., 22)`` with a mass below ``least``."""
    too_light = State(z).m < least
    if least <= MASS_FLOOR or not too_light.any():
        return
    *where, _ = torch.nonzero(too_light)[0].tolist()
    raise InputError(
        f"z0: channel m at index {tuple(where)} is {float(State(z).m[(*where, 0)]):g}; with "
        f"these steps a mass below {least:.3g} cannot be simulated"
    )


def finite(paths: StateTensor) -> StateTensor:
    """The states ``(..., T, 22)``; InputError if any of them is not finite.

    NaN and infinity persist, so the last frame shows all of them.
    """
    last = paths[..., -1, :]
    if not torch.isfinite(last).all():
        *where, channel = torch.nonzero(~torch.isfinite(last))[0].tolist()
        raise InputError(
            f"z0: from index {tuple(where)} channel {CHANNELS[channel]} left all bounds; start "
            "with smaller rates or a larger mass, or take shorter steps"
        )
    return paths

"""From a family's name and a seed to labelled state sequences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.state import DIM, State, checked_device
from ..base.types import StateTensor
from . import registry
from .operators import Events, Path, centered, length
from .sampling import IN_DISTRIBUTION, NUMBERS_PER_OBJECT, VELOCITY_SHIFT, Draw, Ranges, draw

FRAMES = 64
DT = 1 / 24


@dataclass(frozen=True)
class Sequences:
    """State sequences of one family with their contact metadata.

    The metadata documents the generator; it is not part of the state and not a model input.
    """

    name: str
    states: StateTensor  # (N, T, 22)
    _events: Events | None

    @cached_property
    def collision(self) -> Tensor:
        """Contact flag ``(N, T)``."""
        if self._events is None:
            return torch.zeros(self.states.shape[:2], dtype=torch.bool, device=self.states.device)
        return self._events.collision

    @cached_property
    def normal(self) -> Tensor:
        """Inward contact normal ``(N, T, 3)``, zero without contact."""
        if self._events is None:
            return self.states.new_zeros(*self.states.shape[:2], 3)
        return self._events.normal.permute(1, 2, 0).contiguous()

    @cached_property
    def impulse(self) -> Tensor:
        """Momentum change along the contact's axis ``(N, T)``, zero without contact."""
        if self._events is None:
            return self.states.new_zeros(self.states.shape[:2])
        return self._events.impulse


def generate(
    name: str,
    n: int,
    *,
    seed: int = 0,
    ood: bool = False,
    frames: int = FRAMES,
    dt: float = DT,
    ranges: Ranges | None = None,
    stream: int = 0,
    device: torch.device | str = "cpu",
) -> Sequences:
    """Draw ``n`` sequences of one motion family.

    Args:
        name: one of :func:`newtongs.motions.names`, yours included.
        n: how many sequences; a smaller draw is a prefix of a larger one.
        seed: the same seed gives the same sequences on every device.
        ood: sample from the velocity-range shift (1.6 times the velocity limits).
        frames: length T of each sequence.
        dt: seconds between frames.
        ranges: sampling intervals, instead of the two that ``ood`` selects from.
        stream: separates data sets that share a seed.
        device: where to compute; the initial draws are made on the CPU regardless.
    """
    return generate_blocks(
        name,
        [(n, seed)],
        ood=ood,
        frames=frames,
        dt=dt,
        ranges=ranges,
        stream=stream,
        device=device,
    )


def generate_blocks(
    name: str,
    blocks: Sequence[tuple[int, int]],
    *,
    ood: bool = False,
    frames: int = FRAMES,
    dt: float = DT,
    ranges: Ranges | None = None,
    stream: int = 0,
    device: torch.device | str = "cpu",
) -> Sequences:
    """Several draws ``(n, seed)`` of one family computed together, one after the other.

    The sequences are those of separate calls of :func:`generate`, made with fewer operations.
    """
    chosen = registry.get(name)
    if not blocks or min(n for n, _ in blocks) < 1:
        raise InputError(f"n must be at least 1, got {min((n for n, _ in blocks), default=0)}")
    if frames < 4:
        raise InputError(f"a sequence needs at least 4 frames, got {frames}")
    if not 0 < dt < math.inf:
        raise InputError(f"dt must be a positive number of seconds, got {dt}")
    device = checked_device(device)
    ranges = ranges or (VELOCITY_SHIFT if ood else IN_DISTRIBUTION)
    uniforms = torch.cat([_uniforms(n, seed, stream, chosen.entropy) for n, seed in blocks])
    return from_uniforms(name, uniforms.to(device), ranges, frames=frames, dt=dt)


def from_uniforms(
    name: str, uniforms: Tensor, ranges: Ranges, *, frames: int = FRAMES, dt: float = DT
) -> Sequences:
    """Sequences from the draws ``uniforms (N, 16)`` in [0, 1), with their dtype and device."""
    chosen = registry.get(name)
    z = draw(uniforms, ranges, chosen.height)
    t = torch.arange(frames, dtype=uniforms.dtype, device=uniforms.device) * dt
    path = _checked(name, chosen.generate(z, t), (3, len(uniforms), frames))
    return Sequences(name, _assemble(z, t, path), path.events)


def _uniforms(n: int, seed: int, stream: int, entropy: int) -> Tensor:
    """Numbers in [0, 1) for ``n`` objects, object by object, from a CPU generator.

    So a seed means the same data on every device, and a smaller draw is a prefix of a larger one.
    """
    if min(seed, stream) < 0:
        raise InputError(f"seed must not be negative, got {min(seed, stream)}")
    mixed = np.random.SeedSequence((seed, stream, entropy)).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(mixed))
    return torch.rand(n, NUMBERS_PER_OBJECT, generator=generator)


def _checked(name: str, path: Path, shape: tuple[int, int, int]) -> Path:
    """The path, or an error if a field does not broadcast to ``(3, N, T)``."""
    if not isinstance(path, Path):
        raise InputError(f"motion {name!r} must return a Path, got {type(path).__name__}")
    fitting = {(3, n, frames) for n in (1, shape[1]) for frames in (1, shape[2])}
    for field in ("p", "v", "w", "s"):
        x = getattr(path, field)
        if x is not None and tuple(x.shape) not in fitting:
            raise InputError(
                f"motion {name!r}: {field} has the shape {tuple(x.shape)}, expected {shape} "
                "(components, objects, frames)"
            )
    return path


def _assemble(z: Draw, t: Tensor, path: Path) -> StateTensor:
    """Components-first path to states ``(N, T, 22)``, with scale rate and orientation.

    The orientation is the rotation that the *current* angular velocity would have reached from
    time zero, not an integral of it.
    """
    n, frames = z.m.shape[0], len(t)
    w = z.w if path.w is None else path.w
    s = z.s if path.s is None else path.s
    out = t.new_empty(n, frames, DIM)
    x = State(out)
    for view, value in ((x.p, path.p), (x.v, path.v), (x.w, w), (x.s, s)):
        view.copy_(_frames_first(value))
    if s.shape[-1] == 1:
        x.u.zero_()
    else:
        x.u.copy_(_frames_first(centered(s, t)))
    angle = length(w) * t
    x.q.copy_(rotations.from_axis_angle(_frames_first(w).expand(-1, frames, -1), angle))
    for view, value in ((x.m, z.m), (x.e, z.e), (x.mu, z.mu)):
        view.copy_(value.unsqueeze(-1))
    return out


def _frames_first(x: Tensor) -> Tensor:
    """``(3, N, T)`` to ``(N, T, 3)``; singleton dimensions stay, to be broadcast."""
    return x.permute(1, 2, 0)

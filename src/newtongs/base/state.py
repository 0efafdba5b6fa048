"""The 22-number state of one object (Eq. 2): layout, views by name, projection.

This is the only file that knows at which index a channel stands::

    p 3   position                  q 4   unit quaternion, scalar first
    v 3   linear velocity           w 3   angular velocity (the paper's omega), body frame
    s 3   anisotropic scale         u 3   scale rate s'
    m 1   mass     e 1  restitution     mu 1   tangential attenuation
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import rotations
from .errors import InputError
from .types import Quat, StateTensor, Vec3

# What a caller may pass as a state: see as_tensor.
StateLike = Tensor | np.ndarray | Sequence[Any]

LAYOUT = {
    "p": slice(0, 3),
    "q": slice(3, 7),
    "v": slice(7, 10),
    "w": slice(10, 13),
    "s": slice(13, 16),
    "u": slice(16, 19),
    "m": slice(19, 20),
    "e": slice(20, 21),
    "mu": slice(21, 22),
}
DIM = 22
CHANNELS = (
    "p_x", "p_y", "p_z", "q_w", "q_x", "q_y", "q_z", "v_x", "v_y", "v_z", "w_x", "w_y", "w_z",
    "s_x", "s_y", "s_z", "u_x", "u_y", "u_z", "m", "e", "mu",
)  # fmt: skip

LARGEST_CHANNEL = 1e9  # magnitude of a channel that float32 can simulate
SMALLEST_QUATERNION = 1e-6  # largest component of a quaternion that can be normalised

SCALE_FLOOR = 1e-4
MASS_FLOOR = 1e-4

# Default material of an object (the paper's lifting defaults).
DEFAULT_MATERIAL = {"m": 1.0, "e": 0.75, "mu": 0.2}


class State:
    """Named views of a state tensor ``(..., 22)``; writing into a view writes the tensor.

    Scalars keep a trailing dimension of one, so that ``v / m`` broadcasts.
    """

    __slots__ = ("z",)

    def __init__(self, z: StateTensor) -> None:
        if z.shape[-1:] != (DIM,):
            raise InputError(
                f"a state has {DIM} channels in its last dimension, got {tuple(z.shape)}"
            )
        self.z = z

    @property
    def p(self) -> Vec3:
        """Position ``(..., 3)``."""
        return self.z[..., LAYOUT["p"]]

    @property
    def q(self) -> Quat:
        """Orientation ``(..., 4)``, scalar first."""
        return self.z[..., LAYOUT["q"]]

    @property
    def v(self) -> Vec3:
        """Linear velocity ``(..., 3)``."""
        return self.z[..., LAYOUT["v"]]

    @property
    def w(self) -> Vec3:
        """Angular velocity ``(..., 3)`` in rad/s, body frame."""
        return self.z[..., LAYOUT["w"]]

    @property
    def s(self) -> Vec3:
        """Scale ``(..., 3)``."""
        return self.z[..., LAYOUT["s"]]

    @property
    def u(self) -> Vec3:
        """Scale rate ``(..., 3)``."""
        return self.z[..., LAYOUT["u"]]

    @property
    def m(self) -> Tensor:
        """Mass ``(..., 1)``."""
        return self.z[..., LAYOUT["m"]]

    @property
    def e(self) -> Tensor:
        """Restitution ``(..., 1)``."""
        return self.z[..., LAYOUT["e"]]

    @property
    def mu(self) -> Tensor:
        """Tangential attenuation ``(..., 1)``."""
        return self.z[..., LAYOUT["mu"]]

    def __repr__(self) -> str:
        return f"State({tuple(self.z.shape)}, {self.z.dtype}, {self.z.device})"


def pack(
    p: Vec3, q: Quat, v: Vec3, w: Vec3, s: Vec3, u: Vec3, m: Tensor, e: Tensor, mu: Tensor
) -> StateTensor:
    """Join the nine fields into ``(..., 22)``; the inverse of the views of :class:`State`."""
    return torch.cat([p, q, v, w, s, u, m, e, mu], dim=-1)


def make(**fields: Tensor | Sequence[float] | float) -> StateTensor:
    """A state from the fields that are given: ``make(p=(0, 1, 0), v=(2, 0, 0))``.

    Missing fields default to the identity rotation, unit scale, rest, and the material
    ``m = 1, e = 0.75, mu = 0.2``. Leading dimensions broadcast. If one field is on a GPU, the
    state is too.
    """
    zeros, ones = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    rest = {"p": zeros, "q": (1.0, *zeros), "v": zeros, "w": zeros, "s": ones, "u": zeros}
    unknown = fields.keys() - LAYOUT.keys()
    if unknown:
        raise InputError(f"a state has no field {min(unknown)!r}; fields: {', '.join(LAYOUT)}")
    return _join({k: _field(k, x) for k, x in {**rest, **DEFAULT_MATERIAL, **fields}.items()})


def replace(z: StateLike, **fields: Tensor | Sequence[float] | float | None) -> StateTensor:
    """A copy of ``z`` with some fields overwritten; ``None`` leaves a field as it is.

    Leading dimensions broadcast: one state and ``B`` velocities make ``B`` states.
    """
    unknown = fields.keys() - LAYOUT.keys()
    if unknown:
        raise InputError(f"a state has no field {min(unknown)!r}; fields: {', '.join(LAYOUT)}")
    z = as_tensor(z, "state")
    parts = {k: getattr(State(z), k) for k in LAYOUT}
    return _join(parts | {k: _field(k, x).to(z) for k, x in fields.items() if x is not None})


def _join(parts: Mapping[str, Tensor]) -> StateTensor:
    """One state tensor from fields whose leading dimensions broadcast."""
    try:
        # Not torch.broadcast_shapes, whose first call imports sympy, for a second.
        shape = torch.broadcast_tensors(*(x[..., 0] for x in parts.values()))[0].shape
    except RuntimeError as error:
        given = ", ".join(f"{k} {tuple(x.shape)}" for k, x in parts.items() if x.dim() > 1)
        raise InputError(f"leading dimensions of the fields must agree, got {given}") from error
    devices = {x.device for x in parts.values()}
    there = next((d for d in devices if d.type != "cpu"), torch.device("cpu"))
    return torch.cat([parts[k].to(there).expand(*shape, -1) for k in LAYOUT], dim=-1)


def _field(name: str, value: Any) -> Tensor:
    """A float tensor whose last dimension has the field's width; a scalar field may omit it."""
    x = as_tensor(value, f"field {name!r}")
    width = LAYOUT[name].stop - LAYOUT[name].start
    if width == 1 and (x.dim() == 0 or x.shape[-1] != 1):
        x = x.unsqueeze(-1)
    if x.dim() == 0 or x.shape[-1] != width:
        raise InputError(f"field {name!r} has {width} components, got shape {tuple(x.shape)}")
    return x


def project(z: StateTensor) -> StateTensor:
    """Back to the valid domain: unit quaternion, s and m >= 1e-4, e and mu in [0, 1]."""
    x = State(z)
    return pack(
        p=x.p,
        q=rotations.normalize(x.q),
        v=x.v,
        w=x.w,
        s=x.s.clamp_min(SCALE_FLOOR),
        u=x.u,
        m=x.m.clamp_min(MASS_FLOOR),
        e=x.e.clamp(0, 1),
        mu=x.mu.clamp(0, 1),
    )


def as_tensor(x: StateLike, name: str) -> Tensor:
    """A floating-point tensor unchanged; arrays, lists and integers as float32."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return x
    try:
        return torch.as_tensor(x, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # strings, ragged lists, objects
        raise InputError(f"{name}: expected an array of numbers, got {type(x).__name__}") from error


def as_states(data: StateLike, *, name: str = "states") -> StateTensor:
    """Sequences ``(T, C)`` or ``(B, T, C)`` as contiguous float32 ``(B, T, 22)``.

    The first 22 of ``C >= 22`` channels are kept; nothing is centred or standardised.
    """
    x = as_tensor(data, name)
    if x.dim() not in (2, 3) or x.shape[-1] < DIM:
        raise InputError(
            f"{name}: expected shape (T, C) or (B, T, C) with C >= {DIM}, got {tuple(x.shape)}"
        )
    x = x[..., :DIM].to(torch.float32).contiguous()
    require_finite(x, name)
    return x if x.dim() == 3 else x.unsqueeze(0)


def require_finite(z: StateTensor, name: str, *, first: int = 0) -> None:
    """Raise an error that names the first NaN or infinite channel.

    ``first`` is the index of the first row, where ``z`` is part of a larger tensor.
    """
    # If the sum is finite, so is every term: one pass over the data suffices in the usual case.
    if torch.isfinite(z.sum()) or torch.isfinite(z).all():
        return
    where = torch.nonzero(~torch.isfinite(z))[0].tolist()
    value = z[tuple(where)].item()
    where[0] += first
    raise InputError(
        f"{name}: channel {CHANNELS[where[-1]]} at index {tuple(where[:-1])} is {value}; "
        "every channel must be a finite number"
    )


def require_simulable(z: StateTensor, name: str) -> None:
    """Raise an error that names the first channel that cannot be simulated."""
    small = z.abs() <= LARGEST_CHANNEL  # False for NaN
    if not small.all():
        require_finite(z, name)
        *where, channel = torch.nonzero(~small)[0].tolist()
        raise InputError(
            f"{name}: channel {CHANNELS[channel]} at index {tuple(where)} is "
            f"{z[(*where, channel)].item():g}; up to {LARGEST_CHANNEL:g} can be simulated"
        )
    rotated = _has_rotation(z)
    if not rotated.all():
        where = torch.nonzero(~rotated)[0].tolist()
        raise InputError(f"{name}: channels q at index {tuple(where)} are 0; expected a quaternion")


def _has_rotation(z: StateTensor) -> Tensor:
    return z[..., LAYOUT["q"]].abs().amax(-1) >= SMALLEST_QUATERNION


def checked_device(device: torch.device | str) -> torch.device:
    """A device that is available: cpu, cuda, cuda:N or mps."""
    count: dict[str, Callable[[], int]] = {
        "cpu": lambda: 1,
        "cuda": torch.cuda.device_count,
        "mps": lambda: int(torch.backends.mps.is_available()),
    }
    with suppress(RuntimeError):  # torch does not know the name
        chosen = torch.device(device)
        if chosen.type in count and (chosen.index or 0) < count[chosen.type]():
            return chosen
    here = " or ".join(kind for kind, number in count.items() if number())
    raise InputError(f"device {str(device)!r} is not available here; use {here}")

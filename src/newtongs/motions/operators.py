"""Building blocks of the generators: differences, the stepped recurrence, contacts.

Vectors are components first, ``(3, N, T)``; one frame of a stepped generator is ``(3, N, 1)``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..base.types import GRAVITY
from .sampling import Draw


@dataclass(frozen=True)
class Events:
    """Contacts at every frame: flag ``(N, T)``, inward normal ``(3, N, T)``, impulse ``(N, T)``.

    The impulse is the change of momentum along the contact's axis, ``m (v+ - v-)``: positive at
    the floor, negative at a wall hit in the +x direction.
    """

    collision: Tensor
    normal: Tensor
    impulse: Tensor

    @staticmethod
    def at(hit: Tensor, normal: tuple[float, float, float], impulse: Tensor) -> "Events":
        """Contacts where ``hit``, zeros elsewhere."""
        n = impulse.new_tensor(normal).reshape(3, 1, 1)
        return Events(hit, n * hit, impulse * hit)

    def then(self, later: "Events") -> "Events":
        """Two contacts in one step share a flag; the later one's normal and impulse are kept."""
        hit = later.collision
        return Events(
            self.collision | hit,
            torch.where(hit, later.normal, self.normal),
            torch.where(hit, later.impulse, self.impulse),
        )


@dataclass(frozen=True)
class Path:
    """What a family returns. Omitted fields keep their initial value for the whole sequence."""

    p: Tensor
    v: Tensor
    w: Tensor | None = None
    s: Tensor | None = None
    events: Events | None = None


def length(x: Tensor) -> Tensor:
    """Euclidean norm of a components-first vector, ``(N, T)``."""
    return x.square().sum(0).sqrt()


def centered(x: Tensor, t: Tensor) -> Tensor:
    """``D_h``: central differences, one-sided at both ends."""
    h = t[1] - t[0]
    inner = (x[..., 2:] - x[..., :-2]) / (2 * h)
    first, last = (x[..., 1:2] - x[..., :1]) / h, (x[..., -1:] - x[..., -2:-1]) / h
    return torch.cat([first, inner, last], dim=-1)


def forward(x: Tensor, t: Tensor) -> Tensor:
    """``F_h``: forward differences, backward at the last frame."""
    d = (x[..., 1:] - x[..., :-1]) / (t[1] - t[0])
    return torch.cat([d, d[..., -1:]], dim=-1)


def ballistic(z: Draw, t: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The projectile equations from ``p_0`` with initial velocity ``v``."""
    g = z.vec(*GRAVITY)
    return z.p + t * v + 0.5 * t**2 * g, v + t * g


def first_hit(below: Tensor) -> tuple[Tensor, Tensor]:
    """Masks ``(N, T)`` of all frames from the first true one on, and of that frame alone."""
    landed = below.cummax(-1).values
    before = torch.cat([torch.zeros_like(landed[..., :1]), landed[..., :-1]], dim=-1)
    return landed, landed & ~before


def stop_floor(z: Draw, p: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Events]:
    """``StopFloor``: from the first sample below ``y_f`` on, rest at ``y_f`` with ``v_y = 0``.

    Horizontal motion continues. One impulse ``m |v_y|`` is stored, with the speed of the sample
    before the crossing.
    """
    landed, first = first_hit(p[1] < z.y_f)
    arriving = torch.cat([v[1, :, :1], v[1, :, :-1]], dim=-1).abs()
    events = Events.at(landed, (0.0, 1.0, 0.0), z.m * arriving * first)
    p = z.vec(p[0], torch.where(landed, z.y_f, p[1]), p[2])
    v = z.vec(v[0], torch.where(landed, 0.0, v[1]), v[2])
    return p, v, events


Contact = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Events]]
Acceleration = Callable[[Tensor, Tensor, Tensor], Tensor]


def march(
    t: Tensor,
    p: Tensor,
    v: Tensor,
    accelerate: Acceleration,
    *contacts: Contact,
    damping: Tensor | float = 1.0,
) -> tuple[Tensor, Tensor, Events]:
    """Semi-implicit recurrence ``SI(a_k)``: velocity, then position, then the contact tests.

    Frame 0 is the initial state itself; a contact is marked at the frame whose stored state is
    the one after it. ``damping`` multiplies the velocity at the end of every step.
    """
    h = t[1] - t[0]
    nothing = Events.at(torch.zeros_like(p[0], dtype=torch.bool), (0.0, 0.0, 0.0), p[0])
    frames: list[tuple[Tensor, Tensor, Events]] = [(p, v, nothing)]
    for k in range(len(t) - 1):
        v = v + h * accelerate(t[k], p, v)
        p = p + h * v
        events = nothing
        for contact in contacts:
            p, v, event = contact(p, v)
            events = events.then(event)
        v = v * damping
        frames.append((p, v, events))
    ps, vs, hits = zip(*frames, strict=True)
    return torch.cat(ps, -1), torch.cat(vs, -1), _concatenate(hits)


def _concatenate(events: tuple[Events, ...]) -> Events:
    return Events(
        torch.cat([e.collision for e in events], -1),
        torch.cat([e.normal for e in events], -1),
        torch.cat([e.impulse for e in events], -1),
    )


def floor(
    z: Draw,
    p: Tensor,
    v: Tensor,
    *,
    height: Tensor,
    keep: tuple[Tensor, Tensor],
    e: Tensor | None = None,
    rebound: float = 1.0,
) -> tuple[Tensor, Tensor, Events]:
    """Bounce off the floor at ``height``, keeping the fractions ``keep`` of ``v_x`` and ``v_z``.

    The stored impulse is ``-(1 + e) m v_y`` even where the velocity rebounds by ``rebound * e``.
    """
    e = z.e if e is None else e
    hit = (p[1] < height) & (v[1] < 0)
    event = Events.at(hit, (0.0, 1.0, 0.0), -(1 + e) * z.m * v[1])
    after = z.vec(keep[0] * v[0], -rebound * e * v[1], keep[1] * v[2])
    return z.vec(p[0], torch.where(hit, height, p[1]), p[2]), torch.where(hit, after, v), event


def wall(z: Draw, p: Tensor, v: Tensor, *, at: float, v_z: Tensor) -> tuple[Tensor, Tensor, Events]:
    """Bounce off the wall ``x = at``; the hit's tangential velocity becomes ``v_z``."""
    hit = (p[0] + z.s[0] > at) & (v[0] > 0)
    event = Events.at(hit, (-1.0, 0.0, 0.0), -(1 + z.e) * z.m * v[0])
    after = z.vec(-z.e * v[0], v[1], v_z)
    return z.vec(torch.where(hit, at - z.s[0], p[0]), p[1], p[2]), torch.where(hit, after, v), event

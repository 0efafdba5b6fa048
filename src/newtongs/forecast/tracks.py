"""Closed-form motions that need no learning: straight, falling, landing, bouncing, turning.

The decoder receives the position along each of them at a given time, and weights them. Most of the
effect of a faster throw or spin is therefore known before any learning, which lets the model
extrapolate beyond the velocities of its training.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..base.state import State
from ..base.types import GRAVITY, StateTensor, X, Y, Z
from .dual import Dual, saturated, sine_cosine, stack, tanh, where

G = -GRAVITY[Y]
TINY = 1e-3
FREQUENCIES = (0.8, 1.6, 2.4, 3.2, 4.2, 5.6, 7.2)  # rad/s, of free oscillations
TURNS = (0.5, 1.0, 2.0)  # times the initial spin about the vertical
ONSET = 0.1  # s, onset time of corrections: at time zero the state is exactly Z_0, with its rates


class Landing(NamedTuple):
    """Free flight to the floor and the bounces after it, ``(..., T)`` each."""

    height: Dual  # above the support, bouncing with restitution e
    rest: Dual  # the same if it stops at the first contact
    travel: Dual  # equivalent seconds of horizontal flight, attenuated by mu
    progress: Dual  # time divided by the time of the first contact
    left: Dual  # fraction of bouncing left: one until the first contact, zero at rest


class Tracks(NamedTuple):
    """Features and motions that the decoder weights, for objects ``(...)`` and times ``(T,)``."""

    features: Dual  # (..., T, F), bounded
    bounce: Dual  # (..., T) vertical deviation of the bouncing flight from straight motion
    rest: Dual  # (..., T) the same for a flight that ends on the floor
    drag: Dual  # (..., T) seconds of horizontal motion lost to contacts, at most zero
    turn: Dual  # (..., T, 2) cosine minus one, and sine, of the turn about the vertical


def clock(t: Tensor) -> Dual:
    """Time as a dual number."""
    return Dual(t, torch.ones_like(t))


def onset(t: Tensor) -> Dual:
    """``t / (t + 0.1)``: zero at the start, quickly rising to one."""
    below = 1 / (t + ONSET)
    return Dual(t * below, ONSET * below * below)


def falling(height: Tensor, v: Tensor, t: Dual) -> Dual:
    """Height in free flight from ``height`` with initial vertical velocity ``v``."""
    return Dual(height + t.x * (v - 0.5 * G * t.x), (v - G * t.x) * t.dx)


def landing(z0: StateTensor, t: Dual) -> Landing:
    """Closed form of a bouncing flight: contact n + 1 comes ``2 e^n v / g`` after contact n."""
    x = State(z0.unsqueeze(-2))
    height = (x.p[..., Y] - x.s[..., Y]).clamp_min(0.0)
    up, e, keep = x.v[..., Y], x.e[..., 0].clamp(0.02, 0.98), 1 - x.mu[..., 0].clamp(0.0, 0.98)
    speed = torch.sqrt(up.square() + 2 * G * height + TINY**2)  # of the first contact
    first = (up + speed) / G
    after = (t.x - first).clamp_min(0.0)
    period = 2 * e * speed / G  # of the first bounce
    left = (1 - after * (1 - e) / period).clamp_min(TINY)  # bouncing ends in finite time
    left_over = Dual(left, -(1 - e) / period * t.dx)
    bounces = torch.floor(torch.log(left) / torch.log(e))
    power = e**bounces
    since = Dual((after - period * (1 - power) / (1 - e)).clamp_min(0.0), t.dx)
    hop = falling(torch.zeros_like(height), e * power * speed, since)
    air, still = after <= 0, (left <= TINY) | (hop.x < 0)
    nothing = Dual(torch.zeros_like(hop.x), torch.zeros_like(hop.dx))
    flight = falling(height, up, t)
    slow = keep * e
    lost = period * keep * (1 - slow**bounces) / (1 - slow)
    slide = since.scaled(keep ** (bounces + 1)).shifted(first + lost)
    return Landing(
        height=where(air, flight, where(still, nothing, hop)),
        rest=where(air, flight, nothing),
        travel=where(air, t.scaled(torch.ones_like(first)), slide),
        progress=t.scaled(1 / first.clamp_min(TINY)),
        left=where(air | (left <= TINY), Dual(left, torch.zeros_like(left)), left_over),
    )


def tracks(z0: StateTensor, times: Tensor) -> Tracks:
    """All tracks of states ``(..., 22)`` at ``times (T,)`` seconds."""
    x, t = State(z0.unsqueeze(-2)), clock(times)
    land = landing(z0, t)
    height = (x.p[..., Y] - x.s[..., Y]).clamp_min(0.0)
    flight = falling(height, x.v[..., Y], t)
    straight = [t.scaled(x.v[..., axis]).shifted(x.p[..., axis]) for axis in (X, Z)]
    turns = [sine_cosine(t.scaled(k * x.w[..., Y])) for k in TURNS]
    sway = [part for f in FREQUENCIES for part in sine_cosine(t.scaled(f))]
    level = torch.sqrt(x.v[..., X].square() + x.v[..., Z].square() + TINY)
    braking = t.scaled(G * x.mu[..., 0] / level)  # one when friction stops it
    features = [
        t.scaled(0.5), *sway,
        *(tanh(flight.scaled(1 / size)) for size in (0.15, 1.0, 4.0)),
        *(tanh(part.scaled(1 / size)) for part in straight for size in (1.5, 6.0)),
        *(saturated(part) for part in (braking, land.progress)),
        *(tanh(part) for part in (braking, land.progress)),
        *(tanh(land.height.scaled(1 / size)) for size in (0.3, 2.0)),
        land.left, land.travel.scaled(0.5),
        *(part for pair in turns for part in pair),
    ]  # fmt: skip
    ahead = t.scaled(x.v[..., Y]).shifted(height)
    sine, cosine = turns[TURNS.index(1.0)]
    return Tracks(
        features=stack(features),
        bounce=land.height.plus(ahead.scaled(-1.0)),
        rest=land.rest.plus(ahead.scaled(-1.0)),
        drag=land.travel.plus(t.scaled(-1.0)),
        turn=stack([cosine.shifted(-1.0), sine]),
    )


FEATURES = 1 + 2 * len(FREQUENCIES) + 3 + 4 + 2 + 2 + 2 + 2 + 2 * len(TURNS)

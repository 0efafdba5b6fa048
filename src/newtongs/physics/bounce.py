"""The spring and damper of a MuJoCo contact that give a required restitution.

A contact pushes with the acceleration ``a = -k r - b v``, where ``r`` is the depth and ``v`` its
rate, and never pulls. The restitution depends on ``b`` and hardly on mass, shape and speed. The
formula for continuous time is off by a few hundredths (gravity acts until the surface is left, and
ticks are finite), so ``b`` is found by stepping a point against the floor.
"""

import math
from functools import lru_cache

from ..base.jit import njit

GRAVITY = 9.81
TYPICAL_SIZE = 0.5  # longest side of an object
STIFFNESS = 1e5  # of an object of that size; smaller ones are stiffer, to sink in proportionally
STIFFEST = 6e5  # here sqrt(k) times the tick is a fifth: beyond, contacts are inaccurate
IMPEDANCE = 0.999  # fraction of the required acceleration that MuJoCo applies
SPEED = 4.0  # units a second, at which restitution is exact
PHASES = 8  # phases of the impact within a tick over which the result is averaged
LONGEST = 0.1  # seconds that a bounce can take
MOST_DAMPED = 4.0  # over critical damping
DAMPED = 0.9  # largest fraction of the speed removed in a tick: more would overshoot


def stiffness(size: float) -> float:
    """``k`` for an object whose longest side is ``size``."""
    return min(STIFFNESS * (TYPICAL_SIZE / max(size, 1e-6)) ** 2, STIFFEST)


@lru_cache
def damping(restitution: float, k: float, tick: float, gravity: float = GRAVITY) -> float:
    """``b`` with which an object keeps a fraction ``restitution`` of its speed."""
    return _damping(restitution, k, tick, gravity)


@njit()
def _damping(restitution: float, k: float, tick: float, gravity: float) -> float:
    """By bisection: the more damping, the less bounce."""
    low, high = 0.0, min(MOST_DAMPED, DAMPED / (2 * math.sqrt(k) * tick))
    for _ in range(40):
        zeta = (low + high) / 2
        if rebound(SPEED, k, 2 * zeta * math.sqrt(k), tick, gravity) > restitution:
            low = zeta
        else:
            high = zeta
    return 2 * high * math.sqrt(k)


@njit()
def rebound(speed: float, k: float, b: float, tick: float, gravity: float = GRAVITY) -> float:
    """Speed after over speed before a bounce, of a point that falls onto the floor."""
    total = 0.0
    for i in range(PHASES):
        total += _bounce(speed, k, b, tick, i / PHASES, gravity)
    return total / PHASES / speed


@njit()
def _bounce(speed: float, k: float, b: float, tick: float, phase: float, gravity: float) -> float:
    """Speed at which the point leaves the floor; zero if it does not."""
    r, v = phase * speed * tick, -speed
    for _ in range(int(LONGEST / tick)):
        if r <= 0:
            asked = -k * r - b * v
            v += tick * max(-gravity, IMPEDANCE * asked - (1 - IMPEDANCE) * gravity)
        else:
            v -= tick * gravity
        r += tick * v
        if r > 0 and v > 0:
            return math.sqrt(max(v * v + 2 * gravity * r, 0.0))
    return 0.0

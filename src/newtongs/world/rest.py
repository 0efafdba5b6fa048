"""What may sleep: who has been slow for a quarter of a second, and does not become faster.

MuJoCo's own rule, ten slow ticks, would stop a thing at the top of its flight. So its tolerance is
next to nothing, and velocities weigh next to nothing where sleep is due. MuJoCo decides by islands:
what touches something that still moves stays awake.
"""

import copy
from typing import Any, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

SLOW, SLOW_TURN = 0.01, 0.05  # speed and spin below which a thing is slow
START, GROWTH = 0.05, 1.5  # pace, and how much larger than halfway, of what begins to move
SLEEPY = 1e-6  # weight of velocities against MuJoCo's tolerance, where sleep is due


class Rest:
    """For how long each of the bodies of a model has been slow."""

    def __init__(self, bodies: int, due: int) -> None:
        """Sleep is ``due`` after so many slow ticks."""
        self.due = due
        self.quiet = np.zeros(bodies, np.int64)  # ticks for which each has been slow,
        self.aloft = np.zeros(bodies, np.int64)  # and has touched nothing
        self.halfway = np.zeros(bodies)  # how fast each was after half of the time for sleep

    def copy(self) -> "Rest":
        """A copy for a snapshot."""
        other = copy.copy(self)
        for name in ("quiet", "aloft", "halfway"):
            setattr(other, name, getattr(self, name).copy())
        return other

    @property
    def is_due(self) -> Array:
        """Which bodies ``(K,)`` may sleep."""
        return self.quiet >= self.due

    def count(self, rates: Array, touching: Array, ticks: int) -> float:
        """Note rates ``(6 K,)``, and who touches something ``(K,)``, of so many more ticks.

        Returns the fastest speed or spin, infinity where one is no number.
        """
        return _count(rates, touching, ticks, self.due, self.quiet, self.aloft, self.halfway)

    def weigh(self, lengths: Array) -> None:
        """Write the weights of the velocities ``(6 K,)``."""
        _weigh(self.quiet, self.due, lengths)


@numba.njit(cache=True, nogil=True)
def _weigh(quiet: Array, due: int, lengths: Array) -> None:
    for i in range(len(lengths)):
        lengths[i] = SLEEPY if quiet[i // 6] >= due else 1.0


@numba.njit(cache=True, nogil=True)
def _count(
    rates: Array, touching: Array, ticks: int, due: int, quiet: Array, aloft: Array, halfway: Array
) -> float:
    fastest = 0.0
    for k in range(len(quiet)):
        v, w = rates[6 * k : 6 * k + 3], rates[6 * k + 3 : 6 * k + 6]
        speed = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
        turn = np.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
        fastest = max(fastest, speed, turn) if np.isfinite(speed + turn) else np.inf
        aloft[k] = 0 if touching[k] else aloft[k] + ticks
        moving = speed > SLOW or turn > SLOW_TURN or aloft[k] > due // 2  # it may float
        quiet[k] = 0 if moving else quiet[k] + ticks
        pace = speed / SLOW + turn / SLOW_TURN
        if quiet[k] == due // 2:
            halfway[k] = pace
        growing = pace > START and pace > GROWTH * halfway[k]  # it begins to slide or to tip
        if quiet[k] == due and growing:
            quiet[k] = 0
    return fastest

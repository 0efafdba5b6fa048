"""A record of MuJoCo's contacts: which objects touched, where, and how hard.

A row is a pair of objects in the interval between two frames: the impulse from the first on the
second in that time, and its point and normal, averaged by force. The scene is object -1. What the
energy guard takes back when a bounce ends is part of that bounce's impulse. Sleeping objects are
not simulated and have no rows, even if they lie on something.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import mujoco
import numpy as np

from ..base.types import Array
from .guards import EnergyGuard

SCENE = -1  # everything that does not move
FAINT = 1e-12  # newton seconds: weaker contacts have no direction


class Contacts(NamedTuple):
    """Rows sorted by time, then by pair; in physics units."""

    frame: Array
    """Interval ``(n,)``: from this frame to the next."""
    start: Array
    """Time ``(n,)`` in seconds of the first contact in the interval."""
    seconds: Array
    """Duration of contact ``(n,)`` in the interval."""
    first: Array
    """Object ``(n,)``, or -1 for the scene; always below ``second``."""
    second: Array
    """Object ``(n,)`` on which the impulse acts; on the first it acts reversed."""
    point: Array
    """``(n, 3)``."""
    normal: Array
    """Unit vector ``(n, 3)`` from the first to the second."""
    impulse: Array
    """``(n, 3)``, newton seconds."""

    @classmethod
    def none(cls) -> "Contacts":
        """No row."""
        return cls(*_columns([]))

    @classmethod
    def of_rows(cls, rows: list[tuple[Any, ...]]) -> "Contacts":
        """From rows with the fields in order."""
        return cls(*_columns(sorted(rows, key=lambda row: (row[0], row[3], row[4]))))


def _columns(rows: list[tuple[Any, ...]]) -> list[Array]:
    kinds = (np.int32, float, float, np.int32, np.int32, float, float, float)
    wide = (False,) * 5 + (True,) * 3
    return [
        np.array([row[i] for row in rows], kind).reshape((-1, 3) if three else (-1,))
        for i, (kind, three) in enumerate(zip(kinds, wide, strict=True))
    ]


class Touches(NamedTuple):
    """All contacts of one tick, each with the lower body first."""

    first: Array
    second: Array
    point: Array
    normal: Array
    impulse: Array


class ContactRecorder:
    """Records the contacts of an engine's ticks, and sums them up at every frame."""

    def __init__(
        self, model: mujoco.MjModel, guard: EnergyGuard, driven: Collection[int], tick: float
    ) -> None:
        self.body_of, self.mass, self.tick = model.geom_bodyid - 1, guard.mass, tick
        self.driven = np.zeros(len(self.mass) + 1, bool)  # the scene is last, at -1
        self.driven[[*driven, SCENE]] = True
        self.rows: list[tuple[Any, ...]] = []
        self.frame = 0
        self._ticks: list[tuple[int, Touches]] = []
        self._last: dict[tuple[int, int], tuple[int, Array, Array]] = {}  # tick, point, normal

    def note(self, data: mujoco.MjData, now: int) -> None:
        """Record the contacts of a tick, except between driven objects and the scene."""
        if not data.ncon:
            return
        found = touches(data, self.body_of, self.tick)
        kept = ~(self.driven[found.first] & self.driven[found.second])
        found = Touches(*(x[kept] for x in found))
        self._ticks.append((now, found))
        for a, b, point, normal in zip(*found[:4], strict=True):
            self._last[int(a), int(b)] = now, point, normal

    def watch(self, data: mujoco.MjData, guard: EnergyGuard, check: Callable[[], None], now: int,
              window: int) -> None:  # fmt: skip
        """Run the guard's ``check``, and assign the momentum it takes back to recent contacts."""
        before = guard.momenta(data)
        check()
        change = guard.momenta(data) - before
        if not change.any():
            return
        pairs = [pair for pair, (at, *_) in self._last.items() if now - at <= window]
        if not pairs:
            return
        shares = np.linalg.lstsq(incidence(pairs, len(self.mass)), change, rcond=None)[0]
        places = [self._last[pair] for pair in pairs]
        a, b = np.array(pairs).T
        points, normals = np.array([p[1] for p in places]), np.array([p[2] for p in places])
        self._ticks.append((now - 1, Touches(a, b, points, normals, shares)))

    def close_frame(self) -> None:
        """Sum up the contacts since the last frame."""
        for pair in sorted({p for _, found in self._ticks for p in pairs_of(found)}):
            self.rows.append((self.frame, *self._summed(pair)))
        self._ticks.clear()
        self.frame += 1

    def _summed(self, pair: tuple[int, int]) -> tuple[Any, ...]:
        """The row of a pair, without the frame."""
        parts = [(now, found, is_pair(found, pair)) for now, found in self._ticks]
        ticks = sorted({now for now, _, its in parts if its.any()})
        point, normal, impulse = (
            np.concatenate([getattr(found, name)[its] for _, found, its in parts])
            for name in ("point", "normal", "impulse")
        )
        weight = np.linalg.norm(impulse, axis=-1) + FAINT
        along = weight @ normal
        along = along / max(np.linalg.norm(along), FAINT)
        middle = weight @ point / weight.sum()
        return (
            ticks[0] * self.tick, len(ticks) * self.tick, *pair, middle, along, impulse.sum(0),
        )  # fmt: skip

    @property
    def contacts(self) -> Contacts:
        """All rows up to the last frame."""
        return Contacts.of_rows(self.rows)


def touches(data: mujoco.MjData, body_of: Array, tick: float) -> Touches:
    """The contacts that acted in the last tick; with elliptic cones, forces are stored directly."""
    contact = data.contact
    rows = contact.efc_address
    acting = rows >= 0
    frame, rows = contact.frame[acting].reshape(-1, 3, 3), rows[acting]
    force = data.efc_force[rows[:, None] + np.arange(3)]
    impulse = tick * np.einsum("ni,nij->nj", force, frame)
    a, b = body_of[contact.geom[acting]].T
    sign = np.where(a < b, 1.0, -1.0)[:, None]
    return Touches(
        np.minimum(a, b), np.maximum(a, b), contact.pos[acting], sign * frame[:, 0], sign * impulse
    )


def pairs_of(found: Touches) -> set[tuple[int, int]]:
    """The pairs of bodies in contact."""
    return {(int(a), int(b)) for a, b in zip(found.first, found.second, strict=True)}


def is_pair(found: Touches, pair: tuple[int, int]) -> Array:
    """Mask of the contacts between two bodies."""
    return (found.first == pair[0]) & (found.second == pair[1])


def incidence(pairs: list[tuple[int, int]], bodies: int) -> Array:
    """Matrix ``(bodies, pairs)``: the sign of each pair's impulse on each body."""
    out = np.zeros((bodies, len(pairs)))
    for column, (a, b) in enumerate(pairs):
        out[b, column] = 1.0
        if a != SCENE:
            out[a, column] = -1.0
    return out

"""What watches a simulation every few ticks: no contact adds energy, and what is still may sleep.

**Energy.** MuJoCo's contacts ask for accelerations, not forces. Where a corner hits and sticks, the
restitution asked for can leave more energy than there was: up to twice as much at 0.9 and a
friction of 0.5. So the energy of every group of touching bodies is remembered from before they
touched. When one of them leaves and there is more of it, the velocities are scaled down: all of
them where something fixed was touched, else those relative to the common centre, which keeps the
momentum.

**Sleep.** A body may sleep once it has been slow for a quarter of a second and is not speeding up.
MuJoCo's own rule, ten slow ticks, would stop an object at the top of its flight. So its tolerance
is next to nothing, and velocities count for next to nothing where sleep is due. MuJoCo decides by
islands: what touches something that still moves stays awake.
"""

import copy
from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from ..base.jit import njit
from ..base.numba_rotations import write_matrix
from ..base.rotations import to_matrix
from ..base.types import Array, Y

NO_PAIRS = np.zeros((0, 2), np.int32)


class EnergyGuard:
    """Limits the energy of the free bodies 0, 1, ... of a model; ``driven`` ones may add energy."""

    def __init__(self, model: mujoco.MjModel, driven: Sequence[int]) -> None:
        n = model.nbody - 1
        self.body_of, self.gravity = model.geom_bodyid - 1, -float(model.opt.gravity[Y])
        self.mass, self.center = model.body_mass[1:].copy(), model.body_ipos[1:].copy()
        axes = to_matrix(torch.from_numpy(model.body_iquat[1:])).numpy()
        self.inertia = np.einsum("kij,kj,klj->kil", axes, model.body_inertia[1:], axes)
        self.group = np.arange(n)
        self.reference = np.full(n, np.inf)  # energy before each touched anything
        self.open = np.zeros(n, bool)  # touching
        self.fixed = np.zeros(n, bool)  # has touched something fixed
        self.driven = np.zeros(n, bool)
        self.driven[list(driven)] = True
        self.fed = self.driven.copy()  # has touched something driven

    def copy(self) -> "EnergyGuard":
        """A copy for a snapshot."""
        other = copy.copy(self)
        for name in ("group", "reference", "open", "fixed", "fed"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def momenta(self, data: mujoco.MjData) -> Array:
        """Mass times velocity of the centre of mass ``(K, 3)``."""
        return self.mass[:, None] * self._energies(data)[2]

    def forget(self, index: int) -> None:
        """An object was pushed: its reference energy starts again."""
        self.reference[index] = np.inf

    def check(self, data: mujoco.MjData, seconds: float) -> None:
        """Update the groups of touching bodies; check the energy of those no longer in contact.

        ``seconds`` have passed since the last check.
        """
        pose, rate = data.qpos.reshape(-1, 7), data.qvel.reshape(-1, 6)
        force, geoms = data.xfrc_applied[1:], data.contact.geom if data.ncon else NO_PAIRS
        body = self.mass, self.center, self.inertia, self.gravity
        touching, left = np.zeros(len(self.mass), bool), np.zeros(len(self.mass), bool)
        _credit(force, pose, rate, *body, seconds, self.reference)
        _join(self.body_of, geoms, self.driven, touching, self.fixed, self.fed, self.group)
        if _note_left(self.open, touching, left):
            for group in np.unique(self.group[left]):
                self._settle(data, np.flatnonzero(self.group == group), left)
            self._release(left)
        _refer(pose, rate, *body, touching, self.reference)
        self.open = touching

    def _settle(self, data: mujoco.MjData, members: Array, left: Array) -> None:
        """Remove the energy a group has gained; ``left`` marks bodies no longer in contact."""
        kinetic, potential, v, turn = self._energies(data)
        stay = members[~left[members]]
        allowed = self.reference[members].sum()
        if self.fed[members].any() or not np.isfinite(allowed):
            self.reference[stay] = np.inf  # pushed or driven: the reference does not apply
            return
        gain = (kinetic + potential)[members].sum() - allowed
        if gain > 0:
            common = np.zeros(3)
            if not self.fixed[members].any():
                common = self.mass[members] @ v[members] / self.mass[members].sum()
            inner = kinetic[members].sum() - 0.5 * self.mass[members].sum() * common @ common
            share = np.sqrt(max(1 - gain / max(inner, 1e-300), 0.0))
            self._scale(data, members, share, common, v, turn)
            gain = 0.0
        if len(stay):  # they keep the rest of the group's energy
            kinetic, potential, _, _ = self._energies(data)
            self.reference[stay] = (kinetic + potential)[stay] - gain / len(stay)

    def _scale(
        self,
        data: mujoco.MjData,
        members: Array,
        share: float,
        common: Array,
        v: Array,
        turn: Array,
    ) -> None:
        """Scale the velocities relative to the ``common`` one by ``share``."""
        rate = data.qvel.reshape(-1, 6)
        rate[members, 3:] *= share
        center = common + share * (v[members] - common)
        arm = np.cross(rate[members, 3:], self.center[members])
        rate[members, :3] = center - np.einsum("kij,kj->ki", turn[members], arm)

    def _release(self, left: Array) -> None:
        """Bodies no longer in contact form groups of their own."""
        for body in np.flatnonzero(left):
            if self.group[body] == body:  # pass the group's label on
                others = np.flatnonzero((self.group == body) & ~left)
                self.group[others] = others[0] if len(others) else body
            self.group[body] = body
        self.fixed[left], self.fed[left] = False, self.driven[left]

    def _energies(self, data: mujoco.MjData) -> tuple[Array, Array, Array, Array]:
        """Kinetic and potential energy ``(K,)``, velocity of the centre ``(K, 3)``, rotation."""
        pose, rate = data.qpos.reshape(-1, 7), data.qvel.reshape(-1, 6)
        return _energies(pose, rate, self.mass, self.center, self.inertia, self.gravity)


@njit(nogil=True)
def _energies(
    pose: Array, rate: Array, mass: Array, center: Array, inertia: Array, gravity: float
) -> tuple[Array, Array, Array, Array]:
    """Compiled: a pile calls it about a thousand times per second."""
    n = len(mass)
    kinetic, potential = np.zeros(n), np.empty(n)
    velocity, turn = np.empty((n, 3)), np.empty((n, 3, 3))
    for k in range(n):
        write_matrix(pose[k, 3:], turn[k])
        w, c = rate[k, 3:], center[k]
        arm = (w[1] * c[2] - w[2] * c[1], w[2] * c[0] - w[0] * c[2], w[0] * c[1] - w[1] * c[0])
        height = pose[k, 1]
        for i in range(3):
            v = rate[k, i]
            for j in range(3):
                v += turn[k, i, j] * arm[j]
                kinetic[k] += 0.5 * w[i] * inertia[k, i, j] * w[j]
            velocity[k, i] = v
            kinetic[k] += 0.5 * mass[k] * v * v
            height += turn[k, 1, i] * c[i]
        potential[k] = mass[k] * gravity * height
    return kinetic, potential, velocity, turn


@njit(nogil=True)
def _join(
    body_of: Array,
    geoms: Array,
    driven: Array,
    touching: Array,
    fixed: Array,
    fed: Array,
    group: Array,
) -> None:
    """Update the flags and groups by the pairs of shapes ``(n, 2)`` in contact."""
    for pair in geoms:
        a, b = body_of[pair[0]], body_of[pair[1]]
        for one, other in ((a, b), (b, a)):
            if one >= 0:
                touching[one] = True
                fixed[one] |= other < 0
                fed[one] |= other >= 0 and driven[other]
        if a >= 0 and b >= 0 and group[a] != group[b]:
            joined = group[b]
            for k in range(len(group)):
                if group[k] == joined:
                    group[k] = group[a]


@njit(nogil=True)
def _note_left(was_open: Array, touching: Array, left: Array) -> bool:
    """Mark bodies that touched something and no longer do; returns whether there are any."""
    some = False
    for k in range(len(left)):
        left[k] = was_open[k] and not touching[k]
        some |= left[k]
    return some


@njit(nogil=True)
def _refer(
    pose: Array,
    rate: Array,
    mass: Array,
    center: Array,
    inertia: Array,
    gravity: float,
    touching: Array,
    reference: Array,
) -> None:
    """The reference energy of bodies without contact is their present energy."""
    if touching.all():
        return
    kinetic, potential, _, _ = _energies(pose, rate, mass, center, inertia, gravity)
    for k in range(len(mass)):
        if not touching[k]:
            reference[k] = kinetic[k] + potential[k]


@njit(nogil=True)
def _credit(
    force: Array,
    pose: Array,
    rate: Array,
    mass: Array,
    center: Array,
    inertia: Array,
    gravity: float,
    seconds: float,
    reference: Array,
) -> None:
    """Add the work of applied forces and torques ``(K, 6)`` to the reference."""
    if not force.any():
        return
    _, _, v, turn = _energies(pose, rate, mass, center, inertia, gravity)
    power = np.zeros(len(mass))
    for k in range(len(mass)):
        for i in range(3):
            w = 0.0
            for j in range(3):
                w += turn[k, i, j] * rate[k, 3 + j]
            power[k] += force[k, i] * v[k, i] + force[k, 3 + i] * w
    reference += np.maximum(power, 0.0) * seconds


# --- sleep ----------------------------------------------------------------------------------------


SLOW, SLOW_TURN = 0.01, 0.05  # speed and spin below which a body is slow
START, GROWTH = 0.05, 1.5  # pace, and its growth since halfway, of a body that begins to move
SLEEPY = 1e-6  # weight of velocities against MuJoCo's tolerance once sleep is due


class SleepGuard:
    """How long each body of a model has been slow."""

    def __init__(self, bodies: int, due: int) -> None:
        """Sleep is ``due`` after this many slow ticks."""
        self.due = due
        self.quiet = np.zeros(bodies, np.int64)  # ticks for which each has been slow
        self.aloft = np.zeros(bodies, np.int64)  # ticks for which each has touched nothing
        self.halfway = np.zeros(bodies)  # pace of each after half of the time for sleep

    def copy(self) -> "SleepGuard":
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
        """Count ``ticks`` more, with rates ``(6 K,)`` and a mask ``(K,)`` of bodies in contact.

        Returns the largest speed or spin, infinity if one is NaN.
        """
        return _count(rates, touching, ticks, self.due, self.quiet, self.aloft, self.halfway)

    def weigh(self, lengths: Array) -> None:
        """Write the weights of the velocities ``(6 K,)``."""
        _weigh(self.quiet, self.due, lengths)


@njit(nogil=True)
def _weigh(quiet: Array, due: int, lengths: Array) -> None:
    for i in range(len(lengths)):
        lengths[i] = SLEEPY if quiet[i // 6] >= due else 1.0


@njit(nogil=True)
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

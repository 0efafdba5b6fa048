"""Rollout of one object with its true shape, ending at rest: the readable reference.

A bounce is the paper's response (``body.bounce``). Beyond the paper stands what happens when
bounces are over; the paper's event map would let an object buzz on the floor for ever:

* **Settling.** A rebound slower than two substeps of gravity (``2 g h``) is no rebound: v_y = 0.
* **Touching.** An object on the floor (closer than ``2 g h^2``) whose lowest point does not come
  down fast gets the smallest change of velocity, in kinetic energy, after which no point enters
  the floor within the substep. With ``topple`` that change acts at the touching points, so a box
  on its edge tips over and stops on its face; without, it acts at the centre and the object keeps
  turning as it did. The paper's attenuations act once in 1/48 s, its substep at 24 frames a
  second; a longer or shorter substep has its share, so that sliding does not depend on it.
* **Sleeping.** After a quarter of a second slower than 0.05 units/s and 0.05 rad/s it stays.

Limits: the floor is smooth (sliding and turning do not feel each other, nothing rolls by friction),
the mass is spread over the shape by a rule of thumb, and bounces themselves give no spin.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import rotations
from ..errors import InputError
from ..state import DIM, State, StateLike, project, replace
from ..types import StateTensor, Times, Vec3, Y
from .body import Body, G, bounce, depth_below, speed_at_plane, up_in_body
from .gaussian_nnd import GaussianNND
from .rollout import check_initial, intervals, substeps

SETTLE = 2.0  # substeps of gravity
TOUCH = 2.0  # in g h^2
USUAL_SUBSTEP = 1 / 48  # seconds: in it, touching attenuates as much as one of the paper's contacts
SLEEP_SPEED, SLEEP_SPIN, SLEEP_AFTER = 0.05, 0.05, 0.25
SOLIDITY = 0.5  # inertia against that of mass in the extreme points: 0.6 a ball's, 0.33 a box's
ITERATIONS, SOLVED = 100, 1e-5  # of the contact solver, and the speed it may leave
DEEPEST = 0.05  # of the radius: how far below the floor an object may start


@torch.no_grad()
def rollout_body(
    model: GaussianNND,
    z0: StateLike,
    times: Times | Sequence[float],
    body: Body,
    *,
    rest: bool = True,
    topple: bool = True,
) -> StateTensor:
    """States ``(T, 22)`` of one object ``(22,)`` with its true shape; ``model.rollout`` otherwise.

    ``rest`` turns on settling, touching and sleeping, ``topple`` tipping over while it touches.
    """
    z, local = start(z0, body)
    frames, quiet = [z], 0.0
    for dt in intervals(times):
        n = substeps(dt, model.config.max_dt)
        for _ in range(n):
            z, quiet = substep(model, local, z, dt / n, quiet, rest, topple)
        frames.append(z)
    return torch.stack(frames)


def start(z0: StateLike, body: Body) -> tuple[StateTensor, Vec3]:
    """The projected initial state and the body in its axes, or one line on what is wrong."""
    z = check_initial(z0)
    if z.shape != (DIM,):
        raise InputError(f"z0: a body belongs to one object, shape ({DIM},), got {tuple(z.shape)}")
    z = project(z)
    local = body.local(z)
    below = float(depth_below(local, z) - State(z).p[Y])
    if below > DEEPEST * body.radius:
        raise InputError(
            f"the object starts {below:.3g} below the floor; raise it by that, or lower the floor"
        )
    return z, local


def substep(
    model: GaussianNND,
    local: Vec3,
    z: StateTensor,
    h: float,
    quiet: float,
    rest: bool,
    topple: bool,
) -> tuple[StateTensor, float]:
    """The state ``h`` seconds later, and for how long it has been nearly still on the floor."""
    free = model.step(z, h)
    if not model.config.contact:
        return free, 0.0
    if quiet >= SLEEP_AFTER:
        return asleep(local, z, free), quiet
    touched = touch(local, z, free, h, topple) if rest else None
    if touched is None:
        return event(model, local, free, h, rest, topple), 0.0
    return touched, quiet + h if slow(touched) else 0.0


def event(
    model: GaussianNND, local: Vec3, z: StateTensor, h: float, settles: bool, topple: bool
) -> StateTensor:
    """What the floor does to a state after a free substep: nothing, a bounce, settling, a lift."""
    x = State(z)
    radius = depth_below(local, z).to(z.dtype)
    if x.p[Y] > radius:
        return z
    if topple:
        z = replace(z, w=pay_for_lift(local, z, radius))
        x = State(z)
    if x.v[Y] >= 0:  # on its way up, turned into the floor
        return _at_height(z, radius)
    if settles and x.e * speed_at_plane(z, radius) < SETTLE * G * h:
        return replace(bounce(local, replace(z, e=0.0)), e=x.e)
    return project(bounce(local, z, model))


def pay_for_lift(local: Vec3, z: StateTensor, radius: Tensor) -> Vec3:
    """The spin ``(3,)`` left when it pays for what a falling speed does not: the lift's energy.

    A turning corner can enter the floor faster than the centre falls; lifting it out for nothing
    would make energy.
    """
    x = State(z.double())
    fall = x.v[Y].clamp_max(0)
    work = (G * (radius.double() - x.p[Y]) - 0.5 * fall.square()).clamp_min(0)
    energy = 0.5 * x.w @ inertia(local * x.s) @ x.w
    return (x.w * (1 - work / energy.clamp_min(1e-12)).clamp_min(0).sqrt()).to(z.dtype)


def touch(
    local: Vec3, z: StateTensor, free: StateTensor, h: float, topple: bool
) -> StateTensor | None:
    """One substep of ``z`` in contact, given the ``free`` one; None where there is no contact.

    Semi-implicit: velocities come from the free substep, are changed by the floor, and then move
    the old pose.
    """
    old, new = State(z.double()), State(free.double())
    x, up = local * new.s, up_in_body(old.q)
    height = old.p[Y] + x @ up
    n = torch.linalg.cross(x, up.expand_as(x))  # a point's height changes by v_y + n w
    v, w, low = new.v, new.w, height.argmin()
    if height[low] > TOUCH * G * h * h:
        return None
    if v[Y] < 0 and -new.e * (v[Y] + n[low] @ w) >= SETTLE * G * h:
        return None  # it arrives
    room = height.clamp_min(0) / h
    if (v[Y] + n @ w + room).amin() >= 0:
        return None  # it leaves
    part = h / USUAL_SUBSTEP
    keep = (1 - new.mu) ** part
    v = v * torch.cat([keep, torch.ones_like(keep), keep])
    inverse = torch.linalg.inv(inertia(x)) if topple else torch.zeros(3, 3).to(x)
    v[Y], w = support(v[Y], (1 - 0.5 * new.mu) ** part * w, n, room, inverse)
    q = rotations.normalize(rotations.multiply(old.q, rotations.exp(h * w)))
    moved = replace(free.double(), p=old.p + h * v, q=q, v=v, w=w)
    radius = depth_below(local, moved)
    return _at_height(moved, torch.maximum(State(moved).p[Y], radius)).to(z.dtype)


def support(v_y: Tensor, w: Vec3, n: Vec3, room: Tensor, inverse: Tensor) -> tuple[Tensor, Vec3]:
    """The nearest ``v_y, w`` in kinetic energy with ``v_y + n_i w >= -room_i`` for all K points.

    Args:
        v_y: vertical speed.
        w: spin ``(3,)`` in the object's axes.
        n: levers ``(K, 3)``.
        room: speeds ``(K,)`` at which each point just reaches the floor within the substep.
        inverse: of the inertia tensor by the mass ``(3, 3)``.

    One impulse at a time, always where it changes most, none of them ever pulling (a dual
    coordinate ascent).
    """
    turn = n @ inverse
    stiffness = 1 + (n * turn).sum(-1)
    impulse = torch.zeros_like(room)
    for _ in range(ITERATIONS):
        change = torch.maximum(-(v_y + n @ w + room) / stiffness, -impulse)
        i = change.abs().argmax()
        if change[i].abs() < SOLVED:
            break
        impulse[i] += change[i]
        v_y = v_y + change[i]
        w = w + change[i] * turn[i]
    return v_y, w


def inertia(x: Vec3) -> Tensor:
    """Inertia tensor ``(3, 3)`` of a unit of mass, guessed from the extreme points ``(K, 3)``.

    A millionth of the size keeps a rod or a single point invertible.
    """
    C = x.mT @ x / len(x)
    size, one = C.trace(), torch.eye(3).to(C)
    return SOLIDITY * (size * one - C) + (1e-6 * size + 1e-12) * one


def slow(z: StateTensor) -> bool:
    """Whether speed and spin are small enough to sleep."""
    x = State(z)
    speed, spin = (torch.linalg.vector_norm(y) for y in (x.v, x.w))
    return bool(speed < SLEEP_SPEED and spin < SLEEP_SPIN)


def asleep(local: Vec3, z: StateTensor, free: StateTensor) -> StateTensor:
    """Nothing moves any more but a free scale, on which the object still stands."""
    still = replace(free, p=State(z).p, q=State(z).q, v=(0.0, 0.0, 0.0), w=(0.0, 0.0, 0.0))
    return _at_height(still, depth_below(local, still))


def _at_height(z: StateTensor, p_y: Tensor) -> StateTensor:
    p = State(z).p
    return replace(z, p=torch.stack([p[0], p_y.to(z.dtype), p[2]]))

"""Contacts by MuJoCo: convex pieces, friction, rolling, toppling, piles, and rest.

A body of MuJoCo's has the axes of the object's state, so that its coordinates and velocities are
the state's: ``(p, q)`` and ``(v, w)``. Time goes in ticks of 1/3840 s, counted from zero; a frame
is the tick nearest to it. The dynamics' own terms (drag, a learned residual) act as force and
torque, evaluated anew every 1/48 s. Sizes do not change.
"""

import copy
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..dynamics.gaussian_nnd import GaussianNND
from ..dynamics.interface import Dynamics
from ..dynamics.surfaces import Box, Floor, Plane, Surface
from ..errors import InputError
from ..state import CHANNELS, LAYOUT, State
from ..types import GRAVITY, StateTensor
from . import nearby
from .bodies import Body
from .bounce import IMPEDANCE, damping, stiffness
from .contacts import ContactRecorder, Contacts
from .energy import EnergyGuard
from .forces import accelerations
from .nearby import Nearby, carry
from .rest import Rest
from .surroundings import Surroundings

TICKS = 3840  # a second; with half as many a bounce is off by up to 0.03
HELD = TICKS // 48  # ticks for which forces are held
# Ticks from one look at energy and rest to the next: a bounce takes some 40, and what was woken may
# sleep again after ten unless it is seen to move.
WATCHED = 8
TIE = 1e-6  # of a tick: times exactly between two ticks go to the later one
FARTHEST = 1e8  # position or rate that a simulation may reach
CATCH = -1e3  # a last floor, far below everything
QUIET = TICKS // 4  # ticks for which a thing is slow before it sleeps
TOLERANCE = 1e-5  # speed below which MuJoCo lets sleep
DRIVEN = 1e5  # mass of a body whose motion is prescribed, over its own
ROUNDED = 0.1  # radius of the boxes' edges, over the thinnest of them
LIGHTEST = 1e-3  # added to every moment of inertia, over their mean: MuJoCo refuses flat bodies

SLOTS = 256  # boxes that can be touched at a time, at first

# Solids that are added to the scene at once: MuJoCo goes over all there are for every one it adds.
ADDED = 256

ENTANGLED = 0.02  # depth over size, from which two sleepers are left alone with each other
OVERLAP, SEPARATIONS = 1e-4, 30  # depth at the start that is left, and how often it is reduced

PLANE, BOX = mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_BOX
SPHERE, MESH = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_MESH


# By itself MuJoCo would write warnings to the terminal and into a file of the present folder. What
# they warn of is told by :func:`_check`.
mujoco.set_mju_user_warning(lambda message: None)


class MujocoEngine:
    """One MuJoCo model and its data."""

    def __init__(
        self,
        objects: Sequence[Body],
        dynamics: Dynamics,
        surroundings: Surroundings,
        *,
        record: bool = False,
    ) -> None:
        """``record`` notes all contacts, which takes single ticks and so some time."""
        self.objects, self.dynamics = objects, dynamics
        _require_within_bounds(objects, dynamics)
        self.surroundings, self.whole = surroundings, _compile(objects, surroundings)
        self.model = self.whole
        if len(surroundings.solids) >= nearby.FEWEST:
            self.model = _compile(objects, surroundings, min(SLOTS, len(surroundings.solids)))
        self.data = mujoco.MjData(self.model)
        self.tick = 0
        self.resting = False  # whether everything sleeps
        self.rest = Rest(len(objects), QUIET)
        self.driven = {i: body.track for i, body in enumerate(objects) if body.track is not None}
        z0 = torch.stack([body.z0.double() for body in objects])
        self.guard = EnergyGuard(self.model, list(self.driven))
        self.nearby = Nearby(self.model, self.whole, len(surroundings.solids))
        self.recorder: ContactRecorder | None = None
        if record:
            self.recorder = ContactRecorder(self.model, self.guard, list(self.driven), 1 / TICKS)
        self._fixed = z0  # scale and material, which do not change
        self._gravity = torch.tensor(GRAVITY).to(dynamics.like).double().cpu().numpy()
        for i, z in enumerate(z0):  # poses are the model's; writing one would wake what sleeps
            self._write_rates(i, z)

    # --- the state -------------------------------------------------------------------------------

    @property
    def states(self) -> StateTensor:
        """Present states ``(K, 22)``, float64."""
        x = self._fixed.numpy().copy()  # numpy: a few numbers, some hundred times a second
        pose, rate = self.data.qpos.reshape(-1, 7), self.data.qvel.reshape(-1, 6)
        x[:, LAYOUT["p"]], x[:, LAYOUT["q"]] = pose[:, :3], pose[:, 3:]
        x[:, LAYOUT["v"]], x[:, LAYOUT["w"]] = rate[:, :3], rate[:, 3:]
        z = torch.from_numpy(x)
        for i, track in self.driven.items():
            now = State(track.at(self.tick / TICKS))
            State(z[i]).s.copy_(now.s)
            State(z[i]).u.copy_(now.u)
        return z

    @property
    def asleep(self) -> Tensor:
        """Which objects ``(K,)`` MuJoCo has put to sleep."""
        return torch.from_numpy(self.data.tree_asleep >= 0)

    def set(self, index: int, z: StateTensor) -> None:
        """Replace one state. MuJoCo wakes it at the next tick."""
        _require_near(index, z)
        self._write(index, z)
        self.resting = False
        self.rest.quiet[index] = 0
        self.guard.forget(index)
        self.rest.weigh(self.model.dof_length)

    def _write(self, index: int, z: StateTensor) -> None:
        x = State(z.double())
        self.data.qpos[7 * index : 7 * index + 7] = torch.cat([x.p, x.q]).numpy()
        self._write_rates(index, z)

    def _write_rates(self, index: int, z: StateTensor) -> None:
        x = State(z.double())
        # Plus zero: a negative zero would wake what sleeps.
        self.data.qvel[6 * index : 6 * index + 6] = torch.cat([x.v, x.w]).numpy() + 0.0

    @property
    def contacts(self) -> Contacts | None:
        """Who touched whom up to the last frame, where it was recorded."""
        return None if self.recorder is None else self.recorder.contacts

    def snapshot(self) -> Any:
        """MuJoCo's data, whole."""
        watched = self.rest.copy(), self.guard.copy()
        return copy.copy(self.data), self.tick, self.resting, *watched

    def restore(self, snapshot: Any) -> None:
        """Back to it."""
        data, self.tick, self.resting, rest, guard = snapshot
        self.rest, self.guard = rest.copy(), guard.copy()
        self.guard.body_of = self.nearby.body_of
        self.rest.weigh(self.model.dof_length)
        if data.geom_xpos.shape == self.data.geom_xpos.shape:
            mujoco.mj_copyData(self.data, self.model, data)
        else:  # there are more places for boxes than there were
            carry(data, self.data)
        self.nearby.forget()

    # --- time ------------------------------------------------------------------------------------

    def advance(
        self, start: float, times: Sequence[float], tell: Callable[[int, int], None] | None
    ) -> StateTensor:
        """See :class:`newtongs.world.simulation.Engine`."""
        if self.tick == 0:
            trial = mujoco.MjData(self.whole)  # with all boxes
            carry(self.data, trial)
            self.data.qpos[:] = _separated(self.whole, trial, self.driven)
        frames = []
        for done, time in enumerate(times):
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is told at the end
                self._reach(math.floor(time * TICKS + 0.5 + TIE))
            frames.append(self.states)
            if self.recorder is not None:
                self.recorder.close_frame()
            if tell is not None:
                tell(done + 1, len(times))
        return torch.stack(frames)

    def _reach(self, tick: int) -> None:
        """Tick by tick, forces anew where they are due."""
        while self.tick < tick:
            if self.resting:
                self.tick = tick  # nothing wakes by itself
                break
            due = min(tick, (self.tick // WATCHED + 1) * WATCHED)
            if self.driven:
                due = self.tick + 1
                self._drive()
            if self.tick % HELD == 0:
                self._apply()
            self._step(due)
            if due % WATCHED == 0:
                self._watch()
                if self.rest.count(self.data.qvel, self.guard.open, WATCHED) > FARTHEST:
                    _check(self.data)  # at once: MuJoCo is slow where numbers are not finite
                self.rest.weigh(self.model.dof_length)
                self.resting = not (self.data.ntree_awake or self.driven)
        if self.driven:
            self._drive()
        _check(self.data)

    def _step(self, due: int) -> None:
        """MuJoCo's own loop, unless each tick is looked at: before what is near, then contacts."""
        if self.recorder is None and not self.nearby.useful:
            mujoco.mj_step(self.model, self.data, due - self.tick)
            self.tick = due
        for now in range(self.tick, due):
            while not self.nearby.update(self.data, 1 / TICKS):
                self._widen()
            mujoco.mj_step(self.model, self.data)
            if self.recorder is not None:
                self.recorder.note(self.data, now)
        self.tick = due

    def _widen(self) -> None:
        """Go on with twice as many places for boxes."""
        slots, before = min(2 * self.nearby.slots, len(self.surroundings.solids)), self.data
        self.model = _compile(self.objects, self.surroundings, slots)
        self.data = mujoco.MjData(self.model)
        carry(before, self.data)
        self.rest.weigh(self.model.dof_length)
        self.nearby = Nearby(self.model, self.whole, len(self.surroundings.solids))
        self.guard.body_of = self.nearby.body_of
        if self.recorder is not None:
            self.recorder.body_of = self.nearby.body_of

    def _watch(self) -> None:
        """Energy must not grow."""

        def check() -> None:
            self.guard.check(self.data, WATCHED / TICKS)

        if self.recorder is None:
            check()
        else:
            self.recorder.watch(self.data, self.guard, check, self.tick, 3 * WATCHED)

    def _apply(self) -> None:
        """The dynamics' accelerations beyond gravity, as force and torque on what is awake."""
        linear, turning = accelerations(self.dynamics, self.states)
        # A force would wake what sleeps, and keep awake what is about to.
        awake = ~self.rest.is_due & ~self.asleep.numpy()
        mass = self.model.body_mass[1:, None]
        frame = self.data.ximat[1:].reshape(-1, 3, 3)  # the axes of inertia
        turn = self.data.xmat[1:].reshape(-1, 3, 3)
        spin = np.einsum("kij,kj->ki", turn, turning)
        inner = np.einsum("kji,kj->ki", frame, spin) * self.model.body_inertia[1:]
        force = mass * (linear - self._gravity)
        torque = np.einsum("kij,kj->ki", frame, inner)
        # Not a product with ``awake``: a negative zero would be a force to MuJoCo.
        self.data.xfrc_applied[1:] = np.where(awake[:, None], np.hstack([force, torque]), 0.0)

    def _drive(self) -> None:
        """Set the bodies whose motion is prescribed to where they are now."""
        for i, track in self.driven.items():
            pose, rate = track.motion(self.tick / TICKS)
            self.data.qpos[7 * i : 7 * i + 7] = pose
            self.data.qvel[6 * i : 6 * i + 6] = rate


def _require_within_bounds(objects: Sequence[Body], dynamics: Dynamics) -> None:
    """Refuse at once what would leave all bounds."""
    least = 0.0
    if isinstance(dynamics, GaussianNND):  # held forces are Euler's steps
        least = dynamics.least_mass_of_step(HELD / TICKS, "euler")
    for i, body in enumerate(objects):
        if body.track is not None:
            continue
        _require_near(i, body.z0)
        mass = float(State(body.z0).m)
        if mass < least:
            raise InputError(
                f"object {i}: channel m is {mass:g}; a mass below {least:.3g} cannot be simulated "
                "with contacts by MuJoCo, for the air would throw it about"
            )


def _require_near(index: int, z: StateTensor) -> None:
    """Refuse a pose or velocities ``(22,)`` beyond what a simulation may reach."""
    far = ~(z[: LAYOUT["w"].stop].abs() <= FARTHEST)
    if far.any():
        channel = int(torch.nonzero(far)[0])
        raise InputError(
            f"object {index}: channel {CHANNELS[channel]} is {z[channel].item():g}; up to "
            f"{FARTHEST:g} can be simulated with contacts by MuJoCo"
        )


def _check(data: mujoco.MjData) -> None:
    numbers = np.concatenate([data.qpos, data.qvel])
    if not np.isfinite(numbers).all() or np.abs(numbers).max() > FARTHEST:
        raise InputError(
            "the simulation left all bounds; start with smaller velocities, or objects of "
            "more equal size and mass"
        )


def _separated(
    model: mujoco.MjModel, trial: mujoco.MjData, driven: Collection[int]
) -> npt.NDArray[np.float64]:
    """Poses ``(7 K,)`` with what overlaps a little at the start pushed apart, without a speed.

    Shapes are approximate. Left to the contacts, an overlap would become a jump. What sleeps or is
    driven stays where it is. ``trial`` is used up: looking for contacts wakes.
    """
    fixed = trial.tree_asleep >= 0
    fixed[list(driven)] = True
    for _ in range(SEPARATIONS):
        mujoco.mj_kinematics(model, trial)
        mujoco.mj_comPos(model, trial)
        mujoco.mj_collision(model, trial)
        shifts = np.zeros((model.nbody, 3))
        for contact in trial.contact:
            depth = contact.includemargin - contact.dist
            if depth > OVERLAP:
                pair = model.geom_bodyid[contact.geom]
                free = [body > 0 and not fixed[body - 1] for body in pair]
                push = depth * contact.frame[:3] / max(sum(free), 1)
                for body, sign, movable in zip(pair, (-1, 1), free, strict=True):
                    if movable and np.linalg.norm(push) > np.linalg.norm(shifts[body]):
                        shifts[body] = sign * push
        if not shifts.any():
            break
        trial.qpos.reshape(-1, 7)[:, :3] += shifts[1:]
    return trial.qpos


# --- the model -----------------------------------------------------------------------------------


def _compile(
    objects: Sequence[Body], surroundings: Surroundings, slots: int | None = None
) -> mujoco.MjModel:
    """MuJoCo's model of bodies and surroundings, or of ``slots`` places for boxes of theirs."""
    spec = mujoco.MjSpec()
    spec.compiler.balanceinertia = True
    option = spec.option
    option.timestep = 1 / TICKS
    option.gravity = GRAVITY
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.sleep_tolerance = TOLERANCE
    option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    _add_surroundings(spec, surroundings, slots)
    for i, body in enumerate(objects):
        _add_body(spec, i, body)
    model = spec.compile()
    entangled = _entangled(model, [i for i, body in enumerate(objects) if body.asleep])
    for a, b in entangled:
        spec.add_exclude(bodyname1=f"object {a}", bodyname2=f"object {b}")
    return spec.compile() if entangled else model


def _entangled(model: mujoco.MjModel, asleep: Collection[int]) -> set[tuple[int, int]]:
    """Pairs of sleepers whose shapes reach far into each other.

    Awake, they would shoot apart; so they do not touch at all.
    """
    found: set[tuple[int, int]] = set()
    if len(asleep) < 2:
        return found
    data = mujoco.MjData(model)
    for step in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_collision):
        step(model, data)
    size = 2 * model.geom_rbound
    for contact in data.contact:
        a, b = sorted(int(i) - 1 for i in model.geom_bodyid[contact.geom])
        depth = contact.includemargin - contact.dist
        if a in asleep and b in asleep and depth > ENTANGLED * size[contact.geom].min():
            found.add((a, b))
    return found


def _add_surroundings(spec: mujoco.MjSpec, surroundings: Surroundings, slots: int | None) -> None:
    world = spec.worldbody
    for surface in (*surroundings.surfaces, Plane((0.0, 1.0, 0.0), CATCH)):
        world.add_geom(**_surface_geom(surface))
    solids = surroundings.solids
    # Boxes are made smaller by a margin within which they are touched already: that rounds their
    # edges. A thing that slides from one onto the next would catch on a sharp one.
    thinnest = float((solids[:, 1] - solids[:, 0]).min()) if len(solids) else 0.0
    margin = ROUNDED * thinnest
    solids = solids[:slots]  # which ones does not matter: others take their places
    for start in range(0, len(solids), ADDED):
        part = mujoco.MjSpec()
        for low, high in solids[start : start + ADDED]:
            part.worldbody.add_geom(
                type=BOX, pos=(low + high) / 2, size=(high - low) / 2 - margin, margin=margin
            )
        spec.attach(part, frame=world.add_frame(), prefix=f"solids {start} ")


def _surface_geom(surface: Surface) -> dict[str, Any]:
    """MuJoCo's words for a floor, a plane or a box."""
    if isinstance(surface, Floor):
        surface = Plane((0.0, 1.0, 0.0), 0.0)
    if isinstance(surface, Plane):
        normal = np.array(surface.normal)
        return {
            "type": PLANE, "pos": surface.offset * normal, "size": (0, 0, 1),
            "quat": _turn_from_z(normal),
        }  # fmt: skip
    if isinstance(surface, Box):
        low, high = np.array(surface.low), np.array(surface.high)
        return {"type": BOX, "pos": (low + high) / 2, "size": (high - low) / 2}
    raise InputError(
        f"MuJoCo knows the floor, planes and boxes, not a {type(surface).__name__}; "
        "use contact='paper' for a surface of your own"
    )


def _turn_from_z(n: np.ndarray) -> np.ndarray:
    """The shortest rotation ``(4,)``, scalar first, that takes +z to the unit vector ``n``."""
    if n[2] < -1 + 1e-9:
        return np.array([0.0, 1.0, 0.0, 0.0])
    q = np.array([1 + n[2], -n[1], n[0], 0.0])
    return q / np.linalg.norm(q)


def _add_body(spec: mujoco.MjSpec, index: int, body: Body) -> None:
    """A free body with the state's axes."""
    if body.shape is None:
        raise InputError(f"object {index} has no shape; give one: Body(state, Shape.ball(0.2))")
    x = State(body.z0.double())
    shape = body.shape.turned((x.q * torch.tensor([1.0, -1, -1, -1])).numpy())
    mass = float(x.m) * (DRIVEN if body.track is not None else 1.0)
    made = spec.worldbody.add_body(
        name=f"object {index}", pos=x.p.numpy(), quat=x.q.numpy(), mass=mass,
        explicitinertial=True, ipos=shape.center, fullinertia=_six(mass * shape.inertia),
        sleep=_sleep_policy(body),
    )  # fmt: skip
    made.add_freejoint()
    contact = _contact(body, shape.size)
    if shape.radius is not None:
        made.add_geom(type=SPHERE, size=(shape.radius, 0, 0), pos=shape.center, **contact)
    for j, corners in enumerate(shape.pieces):
        name = f"piece {index} {j}"
        spec.add_mesh(
            name=name, uservert=corners.ravel(), inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        )
        made.add_geom(type=MESH, meshname=name, **contact)


def _sleep_policy(body: Body) -> Any:
    policy = mujoco.mjtSleepPolicy
    if body.track is not None:
        return policy.mjSLEEP_NEVER
    return policy.mjSLEEP_INIT if body.asleep else policy.mjSLEEP_ALLOWED


def _contact(body: Body, size: float) -> dict[str, Any]:
    """What an object's surface does; of two objects the less bouncy one decides, friction too.

    By priority: MuJoCo would else mix the spring of one with the damper of the other.
    """
    k = stiffness(size)
    e = min(float(State(body.z0).e), 0.999)
    lever = (body.rolling or 0.0) * size
    return {
        "mass": 0.0, "priority": 1 + round(1000 * (1 - e)), "condim": 6,
        "friction": (body.friction, lever, lever),
        "solref": (-k, -damping(e, k, 1 / TICKS)),
        "solimp": (IMPEDANCE, IMPEDANCE, 0.001, 0.5, 2),
    }  # fmt: skip


def _six(inertia: np.ndarray) -> tuple[float, ...]:
    """A symmetric matrix as MuJoCo takes it: xx, yy, zz, xy, xz, yz."""
    m = inertia + LIGHTEST * np.trace(inertia) / 3 * np.eye(3)
    return m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]

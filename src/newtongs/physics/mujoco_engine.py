"""The MuJoCo engine: convex pieces, friction, rolling, toppling, piles, and rest.

A MuJoCo body has the axes of the object's state, so that its coordinates and velocities are those
of the state: ``(p, q)`` and ``(v, w)``. Time advances in ticks of 1/3840 s, counted from zero; a
frame is the nearest tick. The terms of the dynamics (drag, a learned residual) act as force and
torque, updated every 1/48 s. Sizes do not change.
"""

import copy
import math
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeGuard

import mujoco
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import first_line
from ..base.state import CHANNELS, LAYOUT, State
from ..base.types import Array, StateTensor
from ..dynamics.analytic import G
from ..dynamics.gaussian_nnd import GaussianNND
from ..dynamics.interface import Dynamics
from ..dynamics.surfaces import Box, Floor, Plane, Surface
from . import active_boxes
from .active_boxes import ActiveBoxes, carry
from .bodies import Body, Surroundings
from .bounce import IMPEDANCE, damping, stiffness
from .contacts import ContactRecorder, Contacts
from .guards import EnergyGuard, SleepGuard

TICKS = 3840  # per second; with half as many, restitution is off by up to 0.03
HELD = TICKS // 48  # ticks for which forces are constant
# Ticks between checks of energy and rest: a bounce takes about 40, and MuJoCo puts a woken body to
# sleep again after ten unless it is seen to move.
WATCHED = 8
TIE = 1e-6  # of a tick: times halfway between two ticks are rounded up
FARTHEST = 1e8  # largest position or rate in a simulation
CATCH = -1e3  # height of a last floor, far below everything
QUIET = TICKS // 4  # ticks for which a body must be slow before it sleeps
TOLERANCE = 1e-5  # speed below which MuJoCo allows sleep
DRIVEN = 1e5  # factor on the mass of a body with a prescribed motion
ROUNDED = 0.1  # radius of the boxes' edges over the thickness of the thinnest
LIGHTEST = 1e-3  # of their mean, added to all moments of inertia: MuJoCo rejects flat bodies

SLOTS = 256  # initial number of boxes that can be touched at once

# Boxes added to a spec at once: MuJoCo visits all existing ones for each that is added.
ADDED = 256

ENTANGLED = 0.02  # depth over size from which two sleeping bodies do not collide
OVERLAP, SEPARATIONS = 1e-4, 30  # overlap tolerated at the start, and most steps that reduce it

PLANE, BOX = mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_BOX
SPHERE, MESH = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_MESH


# By default MuJoCo writes warnings to the terminal and to a file in the current folder. What they
# warn of is reported by :func:`_check`.
mujoco.set_mju_user_warning(lambda message: None)


class MujocoEngine:
    """A MuJoCo model and its data."""

    def __init__(
        self,
        objects: Sequence[Body],
        dynamics: Dynamics,
        surroundings: Surroundings,
        *,
        record: bool = False,
    ) -> None:
        """``record`` records all contacts, which requires single ticks and takes some time."""
        self.objects, self.dynamics = objects, dynamics
        _require_within_bounds(objects, dynamics)
        # A class of the user's own need not derive from Dynamics.
        self.gravity = getattr(dynamics, "gravity", G)
        self.surroundings, self.whole = surroundings, _compile(objects, surroundings, self.gravity)
        self.model = self.whole
        if len(surroundings.solids) >= active_boxes.FEWEST:
            slots = min(SLOTS, len(surroundings.solids))
            self.model = _compile(objects, surroundings, self.gravity, slots)
        self.data = mujoco.MjData(self.model)
        self.tick = 0
        self.resting = False  # whether everything sleeps
        self.rest = SleepGuard(len(objects), QUIET)
        self.driven = {i: body.track for i, body in enumerate(objects) if body.track is not None}
        z0 = torch.stack([body.z0.double() for body in objects])
        self.guard = EnergyGuard(self.model, list(self.driven))
        self.nearby = ActiveBoxes(self.model, self.whole, len(surroundings.solids))
        self.recorder: ContactRecorder | None = None
        if record:
            self.recorder = ContactRecorder(self.model, self.guard, list(self.driven), 1 / TICKS)
        self._fixed = z0  # scale and material, which do not change
        g = torch.tensor((0.0, -self.gravity, 0.0)).to(dynamics.like)
        self._gravity = g.double().cpu().numpy()  # as exact as the model knows it
        for i, z in enumerate(z0):  # poses are in the model; writing one would wake a sleeping body
            self._write_rates(i, z)

    # --- the state -------------------------------------------------------------------------------

    @property
    def states(self) -> StateTensor:
        """Present states ``(K, 22)``, float64."""
        x = self._fixed.numpy().copy()  # numpy: few numbers, hundreds of times per second
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
        """Replace one state; MuJoCo wakes the body at the next tick."""
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
        # Plus zero: a negative zero would wake a sleeping body.
        self.data.qvel[6 * index : 6 * index + 6] = torch.cat([x.v, x.w]).numpy() + 0.0

    @property
    def contacts(self) -> Contacts | None:
        """All contacts up to the last frame, if recorded."""
        return None if self.recorder is None else self.recorder.contacts

    def snapshot(self) -> Any:
        """A copy of MuJoCo's data and of the guards."""
        watched = self.rest.copy(), self.guard.copy()
        return copy.copy(self.data), self.tick, self.resting, *watched

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""
        data, self.tick, self.resting, rest, guard = snapshot
        self.rest, self.guard = rest.copy(), guard.copy()
        self.guard.body_of = self.nearby.body_of
        self.rest.weigh(self.model.dof_length)
        if data.geom_xpos.shape == self.data.geom_xpos.shape:
            mujoco.mj_copyData(self.data, self.model, data)
        else:  # the number of slots has changed
            carry(data, self.data)
        self.nearby.forget()

    # --- time ------------------------------------------------------------------------------------

    def advance(
        self, start: float, times: Sequence[float], tell: Callable[[int, int], None] | None
    ) -> StateTensor:
        """See :class:`newtongs.physics.simulation.Engine`."""
        if self.tick == 0:
            trial = mujoco.MjData(self.whole)  # with all boxes
            carry(self.data, trial)
            self.data.qpos[:] = _separated(self.whole, trial, self.driven)
        frames = []
        for done, time in enumerate(times):
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported at the end
                self._reach(math.floor(time * TICKS + 0.5 + TIE))
            frames.append(self.states)
            if self.recorder is not None:
                self.recorder.close_frame()
            if tell is not None:
                tell(done + 1, len(times))
        return torch.stack(frames)

    def _reach(self, tick: int) -> None:
        """Advance tick by tick, updating forces when due."""
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
                    _check(self.data)  # at once: MuJoCo is slow if numbers are not finite
                self.rest.weigh(self.model.dof_length)
                self.resting = not (self.data.ntree_awake or self.driven)
        if self.driven:
            self._drive()
        _check(self.data)

    def _step(self, due: int) -> None:
        """MuJoCo's own loop, or single ticks to update the near boxes and to record contacts."""
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
        """Continue with twice as many slots for boxes."""
        slots, before = min(2 * self.nearby.slots, len(self.surroundings.solids)), self.data
        self.model = _compile(self.objects, self.surroundings, self.gravity, slots)
        self.data = mujoco.MjData(self.model)
        carry(before, self.data)
        self.rest.weigh(self.model.dof_length)
        self.nearby = ActiveBoxes(self.model, self.whole, len(self.surroundings.solids))
        self.guard.body_of = self.nearby.body_of
        if self.recorder is not None:
            self.recorder.body_of = self.nearby.body_of

    def _watch(self) -> None:
        """Check that energy does not grow."""

        def check() -> None:
            self.guard.check(self.data, WATCHED / TICKS)

        if self.recorder is None:
            check()
        else:
            self.recorder.watch(self.data, self.guard, check, self.tick, 3 * WATCHED)

    def _apply(self) -> None:
        """Apply the dynamics' accelerations beyond gravity as force and torque to awake bodies."""
        linear, turning = accelerations(self.dynamics, self.states)
        # A force would wake a sleeping body, and keep one awake that is about to sleep.
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
        """Set the bodies with a prescribed motion to their present state."""
        for i, track in self.driven.items():
            pose, rate = track.motion(self.tick / TICKS)
            self.data.qpos[7 * i : 7 * i + 7] = pose
            self.data.qvel[6 * i : 6 * i + 6] = rate


def _require_within_bounds(objects: Sequence[Body], dynamics: Dynamics) -> None:
    """Reject objects that would leave all bounds."""
    least = 0.0
    if isinstance(dynamics, GaussianNND):  # constant forces are Euler steps
        least = dynamics.least_mass_of_step(HELD / TICKS, "euler")
    for i, body in enumerate(objects):
        if body.track is not None:
            continue
        _require_near(i, body.z0)
        mass = float(State(body.z0).m)
        if mass < least:
            raise InputError(
                f"object {i}: channel m is {mass:g}; a mass below {least:.3g} cannot be simulated "
                "with contacts by MuJoCo, because air drag would make it unstable"
            )


def _require_near(index: int, z: StateTensor) -> None:
    """Reject a state ``(22,)`` whose pose or velocities are out of bounds."""
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
            "more similar size and mass"
        )


def _separated(
    model: mujoco.MjModel, trial: mujoco.MjData, driven: Collection[int]
) -> npt.NDArray[np.float64]:
    """Poses ``(7 K,)`` with initial overlaps pushed apart, without velocity.

    Shapes are approximate, and an overlap left to the contacts would become a jump. Sleeping and
    driven bodies stay in place. ``trial`` is modified: finding contacts wakes bodies.
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
    objects: Sequence[Body],
    surroundings: Surroundings,
    gravity: float,
    slots: int | None = None,
) -> mujoco.MjModel:
    """The MuJoCo model of bodies and surroundings, of whose boxes only the first ``slots``."""
    spec = mujoco.MjSpec()
    spec.compiler.balanceinertia = True
    option = spec.option
    option.timestep = 1 / TICKS
    option.gravity = (0.0, -gravity, 0.0)
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.sleep_tolerance = TOLERANCE
    option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    _add_surroundings(spec, surroundings, slots)
    for i, body in enumerate(objects):
        _add_body(spec, i, body, gravity)
    model = _compiled(spec)
    entangled = _entangled(model, [i for i, body in enumerate(objects) if body.asleep])
    for a, b in entangled:
        spec.add_exclude(bodyname1=f"object {a}", bodyname2=f"object {b}")
    return _compiled(spec) if entangled else model


def _compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a spec.

    A body that should sleep but touches one that is awake starts awake, which is as it should be:
    MuJoCo's warning about it is dropped.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ trees were marked as sleep")
        try:
            return spec.compile()
        except ValueError as error:  # of a shape without volume, above all
            raise InputError(f"MuJoCo cannot simulate these shapes: {first_line(error)}") from error


def _entangled(model: mujoco.MjModel, asleep: Collection[int]) -> set[tuple[int, int]]:
    """Pairs of sleeping bodies whose shapes overlap far.

    When woken they would shoot apart, so their collision is disabled.
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
    # Boxes are shrunk by a margin that is added to the contact distance, which rounds their edges:
    # an object that slides from one box onto the next would catch on a sharp edge.
    thinnest = float((solids[:, 1] - solids[:, 0]).min()) if len(solids) else 0.0
    margin = ROUNDED * thinnest
    solids = solids[:slots]  # any of them: they are overwritten
    for start in range(0, len(solids), ADDED):
        part = mujoco.MjSpec()
        for low, high in solids[start : start + ADDED]:
            part.worldbody.add_geom(
                type=BOX, pos=(low + high) / 2, size=(high - low) / 2 - margin, margin=margin
            )
        spec.attach(part, frame=world.add_frame(), prefix=f"solids {start} ")


def _surface_geom(surface: Surface) -> dict[str, Any]:
    """The MuJoCo geom of a floor, a plane or a box."""
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
        f"MuJoCo supports the floor, planes and boxes, not a {type(surface).__name__}; "
        "use contact='paper' for a surface of your own"
    )


def _turn_from_z(n: np.ndarray) -> np.ndarray:
    """The shortest rotation ``(4,)``, scalar first, that takes +z to the unit vector ``n``."""
    if n[2] < -1 + 1e-9:
        return np.array([0.0, 1.0, 0.0, 0.0])
    q = np.array([1 + n[2], -n[1], n[0], 0.0])
    return q / np.linalg.norm(q)


def _add_body(spec: mujoco.MjSpec, index: int, body: Body, gravity: float) -> None:
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
    contact = _contact(body, shape.size, gravity)
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


def _contact(body: Body, size: float, gravity: float) -> dict[str, Any]:
    """Contact parameters of an object; of two objects those of the less bouncy one apply.

    That is what the priority is for: MuJoCo would otherwise mix spring and damper of both.
    """
    k = stiffness(size)
    e = min(float(State(body.z0).e), 0.999)
    lever = (body.rolling or 0.0) * size
    return {
        "mass": 0.0, "priority": 1 + round(1000 * (1 - e)), "condim": 6,
        "friction": (body.friction, lever, lever),
        "solref": (-k, -damping(e, k, 1 / TICKS, gravity)),
        "solimp": (IMPEDANCE, IMPEDANCE, 0.001, 0.5, 2),
    }  # fmt: skip


def _six(inertia: np.ndarray) -> tuple[float, ...]:
    """A symmetric matrix in MuJoCo's order: xx, yy, zz, xy, xz, yz."""
    m = inertia + LIGHTEST * np.trace(inertia) / 3 * np.eye(3)
    return m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]


# --- the dynamics' own terms ----------------------------------------------------------------------


NUMPY: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


def accelerations(dynamics: Dynamics, z: StateTensor) -> tuple[Array, Array]:
    """The rates of ``v`` and ``w``, each ``(K, 3)`` float64, of states ``(K, 22)``, float64.

    Bit for bit those of ``dynamics.rates``. They are computed some 50 times per second of live
    simulations.
    """
    if _is_newtons(dynamics):
        return _by_newton(dynamics, z.numpy())
    with torch.no_grad():
        rate = State(dynamics.rates(z.to(dynamics.like)).cpu().double())
    return rate.v.numpy(), rate.w.numpy()


def _is_newtons(dynamics: Dynamics) -> TypeGuard[GaussianNND]:
    """Whether these are only Newton's terms, on the CPU; a subclass may have others."""
    return (
        type(dynamics) is GaussianNND
        and dynamics.config.prior
        and not dynamics.config.continuous_residual
        and dynamics.like.device.type == "cpu"
        and dynamics.like.dtype in NUMPY
    )


def _by_newton(dynamics: GaussianNND, z: Array) -> tuple[Array, Array]:
    """In numpy: for a few objects torch takes thirty times as long, mostly for overhead.

    The order of operations is that of ``newtongs.dynamics.analytic``.
    """
    number = NUMPY[dynamics.like.dtype]
    z = z.astype(number)
    c_v, c_w = (number(abs(c.item())) for c in (dynamics.c_v, dynamics.c_w))
    g = np.array((0.0, -dynamics.gravity, 0.0), number)
    linear = g - c_v * z[:, LAYOUT["v"]] / z[:, LAYOUT["m"]]
    return linear.astype(np.float64), (-c_w * z[:, LAYOUT["w"]]).astype(np.float64)

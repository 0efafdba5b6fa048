"""Piles and a solid scene: how long two seconds of the world take, where they go, and the peers.

Run with: python benchmarks/world.py [--captures FOLDER] [--peer-python PYTHON ...] [--parts ...]

The folder holds unicorn_stuffy.ply, banana.ply and playbot.sog. PYTHON is the interpreter of an
environment with pybullet and numpy, or with newton[sim].
"""

import argparse
import ctypes
import importlib.metadata
import inspect
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest import mock

import mujoco
import numba
import numpy as np
import torch
from common import NotHereError, hardware, seconds
from rich.console import Console
from rich.table import Table
from scipy import ndimage
from scipy.spatial import ConvexHull

from newtongs import ObjectSpec, make_state
from newtongs.base import rotations
from newtongs.base.state import State, replace
from newtongs.base.types import StateTensor
from newtongs.physics import Body, Shape, Simulation, Surroundings, bounce, colliders
from newtongs.physics.active_boxes import carry
from newtongs.physics.guards import EnergyGuard, SleepGuard
from newtongs.physics.mujoco_engine import TICKS, MujocoEngine
from newtongs.physics.shapes import directions
from newtongs.pipeline.bodies import shape_of
from newtongs.pipeline.pick import Layout
from newtongs.pipeline.prepare import Setup, prepare
from newtongs.pipeline.spec import SceneSpec
from newtongs.pipeline.surroundings import make_surroundings, solid_rest
from newtongs.samples import TEMPLATES
from newtongs.scene import GaussianScene
from newtongs.scene.gaussians import BACKGROUND

COUNT, SECONDS, PILES, RUNS = 10, 2, 3, 5
FRAME = 1 / 60
LOOKED_AT = 240  # Hz, at which penetration is measured
PILE_TARGET, COLLIDER_TARGET, GROUND_TARGET, STEP_TARGET = 1.0, 1.5, 2.0, 0.016
TEMPLATE_OBJECTS = ("living_room_table", "studio_tabletop", "construction_floor")
CAPTURES = ("unicorn_stuffy.ply", "banana.ply")
PATIENCE = 3.0  # seconds of stepping beyond which a peer is run once
RESTITUTION = 0.3  # of the piles that peers are given
BOUNCE = 0.6  # of a single thing

PARTS = ("piles", "ground", "peers")

Stages = dict[str, float]


def best(work: Callable[[], object]) -> float:
    """Shortest of some runs: other work on the machine only ever adds."""
    return seconds(work, torch.device("cpu"), at_least=0.0, runs=RUNS)


def table(title: str, *headings: str) -> Table:
    """An empty table, numbers to the right."""
    made = Table(title=title)
    for i, heading in enumerate(headings):
        made.add_column(heading, justify="right" if i else "left", no_wrap=not i)
    return made


# --- objects and piles ---------------------------------------------------------------------------


class Thing(NamedTuple):
    """An object to be dropped."""

    name: str
    setup: Setup
    z0: StateTensor
    shape: Shape

    @property
    def gaussians(self) -> int:
        """How many it has."""
        return int((self.setup.layout.scene.ids == 0).sum())

    def shape_again(self) -> Shape:
        """What is timed."""
        return shape_of(self.setup.layout, 0, self.z0)


def things(captures: Path | None) -> list[Thing]:
    """Car, mug and cone, and the captures, each of lifted scale 0.27."""
    given: list[tuple[str, GaussianScene | Path, str]] = [
        (TEMPLATES[name].object_name, TEMPLATES[name].object, "all") for name in TEMPLATE_OBJECTS
    ]
    if captures is not None:
        given += [(name, captures / name, "auto") for name in CAPTURES]
    out = []
    for name, scene, select in given:
        setup = prepare(scene, SceneSpec((ObjectSpec(select),)))
        (body,) = setup.bodies
        assert body.shape is not None
        out.append(Thing(name, setup, body.z0, body.shape))
    return out


def dropped(
    some: Sequence[Thing], count: int, seed: int, *, restitution: float, aside: float, at: Any = 0.0
) -> list[Body]:
    """Objects turned anyhow, one above the other and a little aside, at rest."""
    draw = torch.Generator().manual_seed(seed)
    height, bodies = 0.2, []
    for thing in itertools.islice(itertools.cycle(some), count):
        turn = rotations.normalize(torch.randn(4, generator=draw, dtype=torch.float64))
        shape = thing.shape.turned(turn.numpy())
        low, high = shape.bounds
        x, z = (aside * (2 * torch.rand(2, generator=draw, dtype=torch.float64) - 1)).tolist()
        p = torch.tensor([x, height - low[1], z]) + torch.as_tensor(at)
        height += float(high[1] - low[1]) + 0.05
        q = rotations.multiply(turn, State(thing.z0).q.double())
        still = (0.0, 0.0, 0.0)
        state = replace(thing.z0.double(), p=p.double(), q=q, v=still, w=still, e=restitution)
        bodies.append(Body(state, shape))
    return bodies


def pile(some: Sequence[Thing], seed: int, restitution: float) -> list[Body]:
    """Ten objects above a plane."""
    return dropped(some, COUNT, seed, restitution=restitution, aside=0.1)


# --- a run, and what is to be said of it ---------------------------------------------------------


def engine_of(simulation: Simulation) -> MujocoEngine:
    """The engine, to look into."""
    return cast(MujocoEngine, simulation._engine)


@dataclass
class Played:
    """Two seconds of a simulation, step by step at 60 Hz."""

    start: float
    """Seconds to make the simulation."""
    steps: np.ndarray
    """Seconds of each step, the shortest of all runs: they compute the same."""
    contacts: list[int]
    """After each step."""
    asleep: int
    """Objects at the end."""

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return float(self.steps.sum())


def played(bodies: Sequence[Body], around: Surroundings | None = None) -> Played:
    """Make a simulation anew and step it, some times."""
    starts, runs = [], []
    for _ in range(RUNS):
        bounce.damping.cache_clear()
        begin = time.perf_counter()
        simulation = Simulation(bodies, surroundings=around)
        starts.append(time.perf_counter() - begin)
        steps: list[float] = []
        contacts: list[int] = []
        for _ in range(round(SECONDS / FRAME)):
            begin = time.perf_counter()
            simulation.step(FRAME)
            steps.append(time.perf_counter() - begin)
            contacts.append(int(engine_of(simulation).data.ncon))
        runs.append(steps)
    return Played(min(starts), np.min(runs, 0), contacts, int(simulation.asleep.sum()))


class Judged(NamedTuple):
    """How well a pile behaved."""

    plane: float
    """Deepest into the plane."""
    others: float
    """Deepest into each other."""
    speeds: np.ndarray
    """Of each object at the end ``(K,)``."""


def judge(bodies: Sequence[Body], poses: np.ndarray) -> Judged:
    """By MuJoCo's contacts, for everyone's paths ``(T, K, 7)`` at 240 Hz."""
    engine = engine_of(Simulation(bodies))
    model, data = engine.model, engine.data
    plane = others = 0.0
    for frame in poses:
        data.qpos[:] = frame.ravel()
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        for contact in data.contact:
            if (model.geom_bodyid[contact.geom] == 0).any():
                plane = max(plane, -contact.dist)
            else:
                others = max(others, -contact.dist)
    last = poses[-1, :, :3] - poses[-2, :, :3]
    return Judged(plane, others, np.linalg.norm(last, axis=-1) * LOOKED_AT)


def our_path(bodies: Sequence[Body]) -> np.ndarray:
    """Poses ``(T, K, 7)`` at 240 Hz."""
    times = torch.arange(1, SECONDS * LOOKED_AT + 1, dtype=torch.float64) / LOOKED_AT
    x = State(Simulation(bodies).run(times))
    return torch.cat([x.p, x.q], -1).numpy()


def pile_tables(some: Sequence[Thing], console: Console) -> None:
    """The slowest of the piles for each restitution, and where the time of one goes."""
    title = f"{COUNT} objects piled on a plane, {SECONDS} s simulated, slowest of {PILES} piles"
    version = importlib.metadata.version("mujoco-core")
    shown = table(
        f"{title}; MuJoCo {version} on {hardware(torch.device('cpu'))}", "restitution", "pieces",
        "make, s", "2 s, s", f"of {PILE_TARGET:g} s", "contacts, mean / most", "into plane, mm",
        "into others, mm", "speed, median / most", "asleep",
    )  # fmt: skip
    for restitution in (0.6, RESTITUTION, 0.0):
        piles = [pile(some, seed, restitution) for seed in range(PILES)]
        runs = [played(bodies) for bodies in piles]
        judged = [judge(bodies, our_path(bodies)) for bodies in piles]
        slowest = max(runs, key=lambda run: run.seconds)
        contacts = np.array([run.contacts for run in runs])
        shown.add_row(
            f"{restitution:g}", str(sum(len(b.shape.pieces) for b in piles[0] if b.shape)),
            f"{max(run.start for run in runs):.3f}", f"{slowest.seconds:.3f}",
            f"{slowest.seconds / PILE_TARGET:.0%}", f"{contacts.mean():.0f} / {contacts.max()}",
            *_behaviour(judged), f"{sum(run.asleep for run in runs)} of {PILES * COUNT}",
        )  # fmt: skip
    console.print(shown)
    console.print(shape_table(some))
    title = f"a pile, restitution {RESTITUTION:g}"
    console.print(time_table(title, pile(some, 0, RESTITUTION), None))


def _behaviour(judged: Sequence[Judged]) -> tuple[str, str, str]:
    speeds = np.concatenate([j.speeds for j in judged])
    return (
        f"{1000 * max(j.plane for j in judged):.1f}",
        f"{1000 * max(j.others for j in judged):.1f}",
        f"{np.median(speeds):.3f} / {speeds.max():.2f}",
    )


# --- a solid scene -------------------------------------------------------------------------------


class Set(NamedTuple):
    """A stage with bodies above its ground."""

    title: str
    setup: Setup
    bodies: list[Body]


def robot(captures: Path, some: Sequence[Thing]) -> Set:
    """Five objects dropped where the robot stood."""
    setup = prepare(captures / "playbot.sog", SceneSpec())
    place = State(setup.bodies[0].z0).p.double() * torch.tensor([1, 0, 1])
    bodies = dropped(some, len(some), 0, restitution=0.6, aside=0.3, at=place)
    title = f"{len(bodies)} objects on the robot's ground"
    layout = changed(setup.layout, pushed=len(bodies))
    return Set(title, changed(setup, layout=layout), bodies)


def bowling() -> Set:
    """The ball rolls into the pins."""
    spec = SceneSpec((ObjectSpec(velocity=(8.0, 0.0, 0.0)),), loose=True)
    setup = prepare("bowling", spec)
    return Set("bowling, ten pins loose", setup, list(setup.bodies))


def ground_tables(scene: Set, console: Console) -> None:
    """Collider, two seconds, and steps at 60 Hz."""
    layout, bodies = scene.setup.layout, scene.bodies
    rest = layout.scene[layout.scene.ids == BACKGROUND]
    with mock.patch.object(colliders, "merged", wraps=colliders.merged) as merged:
        solid = solid_rest(layout, rest, bodies)
    cells = merged.call_args.args[0].size
    all_threads, runs = torch.get_num_threads(), []
    for threads in RUNS * sorted({1, all_threads}):
        torch.set_num_threads(threads)
        runs.append(collider_parts(layout, rest, bodies))
    torch.set_num_threads(all_threads)
    parts = min(runs, key=lambda run: sum(run.values()))
    whole = sum(parts.values())
    around = make_surroundings(layout, bodies, scene.setup.spec).surroundings
    run = played(bodies, around)
    shown = table(f"{scene.title}: {len(rest):,} Gaussians", "what", "", "target", "share")
    shown.add_row("boxes", f"{len(solid.boxes):,}", f"{colliders.MOST_BOXES:,}", "")
    shown.add_row("cells", f"{cells:,}", f"{colliders.MOST_CELLS:,}", "")
    for what, s, allowed in (
        ("collider", whole, COLLIDER_TARGET),
        (f"{SECONDS} s simulated", run.seconds, GROUND_TARGET),
    ):
        shown.add_row(what, f"{s:.3f} s", f"{allowed:g} s", f"{s / allowed:.0%}")
    for what, s in (
        ("median", float(np.median(run.steps))),
        ("95 %", float(np.quantile(run.steps, 0.95))),
        ("worst", float(run.steps.max())),
    ):
        target = f"{1000 * STEP_TARGET:g} ms"
        shown.add_row(f"step(1/60), {what}", f"{1000 * s:.2f} ms", target, f"{s / STEP_TARGET:.0%}")
    shown.add_row("contacts, mean / most", f"{np.mean(run.contacts):.0f} / {max(run.contacts)}")
    console.print(shown)
    shown = table("where the collider's time goes", "what", "s", "share")
    for name, s in parts.items():
        shown.add_row(name, f"{s:.3f}", f"{s / whole:.0%}")
    shown.add_section()
    shown.add_row("in all", f"{whole:.3f}", "")
    read = [x.numpy() for x in (rest.means, rest.quats, rest.log_scales, rest.logits)]
    limit = best(lambda: (np.full(cells, 1.0, np.float32), [x.copy() for x in read]))
    name = "limit: copy the Gaussians, fill the cells"
    shown.add_row(name, f"{limit:.4f}", f"{whole / limit:.0f} times")
    console.print(shown)
    console.print(time_table(scene.title, bodies, around))


@contextmanager
def watched(stages: Stages, *places: tuple[Any, str, str]) -> Iterator[None]:
    """Add the time of some modules' functions (module, function, stage) to stages."""
    kept = [(module, name, getattr(module, name)) for module, name, _ in places]

    def timed(work: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **more: Any) -> Any:
            start = time.perf_counter()
            out = work(*args, **more)
            stages[stage] = stages.get(stage, 0.0) + time.perf_counter() - start
            return out

        return wrapper

    for module, name, stage in places:
        setattr(module, name, timed(getattr(module, name), stage))
    try:
        yield
    finally:
        for module, name, work in kept:
            setattr(module, name, work)


def collider_parts(layout: Layout, rest: GaussianScene, bodies: Sequence[Body]) -> Stages:
    """Seconds of the collider's stages."""
    stages: Stages = {}
    with watched(
        stages,
        (colliders, "_matter", "choose Gaussians"), (colliders, "_extent", "choose Gaussians"),
        (colliders, "density", "splat"), (ndimage, "label", "label"),
        (colliders, "_carve", "carve"), (colliders, "_level", "take bumps off"),
        (colliders, "_make_room", "room for objects"),
        (colliders, "merged", "merge"),
    ):  # fmt: skip
        start = time.perf_counter()
        solid_rest(layout, rest, bodies)
        spent = time.perf_counter() - start
    return {**stages, "the rest": spent - sum(stages.values())}


# --- where the time goes -------------------------------------------------------------------------

_clock_gettime = ctypes.CDLL(None).clock_gettime
_clock_gettime.argtypes, _clock_gettime.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_int


@numba.cfunc("float64()")
def monotonic() -> float:
    """Seconds, for MuJoCo's own timers; 50 ns a call."""
    now = np.empty(2, np.int64)
    _clock_gettime(1, now.ctypes)
    return now[0] + 1e-9 * now[1]


KIND = mujoco.mjtTimer


def mujoco_timers(bodies: Sequence[Body], around: Surroundings | None) -> Stages:
    """MuJoCo's account of two seconds: the quickest of some runs."""
    runs = []
    mujoco.set_mjcb_time(monotonic.ctypes)
    for _ in range(RUNS):
        simulation = Simulation(bodies, surroundings=around)
        simulation.run(torch.arange(1, SECONDS * 60 + 1, dtype=torch.float64) / 60)
        timer = engine_of(simulation).data.timer
        runs.append({name: sum(float(timer[int(i)].duration) for i in which) for name, which in (
            ("broad phase", [KIND.mjTIMER_COL_BROAD]),
            ("narrow phase", [KIND.mjTIMER_COL_NARROW]),
            ("make constraints", [KIND.mjTIMER_POS_MAKE, KIND.mjTIMER_POS_PROJECT]),
            ("solve constraints", [KIND.mjTIMER_CONSTRAINT]),
            ("step", [KIND.mjTIMER_STEP]),
        )})  # fmt: skip
    mujoco.set_mjcb_time(None)
    spent = min(runs, key=lambda run: run["step"])
    whole = spent.pop("step")
    return {**spent, "motion and the rest of MuJoCo": whole - sum(spent.values())}


def own_time(bodies: Sequence[Body], around: Surroundings | None) -> Stages:
    """What the engine does in Python between MuJoCo's steps: the quickest of some runs."""
    runs = []
    for _ in range(RUNS):
        simulation, stages = Simulation(bodies, surroundings=around), Stages()
        with watched(
            stages, (EnergyGuard, "check", "guard of the energy"),
            (MujocoEngine, "_apply", "forces of the dynamics"), (SleepGuard, "count", "sleep"),
        ):  # fmt: skip
            simulation.run(torch.arange(1, SECONDS * 60 + 1, dtype=torch.float64) / 60)
        runs.append(stages)
    return min(runs, key=lambda run: sum(run.values()))


def alone(bodies: Sequence[Body], around: Surroundings | None, *, contacts: bool = True) -> float:
    """MuJoCo in one call a step: no states, no forces of ours, no rule for sleep."""
    runs = []
    for _ in range(RUNS):
        engine = engine_of(Simulation(bodies, surroundings=around))
        model = engine.whole  # with all boxes: nobody looks which ones are near
        data = mujoco.MjData(model)
        carry(engine.data, data)
        if not contacts:
            model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        steps = []
        for _ in range(round(SECONDS / FRAME)):
            start = time.perf_counter()
            mujoco.mj_step(model, data, round(TICKS * FRAME))
            steps.append(time.perf_counter() - start)
        runs.append(steps)
    return float(np.min(runs, 0).sum())


def time_table(title: str, bodies: Sequence[Body], around: Surroundings | None) -> Table:
    """The stages of a simulation, and how far its stepping is from a limit."""
    run = played(bodies, around)
    starting: Stages = {}
    bounce.damping.cache_clear()
    with watched(starting, (sys.modules[MujocoEngine.__module__], "damping", "damping")):
        Simulation(bodies, surroundings=around)
    shown = table(f"where the time goes: {title}", "what", "s", "")
    damping = min(starting["damping"], run.start)
    shown.add_row("make: restitution to damping", f"{damping:.3f}", "once for each size")
    shown.add_row("make: MuJoCo's model", f"{run.start - damping:.3f}", "")
    shown.add_section()
    inside = {**mujoco_timers(bodies, around), **own_time(bodies, around)}
    inside["the rest of Python"] = max(run.seconds - sum(inside.values()), 0.0)
    for name, s in inside.items():
        shown.add_row(f"step: {name}", f"{s:.3f}", f"{s / run.seconds:.0%}")
    shown.add_row(f"{SECONDS * 60} steps", f"{run.seconds:.3f}", "")
    shown.add_section()
    for name, limit in (
        ("limit: MuJoCo alone", alone(bodies, around)),
        ("limit: without contacts", alone(bodies, around, contacts=False)),
    ):
        shown.add_row(name, f"{limit:.3f}", f"{run.seconds / limit:.1f} times")
    return shown


def shape_table(some: Sequence[Thing]) -> Table:
    """Seconds for each object's convex pieces."""
    shown = table("shapes", "object", "Gaussians", "pieces", "s")
    for thing in some:
        count, pieces = f"{thing.gaussians:,}", str(len(thing.shape.pieces))
        shown.add_row(thing.name, count, pieces, f"{best(thing.shape_again):.3f}")
    return shown


# --- peers ---------------------------------------------------------------------------------------


class Peer(NamedTuple):
    """One way to step a pile elsewhere."""

    name: str
    worker: Callable[..., Any]
    module: str
    steps: int
    """A second."""
    options: dict[str, Any]


def bullet(given: dict[str, Any], steps: int, frames: int, options: dict[str, Any]) -> Any:
    """PyBullet; runs in an interpreter of its own."""
    import os
    import tempfile
    import time

    begin = time.perf_counter()
    import pybullet as p  # type: ignore[import-not-found]

    imported = time.perf_counter()
    p.connect(p.DIRECT)
    p.setGravity(0, -9.81, 0)
    p.setTimeStep(1 / steps)
    plane = p.createMultiBody(0, p.createCollisionShape(p.GEOM_PLANE, planeNormal=[0, 1, 0]))
    p.changeDynamics(plane, -1, lateralFriction=1.0, restitution=1.0)
    bodies = []
    for i, pieces in enumerate(given["pieces"]):
        lines, first = [], 1  # several objects of one file become several hulls
        for j in range(pieces):
            corners = given[f"corners {i} {j}"]
            lines.append(f"o piece{j}")
            lines += ["v {:.9g} {:.9g} {:.9g}".format(*x) for x in corners]
            lines += ["f {} {} {}".format(*(x + first)) for x in given[f"faces {i} {j}"]]
            first += len(corners)
        with tempfile.NamedTemporaryFile("w", suffix=".obj", delete=False) as file:
            file.write("\n".join(lines) + "\n")
        shape = p.createCollisionShape(p.GEOM_MESH, fileName=file.name)
        os.remove(file.name)
        body = p.createMultiBody(
            1.0, shape, basePosition=given["position"][i].tolist(),
            baseOrientation=given["turn"][i].tolist(),
        )  # fmt: skip
        rolling = float(given["rolling"][i])
        p.changeDynamics(
            body, -1, localInertiaDiagonal=given["inertia"][i].tolist(), lateralFriction=0.5,
            restitution=float(given["restitution"]), rollingFriction=rolling,
            spinningFriction=rolling, linearDamping=0, angularDamping=0,
        )  # fmt: skip
        bodies.append(body)
    every = steps // int(given["rate"])
    built, stepping, poses = time.perf_counter(), [], []
    for _ in range(frames):
        start = time.perf_counter()
        for _ in range(every):
            p.stepSimulation()
        stepping.append(time.perf_counter() - start)
        poses.append([[*x, *q] for x, q in map(p.getBasePositionAndOrientation, bodies)])
    return imported - begin, built - imported, stepping, poses


def newton(given: dict[str, Any], steps: int, frames: int, options: dict[str, Any]) -> Any:
    """Newton on the CPU; runs in an interpreter of its own."""
    import time

    import numpy as np

    begin = time.perf_counter()
    import newton as nt  # type: ignore[import-not-found]
    import warp as wp  # type: ignore[import-not-found]

    imported = time.perf_counter()
    wp.set_device("cpu")
    builder = nt.ModelBuilder(up_axis=nt.Axis.Y, gravity=(0.0, -9.81, 0.0))
    look = nt.ModelBuilder.ShapeConfig
    same = {"mu": 0.5, "restitution": float(given["restitution"])}
    builder.add_ground_plane(cfg=look(**same))
    for i, pieces in enumerate(given["pieces"]):
        body = builder.add_body(
            xform=wp.transform(given["position"][i], given["turn"][i]), mass=1.0,
            inertia=wp.mat33(*np.diag(given["inertia"][i]).ravel().tolist()), lock_inertia=True,
        )  # fmt: skip
        rolling = float(given["rolling"][i])
        cfg = look(density=0.0, mu_rolling=rolling, mu_torsional=rolling, **same)
        for j in range(pieces):
            faces = given[f"faces {i} {j}"].ravel()
            mesh = nt.Mesh(given[f"corners {i} {j}"], faces, compute_inertia=False)
            builder.add_shape_convex_hull(body, mesh=mesh, cfg=cfg)
    model = builder.finalize()
    if options["solver"] == "xpbd":
        more = {"iterations": options["iterations"], "enable_restitution": True}
        solver = nt.solvers.SolverXPBD(model, **more)
        pipeline = nt.CollisionPipeline(model)
        contacts = pipeline.contacts()
    else:
        solver = nt.solvers.SolverMuJoCo(model, use_mujoco_cpu=True)
        pipeline = contacts = None
    states, control = [model.state(), model.state()], model.control()

    def step() -> None:
        states[0].clear_forces()
        if pipeline is not None:
            pipeline.collide(states[0], contacts)
        solver.step(states[0], states[1], control, contacts, 1 / steps)
        states.reverse()

    step()  # kernels are compiled, or read from the cache
    states[0] = model.state()
    every = steps // int(given["rate"])
    built, stepping, poses = time.perf_counter(), [], []
    for _ in range(frames):
        start = time.perf_counter()
        for _ in range(every):
            step()
        stepping.append(time.perf_counter() - start)
        poses.append(states[0].body_q.numpy().copy())
    return imported - begin, built - imported, stepping, poses


def work_elsewhere(work: Callable[..., Any], given: str, out: str, rest: str) -> None:
    """What the other interpreter does."""
    import json

    import numpy as np

    with np.load(given) as file:
        arrays = dict(file)
    loading, building, stepping, poses = work(arrays, **json.loads(rest))
    np.savez(out, start=(loading, building), stepping=stepping, poses=np.array(poses))


PEERS = (
    Peer("PyBullet, 1/240 s", bullet, "pybullet", 240, {}),
    Peer("PyBullet, 1/3840 s", bullet, "pybullet", TICKS, {}),
    Peer("Newton XPBD, 1/480 s", newton, "newton", 480, {"solver": "xpbd", "iterations": 2}),
    Peer(
        "Newton XPBD x 10, 1/480 s", newton, "newton", 480,
        {"solver": "xpbd", "iterations": 10},
    ),
    Peer("Newton XPBD, 1/3840 s", newton, "newton", TICKS, {"solver": "xpbd", "iterations": 2}),
    Peer("Newton's MuJoCo, 1/480 s", newton, "newton", 480, {"solver": "mujoco"}),
    Peer("Newton's MuJoCo, 1/3840 s", newton, "newton", TICKS, {"solver": "mujoco"}),
)  # fmt: skip


def handed_over(bodies: Sequence[Body]) -> dict[str, Any]:
    """The pile as arrays, each object around its centre of mass in its axes of inertia.

    Quaternions have the scalar last, as the peers have it.
    """
    out: dict[str, Any] = {k: [] for k in ("position", "turn", "inertia", "rolling", "pieces")}
    for i, body in enumerate(bodies):
        shape = body.shape
        assert shape is not None
        moments, axes = np.linalg.eigh(shape.inertia)
        axes = axes * np.sign(np.linalg.det(axes))
        turn = rotations.from_matrix(torch.from_numpy(axes)).numpy()
        out["position"].append(State(body.z0).p.double().numpy() + shape.center)
        out["turn"].append(np.roll(turn, -1))
        out["inertia"].append(moments)
        out["rolling"].append((body.rolling or 0.0) * shape.size)
        out["pieces"].append(len(shape.pieces))
        for j, piece in enumerate(shape.pieces):
            corners = (piece - shape.center) @ axes
            out[f"corners {i} {j}"], out[f"faces {i} {j}"] = corners, faces_of(corners)
    return {**out, "rate": LOOKED_AT, "restitution": float(State(bodies[0].z0).e)}


def faces_of(corners: np.ndarray) -> np.ndarray:
    """Triangles ``(F, 3)`` of a hull, seen anticlockwise from outside."""
    hull = ConvexHull(corners)
    faces = hull.simplices.astype(np.int32)
    a, b, c = corners[faces].swapaxes(0, 1)
    inward = (np.cross(b - a, c - a) * hull.equations[:, :3]).sum(-1) < 0
    faces[inward] = faces[inward][:, ::-1]
    return faces


def taken_back(bodies: Sequence[Body], given: dict[str, Any], poses: np.ndarray) -> np.ndarray:
    """A peer's poses ``(T, K, 7)`` as those of our states: ``(p, q)``, the scalar first."""
    out = []
    for i, body in enumerate(bodies):
        assert body.shape is not None
        now = torch.from_numpy(np.roll(poses[:, i, 3:].astype(float), 1, -1))
        then = torch.from_numpy(np.roll(given["turn"][i], 1))
        turn = rotations.multiply(now, rotations.conjugate(then).expand_as(now))
        arm = rotations.rotate(turn, torch.from_numpy(body.shape.center).expand(len(turn), 3))
        q = rotations.multiply(turn, State(body.z0).q.double().expand_as(turn))
        out.append(np.concatenate([poses[:, i, :3] - arm.numpy(), q.numpy()], -1))
    return np.stack(out, 1)


def interpreter_of(peer: Peer, pythons: Sequence[Path]) -> Path:
    """The first interpreter that has the peer."""
    found = f"import importlib.util as i, sys; sys.exit(i.find_spec({peer.module!r}) is None)"
    for python in pythons:
        if subprocess.run([python, "-c", found], check=False).returncode == 0:
            return python
    raise NotHereError("not installed")


class Followed(NamedTuple):
    """What a peer did with a pile."""

    start: np.ndarray
    """Seconds of import and of building ``(2,)``."""
    steps: np.ndarray
    """Seconds of each 1/60 s."""
    poses: np.ndarray
    """``(T, K, 7)``, of our states."""


def elsewhere(peer: Peer, python: Path, bodies: Sequence[Body]) -> Followed:
    """One run of one pile."""
    given = handed_over(bodies)
    code = "\n".join([
        "from __future__ import annotations", "import sys",
        inspect.getsource(peer.worker), inspect.getsource(work_elsewhere),
        f"work_elsewhere({peer.worker.__name__}, *sys.argv[1:])",
    ])  # fmt: skip
    rest = {"steps": peer.steps, "frames": SECONDS * LOOKED_AT, "options": peer.options}
    with tempfile.TemporaryDirectory() as name:
        source, out = Path(name) / "pile.npz", Path(name) / "path.npz"
        np.savez(source, **given)
        done = subprocess.run(
            [python, "-c", code, source, out, json.dumps(rest)], capture_output=True, text=True
        )
        if done.returncode:
            raise NotHereError((done.stderr.strip().splitlines() or ["failed"])[-1])
        with np.load(out) as file:
            return Followed(file["start"], _sixtieths(file["stepping"]), taken_back(
                bodies, given, file["poses"]
            ))  # fmt: skip


def _sixtieths(seconds: Any) -> np.ndarray:
    """Sums over the frames of 1/60 s."""
    return np.asarray(seconds).reshape(-1, LOOKED_AT // 60).sum(1)


def plain_mujoco(bodies: Sequence[Body], steps: int) -> Followed:
    """MuJoCo with its own contacts and cone, without sleep."""
    begin = time.perf_counter()
    engine = engine_of(Simulation(bodies))
    start = np.array([0.0, time.perf_counter() - begin])
    model, data = engine.model, engine.data
    model.opt.timestep = 1 / steps
    model.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    model.geom_solref[:], model.geom_solimp[:] = (0.02, 1), (0.9, 0.95, 0.001, 0.5, 2)
    model.geom_condim[:] = 3
    spent, poses = [], []
    for _ in range(SECONDS * LOOKED_AT):
        begin = time.perf_counter()
        mujoco.mj_step(model, data, steps // LOOKED_AT)
        spent.append(time.perf_counter() - begin)
        poses.append(data.qpos.reshape(-1, 7).copy())
    return Followed(start, _sixtieths(spent), np.array(poses))


def ours(bodies: Sequence[Body]) -> Followed:
    """By :class:`Simulation`."""
    run = played(bodies)
    return Followed(np.array([0.0, run.start]), run.steps, our_path(bodies))


def kept(follow: Callable[[Sequence[Body]], Followed]) -> float:
    """Part of its speed that a round hull keeps, dropped from one unit; asked for is BOUNCE."""
    shape = Shape.hull(0.25 * directions(300).numpy())
    low = float(shape.bounds[0][1])
    state = make_state(p=(0, 1 - low, 0), s=(0.25, 0.25, 0.25), e=BOUNCE)
    y = follow([Body(state.double(), shape)]).poses[:, 0, 1] + low
    first = int(np.argmax(np.diff(y) > 0))
    return float(np.sqrt(max(y[first:].max(), 0.0)))


def peer_table(some: Sequence[Thing], pythons: Sequence[Path]) -> Table:
    """Ours, MuJoCo by itself, and the peers, on the same piles."""
    shown = table(
        f"peers on the same {PILES} piles, restitution {RESTITUTION:g}, {SECONDS} s simulated",
        "what", "import, s", "start, s", "stepping, s", "times ours", "into plane, mm",
        "into others, mm", "speed, median / most", f"bounce of {BOUNCE:g}",
    )  # fmt: skip
    piles = [pile(some, seed, RESTITUTION) for seed in range(PILES)]
    first = 0.0

    def row(name: str, follow: Callable[[Sequence[Body]], Followed]) -> None:
        nonlocal first
        starts, sums, judged = [], [], []
        for bodies in piles:
            runs = [follow(bodies)]
            while len(runs) < RUNS and runs[0].steps.sum() < PATIENCE and follow is not ours:
                runs.append(follow(bodies))
            starts += [run.start for run in runs]
            sums.append(np.min([run.steps for run in runs], 0).sum())
            judged.append(judge(bodies, runs[0].poses))
        (loading, building), s = np.min(starts, 0), float(np.mean(sums))
        first = first or s
        shown.add_row(
            name, f"{loading:.2f}" if loading else "", f"{building:.2f}", f"{s:.2f}",
            f"{s / first:.2f}", *_behaviour(judged), f"{kept(follow):.2f}",
        )  # fmt: skip

    row(f"ours, 1/{TICKS} s", ours)
    row("MuJoCo's own contacts, 1/480 s", partial(plain_mujoco, steps=480))
    for peer in PEERS:
        try:
            row(peer.name, partial(elsewhere, peer, interpreter_of(peer, pythons)))
        except NotHereError as error:
            shown.add_row(peer.name, str(error))
    return shown


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--captures", type=Path)
    parser.add_argument("--peer-python", type=Path, nargs="+", default=[])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    console = Console(width=160)
    some = things(args.captures)
    played(pile(some, 0, RESTITUTION))  # compiled code is read from disk
    if "piles" in args.parts:
        pile_tables(some, console)
    if "ground" in args.parts:
        ground_tables(robot(args.captures, some) if args.captures else bowling(), console)
    if "peers" in args.parts:
        console.print(peer_table(some, args.peer_python))


if __name__ == "__main__":
    main()

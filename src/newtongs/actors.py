"""The objects of a stage as bodies: Z_0 with its push, shape, named motion."""

import math
from collections.abc import Sequence
from dataclasses import replace as changed

import numpy as np
import torch

from . import motions, rotations
from .dynamics.floor import support_radius
from .dynamics.surfaces import Box, Plane
from .dynamics.variants import rigid_state
from .errors import InputError
from .pushes import RESTITUTION, Physics, Push, Vector, three_numbers
from .scene.animation import ObjectAbout
from .scene.find.clusters import without_floaters
from .scene.gaussians import GaussianScene
from .scene.lifting import lift
from .scene.placing import extent, moved
from .scene.world_frame import WorldFrame
from .stage import Stage, Told, seen_later
from .state import State, replace
from .types import StateTensor, Times, Vec3
from .world.bodies import Body, Track
from .world.shapes import Shape

TOSS: tuple[Vector, Vector] = ((1.0, 3.2, 0.0), (0.0, 0.5, -3.0))  # velocity, spin: off a floor
DROP: tuple[Vector, Vector] = ((0.4, 0.0, 0.0), (0.3, 0.5, -1.5))  # of an object in the air
AIR = 0.1  # part of its height that an object must be above the floor to be dropped, not tossed
DEEP = 0.1  # of its size: how far an object may start inside what was given as solid
RATE = 24.0  # Hz, of the named motions
LIGHTEST = 2e-3  # mass of a loose object: the air would throw a lighter one about


def _lifted(thing: GaussianScene, world: WorldFrame) -> StateTensor:
    return world.state_to_physics(lift(thing))


def initial_state(stage: Stage, index: int, push: Push) -> StateTensor:
    """``Z_0`` of an object in the physics frame ``(22,)``, with the push in it."""
    thing = stage.scene.object(index)
    low, high = extent(thing, stage.world.up)
    in_the_air = low - stage.world.floor > AIR * (high - low)
    velocity, spin = DROP if in_the_air else TOSS
    if push.velocity is not None or push.spin is not None:
        velocity = three_numbers("velocity", push.velocity or (0.0, 0.0, 0.0))
        spin = three_numbers("spin", push.spin or (0.0, 0.0, 0.0))
    z0 = _lifted(thing, stage.world)
    # The state's angular velocity is in the object's own axes.
    w = rotations.rotate(rotations.conjugate(State(z0).q), torch.tensor(spin, dtype=z0.dtype))
    e = RESTITUTION if push.restitution is None else push.restitution
    return replace(z0, v=velocity, w=w, m=push.mass, e=e, mu=push.attenuation)


def make_bodies(
    stage: Stage,
    pushes: Sequence[Push],
    physics: Physics,
    seconds: float,
    told: Told | None,
    shapes: Sequence[Shape | None] = (),
) -> list[Body]:
    """All objects, the pushed ones first; shapes where the world needs them.

    ``shapes`` are those that are known from an earlier call, for each object one or None: a push
    changes none.
    """
    bodies: list[Body] = []
    for i in stage.indices:
        known = shapes[i] if i < len(shapes) else None
        if told is not None and physics.contact == "world" and known is None:
            told("shapes", i + 1, len(stage.indices))
        push = pushes[i] if i < stage.count else None
        z0 = initial_state(stage, i, push or Push(velocity=(0.0, 0.0, 0.0)))
        z0 = rigid_state(z0) if physics.scale == "rigid" else z0
        world = physics.contact == "world"
        shape = known or (shape_of(stage, i, z0) if world else None)
        if push is None:
            bodies.append(_loose_body(z0, shape, bodies[0]))
            continue
        motion = push.motion
        track = named_track(motion, z0, seconds, physics.seed) if motion else None
        if physics.predicted and track is None:
            track = predicted_track(z0, seconds)
        bodies.append(Body(z0, shape, friction=push.friction, track=track))
    return bodies


def _loose_body(z0: StateTensor, shape: Shape | None, first: Body) -> Body:
    """An object that waits to be hit.

    It bounces and slides as the first that is pushed, and weighs as much as that one would at its
    volume if its mass were one: so a mass above one makes the pushed object the heavier.
    """
    assert shape is not None
    assert first.shape is not None
    x = State(first.z0)
    mass = max(shape.volume / first.shape.volume, LIGHTEST)
    state = replace(z0, m=mass, e=x.e, mu=x.mu)
    return Body(state, shape, friction=first.friction, asleep=True)


def shape_of(stage: Stage, index: int, z0: StateTensor) -> Shape:
    """The convex pieces of an object, in the physics frame."""
    thing = stage.scene.object(index)
    if len(thing) > 50:
        kept = without_floaters(thing)
        thing = thing[kept] if kept.any() else thing
    return Shape.of_gaussians(thing, stage.world, State(z0).p.double().numpy())


def refuse_inside(index: int, body: Body, planes: Sequence[Plane], boxes: Sequence[Box]) -> None:
    """An object that starts deep inside a plane or a box would be thrown out of it."""
    if body.shape is None:
        return
    p = State(body.z0).p.double().numpy()
    for plane in planes:
        inward = -np.array(plane.normal)
        depth = plane.offset + float(inward @ p) + body.shape.reach(inward)
        _refuse_deep(index, depth, body.shape.size, "plane", (*plane.normal, plane.offset))
    for box in boxes:
        low, high = (p + corner for corner in body.shape.bounds)
        past = np.minimum(high, box.high) - np.maximum(low, box.low)
        _refuse_deep(index, float(past.min()), body.shape.size, "box", (*box.low, *box.high))


def _refuse_deep(
    index: int, depth: float, size: float, kind: str, numbers: Sequence[float]
) -> None:
    if depth > DEEP * size:
        words = " ".join(f"{n:.3g}" for n in numbers)
        raise InputError(
            f"object {index} starts {depth:.2g} units inside the {kind} {words}; move the {kind}, "
            "or start the object elsewhere"
        )


def _motion(name: str, size: float, seconds: float, seed: int) -> StateTensor:
    """States ``(T, 22)`` of a named motion at 24 Hz, for an object of mean scale ``size``."""
    frames = max(math.ceil(seconds * RATE) + 1, 4)
    z = motions.generate(name, 1, seed=seed, frames=frames).states[0].double()
    factor = size / State(z).s[0].mean()
    x = State(z)
    return replace(z, p=factor * x.p, v=factor * x.v, s=factor * x.s, u=factor * x.u)


def _clearance(name: str, size: float, seed: int) -> float:
    """How far above the floor a motion begins."""
    z = _motion(name, size, 0.2, seed)[0]
    return max(float(State(z).p[1] - support_radius(z)), 0.0)


def named_track(name: str, z0: StateTensor, seconds: float, seed: int) -> Track:
    """A motion of State-32 that begins at the object's pose and with its size."""
    start = State(z0.double())
    z = _motion(name, start.s.mean().item(), seconds, seed)
    x = State(z)
    turn = rotations.multiply(x.q, rotations.conjugate(x.q[:1]).expand_as(x.q))
    states = replace(
        z,
        p=start.p + x.p - x.p[0],
        q=rotations.multiply(turn, start.q.expand_as(turn)),
        s=start.s * x.s / x.s[0],
        u=start.s * x.u / x.s[0],
        m=start.m, e=start.e, mu=start.mu,
    )  # fmt: skip
    return Track(torch.arange(len(z), dtype=torch.float64) / RATE, states)


def predicted_track(z0: StateTensor, seconds: float) -> Track:
    """What ContextNND makes of an object's first state, over the floor at zero."""
    from .dynamics.context import load_pretrained_context
    from .dynamics.context.fitting import predict

    frames = max(math.ceil(seconds * RATE) + 1, 2)
    times = torch.arange(frames, dtype=torch.float64) / RATE
    return Track(times, predict(load_pretrained_context(), z0.double(), times))


def predicted_paths(z0: StateTensor, times: Times) -> StateTensor:
    """The same at some times ``(N, T, 22)``, of an object that starts in many ways ``(N, 22)``."""
    from .dynamics.context import load_pretrained_context
    from .dynamics.context.fitting import predict_many

    return predict_many(load_pretrained_context(), z0, times)


def raise_for_motions(stage: Stage, pushes: Sequence[Push], seed: int) -> Stage:
    """Objects that follow a motion which begins in the air, at that height above the floor.

    Then frame 0 is not the capture, and shows what is seen later.
    """
    start, stage = stage, seen_later(stage) if any(p.motion for p in pushes) else stage
    scene, raised = stage.scene, False
    for i, push in enumerate(pushes):
        if push.motion is None:
            continue
        thing = scene.object(i)
        low, _ = extent(thing, stage.world.up)
        wanted = _clearance(push.motion, State(_lifted(thing, stage.world)).s.mean().item(), seed)
        rise = wanted / stage.world.scale - (low - stage.world.floor)
        if rise > 0:
            rows = scene.ids == i
            up = moved(scene[rows], shift=(rise * stage.world.up).float())
            means = scene.means.clone()
            means[rows] = up.means
            scene, raised = scene.replace(means=means), True
    return changed(stage, scene=scene) if raised else start


def about_objects(
    stage: Stage, pushes: Sequence[Push], bodies: Sequence[Body]
) -> list[ObjectAbout]:
    """What is known of each object."""
    out = []
    for i, (name, body) in enumerate(zip(stage.names, bodies, strict=True)):
        x, loose = State(body.z0), i >= stage.count
        velocity, spin = spoken(body.z0)
        out.append(
            ObjectAbout(
                i, name, velocity, spin, float(x.m), float(x.e), body.friction, float(x.mu),
                None if loose else pushes[i].motion, loose,
                0 if body.shape is None else len(body.shape.pieces),
            )
        )  # fmt: skip
    return out


def spoken(z0: StateTensor) -> tuple[Vector, Vector]:
    """Velocity and spin of an initial state ``(22,)``, about the axes a person gives them in."""
    x = State(z0)
    return _three(x.v), _three(rotations.rotate(x.q, x.w))


def _three(x: Vec3) -> Vector:
    a, b, c = x.tolist()
    return a, b, c

"""Turn the objects of a layout into bodies: Z_0 with velocities, shape and track."""

import math
from collections.abc import Sequence
from dataclasses import replace as changed

import numpy as np
import torch

from ..base import rotations
from ..base.errors import InputError
from ..base.state import State, replace
from ..base.types import Progress, StateTensor
from ..dynamics.surfaces import Box, Plane
from ..dynamics.variants import rigid_state
from ..physics.bodies import Body
from ..physics.shapes import Shape
from ..scene.lifting import lift
from ..scene.similarity import VISIBLE, extent, moved
from ..segment.drop_site import UNDER, is_carried
from ..segment.objects.clusters import without_floaters
from .pick import Layout, seen_later
from .place import TYPICAL_SCALE
from .spec import RESTITUTION, ObjectSpec, SceneSpec, UnitOrigin, Vector, three_numbers
from .track import clearance, named_track, predicted_track

TOSS: tuple[Vector, Vector] = ((1.0, 3.2, 0.0), (0.0, 0.5, -3.0))  # velocity, spin
DROP: tuple[Vector, Vector] = ((0.4, 0.0, 0.0), (0.3, 0.5, -1.5))  # for an object in the air
DEEP = 0.1  # fraction of its size by which an object may start inside a given plane or box
LIGHTEST = 2e-3  # mass of a loose object; air drag would throw a lighter one about


def initial_state(
    layout: Layout, index: int, one: ObjectSpec | None, *, toss: bool = True
) -> StateTensor:
    """``Z_0`` of an object in the physics frame ``(22,)``; at rest if ``one`` is None.

    Without a velocity it is tossed from what it stands on, or dropped if nothing is under it or if
    it is not to ``toss``.
    """
    one = one or ObjectSpec(velocity=(0.0, 0.0, 0.0))
    gaussians = layout.scene.plain.object(index)
    low, high = extent(gaussians, layout.frame.up)
    stands = low - layout.frame.floor <= UNDER * (high - low)
    if not stands and one.velocity is None and one.spin is None:
        others = layout.static & (layout.scene.opacities >= VISIBLE)
        stands = is_carried(gaussians, layout.scene.means[others], layout.frame)
    z0 = layout.frame.state_to_physics(lift(gaussians))
    velocity, spin = _alike(TOSS if toss and stands else DROP, layout, z0)
    if one.velocity is not None or one.spin is not None:
        velocity = three_numbers("velocity", one.velocity or (0.0, 0.0, 0.0))
        spin = three_numbers("spin", one.spin or (0.0, 0.0, 0.0))
    # The state holds the angular velocity in body axes.
    w = rotations.rotate(rotations.conjugate(State(z0).q), torch.tensor(spin, dtype=z0.dtype))
    e = RESTITUTION if one.restitution is None else one.restitution
    return replace(z0, v=velocity, w=w, m=one.mass, e=e, mu=one.attenuation)


def _alike(push: tuple[Vector, Vector], layout: Layout, z0: StateTensor) -> tuple[Vector, Vector]:
    """A push for half a metre, so that it looks alike on an object of another size.

    The main object has that size unless a room or the user sets the unit; others do not: a can is
    12 cm high. Under the same gravity a motion looks alike if lengths grow with the size, and times
    with its square root.
    """
    main = layout.unit_origin is UnitOrigin.OBJECT and layout.reference is None
    if main or layout.unit_origin is UnitOrigin.SCENE:
        return push
    times = math.sqrt(State(z0).s.mean().item() / TYPICAL_SCALE)
    (vx, vy, vz), (wx, wy, wz) = push
    return (vx * times, vy * times, vz * times), (wx / times, wy / times, wz / times)


def make_bodies(
    layout: Layout,
    spec: SceneSpec,
    shapes: Sequence[Shape | None] = (),
    progress: Progress | None = None,
) -> tuple[Body, ...]:
    """Make bodies of all objects, the pushed ones first; shapes only for contact "world".

    ``shapes`` holds the shape of each object from an earlier call, or None. A push changes no
    shape.
    """
    bodies: list[Body] = []
    physics, world = spec.physics, spec.physics.contact == "world"
    for i in layout.indices:
        known = shapes[i] if i < len(shapes) else None
        if len(spec.objects) <= i < layout.pushed:  # a copy
            known = bodies[i % len(spec.objects)].shape
        if progress is not None and world and known is None:
            progress("shapes", i + 1, len(layout.indices))
        one = spec.spec_of(i) if i < layout.pushed else None
        z0 = initial_state(layout, i, one, toss=spec.copies == 1)  # not against what falls
        z0 = rigid_state(z0) if physics.scale == "rigid" else z0
        shape = (known or shape_of(layout, i, z0)) if world else None
        if one is None:
            bodies.append(_loose_body(z0, shape, bodies[0]))
            continue
        track = named_track(one.motion, z0, spec.seconds, physics.seed) if one.motion else None
        if physics.predicted and track is None:
            track = predicted_track(z0, spec.seconds)
        bodies.append(Body(z0, shape, friction=one.friction, track=track))
    return tuple(bodies)


def fit_together(bodies: Sequence[Body]) -> tuple[Body, ...]:
    """The bodies, with shapes that do not overlap; see :mod:`newtongs.physics.fitting`."""
    if sum(body.shape is not None for body in bodies) < 2:
        return tuple(bodies)
    from ..physics.fitting import fitted  # imports MuJoCo

    return fitted(bodies)


def _loose_body(z0: StateTensor, shape: Shape | None, first: Body) -> Body:
    """Make an object that sleeps until it is hit.

    Restitution and friction are those of the first pushed object. Its mass follows from its volume,
    at the density the first pushed object would have with mass 1; so a pushed object with a mass
    above 1 is denser than the loose ones.
    """
    assert shape is not None
    assert first.shape is not None
    x = State(first.z0)
    mass = max(shape.volume / first.shape.volume, LIGHTEST)
    state = replace(z0, m=mass, e=x.e, mu=x.mu)
    return Body(state, shape, friction=first.friction, asleep=True)


def shape_of(layout: Layout, index: int, z0: StateTensor) -> Shape:
    """Decompose an object into convex pieces, in the physics frame."""
    gaussians = layout.scene.plain.object(index)
    if len(gaussians) > 50:
        kept = without_floaters(gaussians)
        gaussians = gaussians[kept] if kept.any() else gaussians
    return Shape.of_gaussians(gaussians, layout.frame, State(z0).p.double().numpy())


def refuse_inside(index: int, body: Body, planes: Sequence[Plane], boxes: Sequence[Box]) -> None:
    """Refuse an object that starts deep inside a plane or a box: the contact would eject it."""
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
        values = " ".join(f"{n:.3g}" for n in numbers)
        raise InputError(
            f"object {index} starts {depth:.2g} units inside the {kind} {values}; move the {kind}, "
            "or start the object elsewhere"
        )


def raise_for_motions(layout: Layout, objects: Sequence[ObjectSpec], seed: int) -> Layout:
    """Raise objects that follow a named motion which begins above the floor to that height.

    If any object is raised, frame 0 differs from the capture and shows the repaired scene.
    """
    start, layout = layout, seen_later(layout) if any(o.motion for o in objects) else layout
    scene, raised = layout.scene, False
    for i, one in enumerate(objects):
        if one.motion is None:
            continue
        gaussians = scene.object(i)
        low, _ = extent(gaussians, layout.frame.up)
        size = State(layout.frame.state_to_physics(lift(gaussians))).s.mean().item()
        wanted = clearance(one.motion, size, seed)
        rise = wanted / layout.frame.scale - (low - layout.frame.floor)
        if rise > 0:
            rows = scene.ids == i
            up = moved(scene[rows], shift=(rise * layout.frame.up).float())
            means = scene.means.clone()
            means[rows] = up.means
            scene, raised = scene.replace(means=means), True
    return changed(layout, scene=scene) if raised else start

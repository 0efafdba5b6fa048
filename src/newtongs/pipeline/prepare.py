"""Prepare a scene for simulation: the one place where the pipeline is assembled.

:func:`prepare` turns a source and a :class:`~.spec.SceneSpec` into a :class:`Setup`.
:func:`newtongs.animate`, the studio, the factory and the collider all use it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from .. import __version__
from ..base import rotations
from ..base.errors import InputError
from ..base.process import give_back_freed
from ..base.state import State
from ..base.types import Progress, StateTensor, Times, Vec3
from ..physics.bodies import Body
from ..physics.colliders import Collider
from ..physics.shapes import Shape
from ..physics.simulation import EngineName, Simulation
from ..scene.animation import About, Animation, ObjectAbout, continuous
from ..scene.gaussians import GaussianScene
from ..scene.shadows import ShadowName
from ..scene.transform import Form
from ..scene.world_frame import WorldFrame
from ..segment.cutout.cache import Memory
from ..segment.floor.finding import FloorPlane
from .bodies import fit_together, make_bodies, raise_for_motions, refuse_inside
from .copies import with_copies
from .pick import Layout, lifted_scale, main_object, measured, pick, restored
from .place import TYPICAL_SCALE, set_into_place, settle, unit_doubt
from .source import Source, floor_of, open_source
from .spec import FloorOrigin, ObjectSpec, Physics, SceneSpec, UnitOrigin, Vector
from .surroundings import Fixed, make_surroundings, solid_rest, static_rest
from .visible import presence_of, with_visible_floors

AT_REST = 0.01  # movement, relative to scale and in quaternion units, below which nothing moved
SETTLED = 0.1  # the same, below which an object has not left its place


@dataclass(frozen=True, eq=False)
class Setup:
    """A scene prepared for simulation: bodies with shapes, in static surroundings.

    ``layout`` holds the Gaussians and the physics frame, ``fixed`` everything static.
    """

    source: Source
    spec: SceneSpec
    settled: Layout
    """The layout before objects are raised to where their named motions begin."""
    layout: Layout
    bodies: tuple[Body, ...]
    """The pushed objects first, then the loose ones."""
    fixed: Fixed
    whole_shapes: tuple[Shape | None, ...]
    """The shapes before they were fitted together."""

    @property
    def frame(self) -> WorldFrame:
        """From scene coordinates to the physics frame."""
        return self.layout.frame

    def with_objects(
        self, objects: Iterable[ObjectSpec], *, physics: Physics | None = None,
        seconds: float | None = None, progress: Progress | None = None,
    ) -> "Setup":  # fmt: skip
        """Change velocities, materials or motions of the objects; shapes are kept."""
        spec = changed(
            self.spec, objects=tuple(objects), physics=physics or self.spec.physics,
            seconds=self.spec.seconds if seconds is None else seconds,
        )  # fmt: skip
        if len(spec.objects) != len(self.spec.objects):
            raise InputError(
                f"objects: expected {len(self.spec.objects)}, as in the setup, got "
                f"{len(spec.objects)}; prepare the scene again"
            )
        layout = self.layout
        if spec.starts != self.spec.starts:
            layout = raise_for_motions(self.settled, spec.objects, spec.physics.seed)
        shapes = [body.shape for body in self.bodies]
        bodies = make_bodies(layout, spec, shapes, progress)
        return changed(self, spec=spec, layout=layout, bodies=bodies)

    def simulation(self, *, record: bool = False) -> Simulation:
        """A simulation at time zero; ``record`` logs contacts."""
        physics = self.spec.physics
        engine: EngineName = "paper" if physics.contact == "paper" else "mujoco"
        return Simulation(
            self.bodies, physics.model, self.fixed.surroundings, engine=engine, record=record
        )

    def simulate(self, times: Times, progress: Progress | None = None) -> StateTensor:
        """States ``(T, K, 22)`` of all objects in the physics frame."""
        report = None if progress is None else lambda done, of: progress("simulate", done, of)
        return self.simulation().run(times, progress=report)

    def solid_boxes(self, cell: float | None = None) -> Collider:
        """The static scene as boxes, cleared around the objects; ``cell`` in physics units."""
        if cell is None and self.fixed.solid is not None:
            return self.fixed.solid
        return solid_rest(self.layout, self.rest, self.bodies, cell=cell)

    @cached_property
    def rest(self) -> GaussianScene:
        """The Gaussians that do not move, from frame 1 on, without view-dependent colour."""
        return static_rest(self.layout)

    def about(self) -> About:
        """How the setup was made, in plain values."""
        layout, physics = self.layout, self.spec.physics
        doubt = layout.floor.doubt
        return About(
            version=__version__, source=self.source.name, ghosts_removed=layout.ghosts,
            objects=tuple(map(self._about_object, layout.indices)),
            up=tuple(layout.frame.up.tolist()), floor=layout.frame.floor,
            floor_is=layout.floor_origin.value, floor_found=layout.floor.description,
            floor_doubt="" if doubt is None else str(doubt), lower_floor=self.fixed.lower,
            scale=layout.frame.scale, unit_is=layout.unit_origin.value,
            unit_doubt=self._unit_doubt(),
            dynamics=physics.name, scale_is=physics.scale,
            contact=physics.contact, seed=physics.seed,
            gravity=getattr(physics.model, "gravity", physics.gravity),
            solid_boxes=0 if self.fixed.solid is None else len(self.fixed.solid.boxes),
            planes=tuple((*p.normal, p.offset) for p in self.spec.planes),
            boxes=tuple((*b.low, *b.high) for b in self.spec.boxes),
        )  # fmt: skip

    def _about_object(self, index: int) -> ObjectAbout:
        body, loose = self.bodies[index], index >= self.layout.pushed
        x, (velocity, spin) = State(body.z0), world_rates(body.z0)
        one, asked = index % len(self.spec.objects), len(self.spec.objects)
        return ObjectAbout(
            index, self.layout.names[index], velocity, spin, float(x.m), float(x.e),
            body.friction, float(x.mu), None if loose else self.spec.objects[one].motion, loose,
            0 if body.shape is None else len(body.shape.pieces),
            None if loose or index < asked else one,
        )  # fmt: skip

    def _unit_doubt(self) -> str:
        if self.layout.unit_origin is not UnitOrigin.OBJECT:
            return ""
        return unit_doubt(self.layout.width, self.layout.frame.scale)

    def animation(
        self, times: Times, states: StateTensor, *, about: About | None = None,
        show_floor: bool = True, shadow: bool = True,
    ) -> Animation:  # fmt: skip
        """Combine states ``(T, K, 22)`` of the physics frame with the scene's Gaussians.

        The repair under an object that never moves is not shown.
        """
        paths = list(self.frame.state_to_scene(states.transpose(0, 1).double()))
        literal = self.spec.physics.literal  # the paper draws only the scene itself
        still = [i for i, z in enumerate(paths) if not _moves(z)]
        layout = restored(self.layout, still)
        shown = layout.scene
        if show_floor and not literal:
            shown = with_visible_floors(layout, self.bodies, self.fixed, paths, self.spec)
        form: Form = "impl" if literal else "main"
        return Animation(
            shown, times, dict(enumerate(paths)), layout.frame, about or self.about(), form=form,
            shadow=_shadow(layout) if shadow and not literal else "none",
            presence=presence_of(layout, len(shown)),
        )  # fmt: skip


def prepare(
    source: GaussianScene | Source | Path | str,
    spec: SceneSpec,
    *,
    floor: FloorPlane | None = None,
    reuse: Setup | None = None,
    memory: Memory | None = None,
    progress: Progress | None = None,
) -> Setup:
    """Find the floor, extract the objects, place them, and build shapes and surroundings.

    Args:
        source: the Gaussians, a splat file, or the name of a built-in scene.
        spec: what to prepare.
        floor: floor of the source, if already found.
        reuse: an earlier setup of the same source. If only velocities, materials or the model
            differ, its objects, shapes and solid scene are reused; otherwise only the shapes of
            unchanged objects.
        memory: cache of objects extracted from the source.
        progress: called with (what, done, total) during longer work.
    """
    source = open_source(source)
    if reuse is not None and reuse.source.scene is not source.scene:
        reuse = None
    if reuse is not None and reuse.spec.lasting == spec.lasting:
        return reuse.with_objects(
            spec.objects, physics=spec.physics, seconds=spec.seconds, progress=progress
        )
    floor = floor or floor_of(source, spec.up, spec.floor_height)
    layout = pick(source, spec, floor, memory)
    give_back_freed()  # of a large scene, each step needs as much as is left
    if spec.place is not None:
        layout = set_into_place(layout, spec.place, spec.meters_per_unit)
    settled = with_copies(settle(layout, spec), spec.copies)
    layout = raise_for_motions(settled, spec.objects, spec.physics.seed)
    shapes = [] if reuse is None else [_same_shape(reuse, layout, i) for i in layout.indices]
    whole = make_bodies(layout, spec, shapes, progress)
    bodies = fit_together(whole)
    for i, body in enumerate(bodies):
        refuse_inside(i, body, spec.planes, spec.boxes)
    give_back_freed()
    fixed = make_surroundings(layout, bodies, spec)
    return Setup(source, spec, settled, layout, bodies, fixed, tuple(b.shape for b in whole))


def main_frame(
    source: Source, spec: SceneSpec, floor: FloorPlane, memory: Memory | None = None
) -> WorldFrame:
    """The physics frame that :func:`prepare` makes when no object is named.

    If the floor cuts the main object, the frame still follows from its size. Without any object, a
    scene unit is a physics unit.
    """
    try:
        return settle(pick(source, spec, floor, memory, plain=True), spec).frame
    except InputError:
        scale, main = measured(source, spec, floor)[0], main_object(source.scene, floor.carrying)
        if scale is None and main is not None:
            scale = TYPICAL_SCALE / lifted_scale(source.scene.plain[main.mask])
        return WorldFrame.of_floor(floor.up, floor.height, scale=scale or 1.0)


def _same_shape(before: Setup, layout: Layout, index: int) -> Shape | None:
    """The shape an object had before, if neither the object nor the frame has changed."""
    if index >= len(before.bodies):
        return None
    was, now = before.frame, layout.frame
    frame = was.scale == now.scale and was.floor == now.floor and torch.equal(was.up, now.up)
    old, new = before.layout.scene.plain.object(index), layout.scene.plain.object(index)
    same = frame and all(
        torch.equal(getattr(old, name), getattr(new, name))
        for name in ("means", "quats", "log_scales", "logits")
    )
    return before.whole_shapes[index] if same else None


def world_rates(z0: StateTensor) -> tuple[Vector, Vector]:
    """Velocity and spin of a state ``(22,)`` along the axes of the physics frame, as users give it.

    The state itself holds the spin in body axes.
    """
    x = State(z0)
    return _three(x.v), _three(rotations.rotate(x.q, x.w))


def _three(x: Vec3) -> Vector:
    a, b, c = x.tolist()
    return a, b, c


def moving(z: StateTensor, frames: int) -> Tensor:
    """Whether an object with states ``(T, 22)`` moves in the ``frames`` after each one ``(T,)``."""
    pose, out = _pose(z), torch.zeros(len(z), dtype=torch.bool)
    for k in range(1, min(frames + 1, len(z))):
        out[:-k] |= ((pose[k:] - pose[:-k]).abs() > AT_REST).any(-1)
    return out


def _moves(z: StateTensor) -> bool:
    """Whether an object with states ``(T, 22)`` ever leaves its place, rather than settle there."""
    pose = _pose(z)
    return bool(((pose - pose[0]).abs() > SETTLED).any())


def _pose(z: StateTensor) -> Tensor:
    """Position and size over the size at the start, and rotation ``(T, 10)``."""
    x = State(z)
    return torch.cat([torch.cat([x.p, x.s], -1) / x.s[0].mean(), continuous(x.q)], -1)


def _shadow(layout: Layout) -> ShadowName:
    """Which shadows to draw: all, if the Gaussians contain none yet, else only new ones."""
    bare = layout.floor_origin is FloorOrigin.KNOWN or layout.moved or layout.alone
    return "all" if bare else "new"

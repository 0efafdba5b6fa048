"""The scene in the browser: splat nodes, and the initial camera."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base.state import State
from ..base.types import StateTensor, Vec3
from ..samples import backdrop
from ..scene.gaussians import GaussianScene
from ..scene.world_frame import WorldFrame
from .blocks import Rest
from .nodes import (
    Pose,
    Splats,
    add_splats,
    move,
    moving_pose,
    moving_poses,
    parts,
    place,
    resize,
    show,
    splats,
    still_pose,
)
from .session import Session

START = (0.9, 0.55, 1.7)  # initial camera position along x, y, z, in units of the distance
FIELD = 0.9  # vertical field of view, radians
NEAREST = 2.2  # smallest initial distance, physics units


class Still(NamedTuple):
    """A static node."""

    means: Vec3
    origin: Vec3
    unit: float
    node: Any


class Moving(NamedTuple):
    """The nodes of an object: plain, tinted, and the Gaussians visible from frame 1 on.

    They are children of one frame; while the object keeps its size, only that frame's pose is sent.
    """

    means: Vec3
    """Means of all its Gaussians, scene coordinates; they identify the object."""
    start: StateTensor
    """Its first state, physics frame."""
    in_scene: StateTensor
    """Its first state, scene coordinates."""
    unit: float
    frame: Any
    plain: Any
    tinted: Any
    later: Any | None

    @property
    def nodes(self) -> list[Any]:
        """All splat nodes."""
        return [node for node in (self.plain, self.tinted, self.later) if node is not None]


class View:
    """Draws a session into a viser server; everything lies in the physics frame."""

    def __init__(self, server: Any) -> None:
        self.api, self.server = server.scene, server
        self.rest: Rest | None = None
        self.still: dict[str, Still] = {}
        self.objects: list[Moving] = []
        self.world = WorldFrame.identity()
        self.api.set_up_direction("+y")

    def show(self, session: Session) -> None:
        """Show the scene and its objects; only changes are sent."""
        with self.server.atomic():
            self.world = session.world
            self._show_rest(session)
            if session.recipe.pushes:
                self._show_layout(session)
            else:
                self._show_capture()
            color = np.array(backdrop(session.recipe.scene)) * 255
        self.api.set_background_image(np.full((1, 1, 3), color, dtype=np.uint8), format="png")

    def _show_rest(self, session: Session) -> None:
        if self.rest is None or self.rest.scene is not session.scene:
            old, self.rest = self.rest, None
            if old is not None:
                self._show_capture()
                old.remove()
            self.rest = Rest(self.api, session.scene, session.clusters)
        self.rest.place(self.world)

    def _show_capture(self) -> None:
        """Show the capture unchanged: nothing is picked."""
        for name in ("more", "first", "later"):
            self._drop_still(name)
        self._drop_objects(0)
        if self.rest is not None:
            self.rest.paint()

    def _show_layout(self, session: Session) -> None:
        layout, bodies = session.setup.layout, session.setup.bodies
        cut = parts(layout)
        plain = layout.scene.replace(sh=layout.scene.sh[:, :1])
        for name in ("more", "first", "later"):
            self._show_still(name, plain[getattr(cut, name)])
        for i, body in enumerate(bodies):
            self._show_object(i, body.z0, plain[cut.objects[i]], plain[cut.later_of_objects[i]])
        self._drop_objects(len(bodies))
        assert self.rest is not None
        hidden = torch.ones_like(self.rest.hidden)
        hidden[layout.rows[cut.rest]] = False
        self.rest.paint(hidden=hidden)
        self.later(False)

    def highlight(self, mask: Tensor) -> None:
        """Tint the Gaussians of a mask ``(N,)`` until they are shown as an object."""
        if self.rest is not None:
            self.rest.paint(hidden=self.rest.hidden, tinted=mask)

    # --- nodes ------------------------------------------------------------------------------------

    def _show_still(self, name: str, scene: GaussianScene) -> None:
        """Show static Gaussians that appear or disappear with the objects."""
        known = self.still.get(name)
        if known is None or not torch.equal(known.means, scene.means):
            self._drop_still(name)
            if not len(scene):
                return
            origin = scene.means.double().median(0).values
            made = splats(scene, origin)
            pose = still_pose(self.world, origin, made.unit)
            node = add_splats(self.api, f"/{name}", made, pose)
            known = self.still[name] = Still(scene.means, origin, made.unit, node)
        place(known.node, still_pose(self.world, known.origin, known.unit))

    def _drop_still(self, name: str) -> None:
        if name in self.still:
            self.still.pop(name).node.remove()

    def _show_object(
        self, index: int, z0: StateTensor, gaussians: GaussianScene, new: GaussianScene
    ) -> None:
        means = torch.cat([gaussians.means, new.means])
        start = self.world.state_to_scene(z0.double())
        if index < len(self.objects):
            known = self.objects[index]
            if torch.equal(known.means, means) and _same_pose(known.in_scene, start):
                self.objects[index] = known._replace(start=z0)
                return
            self._drop_objects(index)
        made, more = (splats(part, State(start).p, State(start).q) for part in (gaussians, new))
        self.objects.append(Moving(means, z0, start, made.unit, *self._add(index, z0, made, more)))

    def _add(
        self, index: int, z0: StateTensor, made: Splats, more: Splats
    ) -> tuple[Any, Any, Any, Any | None]:
        """The nodes of an object: frame, plain, tinted, later."""
        name, pose = f"/object_{index}", moving_pose(self.world, made.unit, z0, z0)
        frame = self.api.add_frame(name, show_axes=False, position=pose.position, wxyz=pose.wxyz)
        still = Pose(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), pose.scale)
        plain = add_splats(self.api, f"{name}/plain", made, still)
        tinted = add_splats(self.api, f"{name}/tinted", made.tinted(), still)
        tinted.visible = False
        if not len(more.centers):
            return frame, plain, tinted, None
        later = add_splats(self.api, f"{name}/later", more.in_units_of(made.unit), still)
        return frame, plain, tinted, later

    def _drop_objects(self, first: int) -> None:
        """Remove all objects from a number on."""
        for one in self.objects[first:]:
            one.frame.remove()  # with all its children
        del self.objects[first:]

    # --- motion -----------------------------------------------------------------------------------

    def pose(self, states: StateTensor, *, start: bool) -> None:
        """Move objects to states ``(K, 22)``; only poses are sent."""
        units, starts = [one.unit for one in self.objects], [one.start for one in self.objects]
        with self.server.atomic():
            poses = moving_poses(self.world, units, starts, states)
            for one, pose in zip(self.objects, poses, strict=True):
                move(one.frame, pose)
                for node in one.nodes:
                    resize(node, pose)
            self.later(not start)

    def later(self, moved: bool) -> None:
        """Set whether the objects have moved, so that the repairs under them are shown."""
        for name, one in self.still.items():
            if name != "more":
                show(one.node, moved == (name == "later"))
        for moving in self.objects:
            if moving.later is not None:
                show(moving.later, moved)

    def tint(self, index: int | None) -> None:
        """Tint the selected object."""
        for i, one in enumerate(self.objects):
            show(one.plain, i != index)
            show(one.tinted, i == index)

    # --- the initial camera -----------------------------------------------------------------------

    def look(self, session: Session) -> None:
        """Point the cameras of new and open tabs at the scene's main objects."""
        at, distance = self._subject(session)
        eye = at + distance * torch.tensor(START, dtype=torch.float64)
        first = self.server.initial_camera
        first.position, first.look_at, first.up = eye.numpy(), at.numpy(), np.array([0.0, 1.0, 0.0])
        first.fov = FIELD
        for client in self.server.get_clients().values():
            client.camera.position, client.camera.look_at = eye.numpy(), at.numpy()
            client.camera.up_direction = (0.0, 1.0, 0.0)

    def _subject(self, session: Session) -> tuple[Vec3, float]:
        """Centre and distance to look at: marked objects, the best cluster, or else everything."""
        marked = session.scene.means[session.scene.ids >= 0]
        found = marked if len(marked) else torch.cat(
            [session.scene.means[c.mask] for c in session.clusters[:1]] or [session.scene.means]
        )  # fmt: skip
        x = self.world.to_physics(found.double())
        ends = x[:: max(1, len(x) // 10_000)].quantile(x.new_tensor([0.02, 0.98]), dim=0)
        return (ends[0] + ends[1]) / 2, max(float((ends[1] - ends[0]).norm()), NEAREST) * 0.75


def _same_pose(a: StateTensor, b: StateTensor) -> bool:
    x, y = State(a), State(b)
    return torch.equal(x.p, y.p) and torch.equal(x.q, y.q)

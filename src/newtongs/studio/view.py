"""The scene as a browser sees it: nodes of splats, an arrow, a path, a floor, solid boxes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..scene.gaussians import GaussianScene
from ..scene.world_frame import WorldFrame
from ..state import State
from ..types import StateTensor, Vec3
from .nodes import Array, Pose, Splats, box_lines, moving_pose, parts, splats, still_pose
from .session import Session

ARROW = 0.25  # seconds: an arrow reaches as far as the object would fly in that time
HANDLE = 0.45  # length of the handles at its tip, physics units: they stick out of an object
COARSE, EXACT = (255, 170, 60), (30, 110, 255)  # colours of a path
SOLID, FLOOR = (220, 60, 60), (120, 150, 120)
MOST_BOXES = 4000  # drawn; more are a thicket
START = (0.9, 0.55, 1.7)  # from where the page looks first: along x, y, z, in distances
FIELD = 0.9  # radians across the height
NEAREST = 2.2  # distance of the first look, physics units


class View:
    """Draws a session into a viser server; everything lies in the physics frame."""

    def __init__(self, server: Any, on_arrow: Callable[[Any], None]) -> None:
        self.scene, self.server, self.on_arrow = server.scene, server, on_arrow
        self.nodes: dict[str, Any] = {}
        self.units: list[float] = []
        self.starts: list[StateTensor] = []
        self.world = WorldFrame.identity()
        self.gizmo: Any = None
        self.held = False  # somebody pulls the handle: it must not be moved under the pointer
        self.scene.set_up_direction("+y")

    # --- splats -----------------------------------------------------------------------------------

    def show(self, session: Session) -> None:
        """All of it anew: one node of what stays, one for each object."""
        with self.server.atomic():
            for handle in self.nodes.values():
                handle.remove()
            self.nodes, self.units, self.starts = {}, [], []
            self.world = session.world
            if session.recipe.pushes:
                self._show_stage(session)
            else:
                self._still("rest", session.scene)
        self.floor(session)
        sky = np.array(session.color) * 255
        self.scene.set_background_image(np.full((1, 1, 3), sky, dtype=np.uint8), format="png")

    def _show_stage(self, session: Session) -> None:
        stage = session.ready.stage
        cut = parts(stage)
        for name in ("rest", "first", "later"):
            self._still(name, stage.scene[getattr(cut, name)])
        for i, body in enumerate(session.ready.bodies):
            self._moving(
                i, body.z0, stage.scene[cut.objects[i]], stage.scene[cut.later_of_objects[i]]
            )
        self.later(False)

    def _still(self, name: str, scene: GaussianScene) -> None:
        if not len(scene):
            return
        origin = scene.means.double().median(0).values
        made = splats(scene, origin)
        self._add(name, made, still_pose(self.world, origin, made.unit))

    def _moving(
        self, index: int, z0: StateTensor, thing: GaussianScene, new: GaussianScene
    ) -> None:
        """An object as it is, tinted, and what is to be seen of it from frame 1 on."""
        start = State(self.world.state_to_scene(z0.double()))
        made = splats(thing, start.p, start.q)
        self.units.append(made.unit)
        self.starts.append(z0)
        pose = moving_pose(self.world, made.unit, z0, z0)
        self._add(f"object_{index}", made, pose)
        self._add(f"object_{index}_tinted", made.tinted(), pose).visible = False
        if len(new):
            more = splats(new, start.p, start.q)
            more = _in_units_of(more, made.unit)
            self._add(f"object_{index}_later", more, pose)

    def _add(self, name: str, made: Splats, pose: Pose) -> Any:
        self.nodes[name] = self.scene.add_gaussian_splats(
            f"/{name}", made.centers, made.covariances, made.rgbs, made.opacities,
            scale=pose.scale, wxyz=pose.wxyz, position=pose.position,
        )  # fmt: skip
        return self.nodes[name]

    def pose(self, states: StateTensor, *, start: bool) -> None:
        """Objects at states ``(K, 22)``; nothing but poses is sent."""
        with self.server.atomic():
            for i, z in enumerate(states):
                pose = moving_pose(self.world, self.units[i], self.starts[i], z)
                for name in (f"object_{i}", f"object_{i}_tinted", f"object_{i}_later"):
                    if name in self.nodes:
                        _place(self.nodes[name], pose)
            self.later(not start)

    def later(self, begun: bool) -> None:
        """Whether the objects have left their places: then what was mended there shows."""
        for name, node in self.nodes.items():
            if name == "first" or name == "later" or name.endswith("_later"):
                _show(node, begun != (name == "first"))

    def tint(self, index: int | None) -> None:
        """Show which object is selected."""
        for i in range(len(self.units)):
            _show(self.nodes[f"object_{i}"], i != index)
            _show(self.nodes[f"object_{i}_tinted"], i == index)

    # --- lines ------------------------------------------------------------------------------------

    def arrow(self, at: Vec3 | None, velocity: Sequence[float] = ()) -> None:
        """The velocity as an arrow from ``at (3,)``, with a handle to pull at its tip."""
        if at is None:
            self._drop("arrow")
            if self.gizmo is not None:
                self.gizmo.visible = False
            return
        tip = at + ARROW * torch.as_tensor(velocity, dtype=torch.float64)
        self.draw_arrow(at, tip)
        if self.gizmo is None:
            self.gizmo = self.scene.add_transform_controls(
                "/pull", scale=HANDLE, disable_rotations=True, line_width=4.0
            )
            self.gizmo.on_update(self.on_arrow)
        self.gizmo.visible = True
        if not self.held:
            self.gizmo.position = tip.numpy()

    def draw_arrow(self, at: Vec3, tip: Vec3) -> None:
        """Without its handle, which is being pulled."""
        self._drop("arrow")
        points = torch.stack([at, tip]).float().numpy()[None]
        self.nodes["arrow"] = self.scene.add_arrows(
            "/arrow", points, EXACT, shaft_radius=0.008, head_radius=0.025, head_length=0.06
        )

    def path(self, points: Vec3 | None, *, exact: bool = True) -> None:
        """The way to come ``(T, 3)``."""
        if points is None:
            self._drop("path")
            return
        x = points.float().numpy()
        self._lines("path", np.stack([x[:-1], x[1:]], 1), EXACT if exact else COARSE, 0.008)

    def solids(self, boxes: Array | None) -> None:
        """The scene's solid boxes ``(N, 2, 3)`` as edges."""
        if boxes is None or not len(boxes):
            self._drop("solids")
            return
        self._lines("solids", box_lines(boxes[:MOST_BOXES]), SOLID, 0.002)

    def floor(self, session: Session) -> None:
        """A grid where the floor is, a cell a physics unit."""
        self._drop("floor")
        self.nodes["floor"] = self.scene.add_grid(
            "/floor", 8.0, 8.0, plane="xz", cell_size=0.5, section_size=1.0, cell_color=FLOOR,
            section_color=FLOOR, visible=False, position=self._middle(session),
        )  # fmt: skip

    def _middle(self, session: Session) -> tuple[float, float, float]:
        x, _, z = self.world.to_physics(session.scene.means.double().median(0).values).tolist()
        return x, 0.0, z

    def _lines(self, name: str, points: Array, color: tuple[int, ...], thickness: float) -> None:
        self._drop(name)
        self.nodes[name] = self.scene.add_line_segments(
            f"/{name}", points.astype(np.float32), color, thickness=thickness
        )

    def _drop(self, name: str) -> None:
        handle = self.nodes.pop(name, None)
        if handle is not None:
            handle.remove()

    # --- the first look ---------------------------------------------------------------------------

    def look(self, session: Session) -> None:
        """Turn new pages, and those that are open, to the scene's main things."""
        at, distance = self._subject(session)
        eye = at + distance * torch.tensor(START, dtype=torch.float64)
        first = self.server.initial_camera
        first.position, first.look_at, first.up = eye.numpy(), at.numpy(), np.array([0.0, 1.0, 0.0])
        first.fov = FIELD
        for client in self.server.get_clients().values():
            client.camera.position, client.camera.look_at = eye.numpy(), at.numpy()
            client.camera.up_direction = (0.0, 1.0, 0.0)

    def _subject(self, session: Session) -> tuple[Vec3, float]:
        """What to look at: the objects that are marked or found, else all of it."""
        marked = session.scene.means[session.scene.ids >= 0]
        found = marked if len(marked) else torch.cat(
            [session.scene.means[c.mask] for c in session.clusters[:1]] or [session.scene.means]
        )  # fmt: skip
        x = self.world.to_physics(found.double())
        ends = x[:: max(1, len(x) // 10_000)].quantile(x.new_tensor([0.02, 0.98]), dim=0)
        return (ends[0] + ends[1]) / 2, max(float((ends[1] - ends[0]).norm()), NEAREST) * 0.75


def _in_units_of(made: Splats, unit: float) -> Splats:
    k = made.unit / unit
    return made._replace(centers=k * made.centers, covariances=k * k * made.covariances, unit=unit)


def _place(node: Any, pose: Pose) -> None:
    """Send only what has changed."""
    if not np.array_equal(node.position, pose.position):
        node.position = pose.position
    if not np.array_equal(node.wxyz, pose.wxyz):
        node.wxyz = pose.wxyz
    if tuple(node.scale) != pose.scale:
        node.scale = pose.scale


def _show(node: Any, visible: bool) -> None:
    if node.visible != visible:
        node.visible = visible

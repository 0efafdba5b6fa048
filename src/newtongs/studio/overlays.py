"""What is drawn over the scene: arrow, ring, path, floor, solid parts, and handles to drag."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ..base import rotations
from ..base.state import State
from ..base.types import Array, StateTensor, Vec3
from ..physics.bodies import Body
from ..physics.shapes import Shape
from .nodes import box_lines, show

Pulled: TypeAlias = Callable[[Any], Coroutine[Any, Any, None]]

ARROW = 0.25  # seconds: an arrow is as long as the object would fly in that time
RING = 0.2  # seconds: the ring's arc is as long as the object would turn in that time
HANDLE = 0.45  # length of the arrow's handles, physics units: long enough to stick out of an object
RINGS = 0.75  # size of the rotation handles, physics units
COARSE, EXACT = (255, 170, 60), (30, 110, 255)  # colours of a path
SOLID_COLOR, FLOOR, SPIN, MARK = (220, 60, 60), (120, 150, 120), (150, 60, 220), (255, 60, 160)
MOST_BOXES = 4000  # boxes drawn, the nearest ones
ARC = 0.35  # radius of the arc of a spin: just outside an object
DOT = 0.03  # radius of a mark, physics units
POINTS = 33  # of an arc


class Overlays:
    """Lines and handles in a viser server; everything lies in the physics frame."""

    def __init__(self, server: Any, on_arrow: Pulled, on_ring: Pulled, on_floor: Pulled) -> None:
        self.api, self.server = server.scene, server
        self.lines: dict[str, Any] = {}
        self.starts: list[StateTensor] = []
        self.held = False  # a handle is being dragged: it must not be moved under the pointer
        add = self.api.add_transform_controls
        # Larger handles are added later, so that they are drawn on top.
        self.pull = add("/pull", HANDLE, disable_rotations=True, line_width=4.0, visible=False)
        self.ring = add(
            "/ring", RINGS, disable_axes=True, disable_sliders=True, line_width=3.0, visible=False
        )
        self.ground = add("/ground", 1.0, disable_sliders=True, line_width=3.0, visible=False)
        for handle, do in ((self.pull, on_arrow), (self.ring, on_ring), (self.ground, on_floor)):
            handle.on_update(do)

    # --- the push ---------------------------------------------------------------------------------

    def push(
        self, at: Vec3 | None, velocity: Sequence[float] = (), spin: Sequence[float] = ()
    ) -> None:
        """Show velocity and spin of an object at ``at (3,)``, with handles; None hides them."""
        show(self.pull, at is not None)
        if at is None:
            show(self.ring, False)
            self.drop("arrow", "spin")
            return
        tip = at + ARROW * torch.as_tensor(velocity, dtype=torch.float64)
        self.arrow(at, tip)
        self.spin(at, torch.as_tensor(spin, dtype=torch.float64))
        if not self.held:
            self.pull.position = tip.numpy()
            self.ring.position, self.ring.wxyz = at.numpy(), (1.0, 0.0, 0.0, 0.0)

    def arrow(self, at: Vec3, tip: Vec3) -> None:
        """Draw the arrow without its handle, which may be in the process of being dragged."""
        points = torch.stack([at, tip]).float().numpy()[None]
        if "arrow" in self.lines:
            self.lines["arrow"].points = points
            return
        self.lines["arrow"] = self.api.add_arrows(
            "/arrow", points, EXACT, shaft_radius=0.008, head_radius=0.025, head_length=0.06
        )

    def spin(self, at: Vec3, spin: Vec3) -> None:
        """Draw the spin: an arc as long as the object turns in a fifth of a second."""
        angle = RING * float(spin.norm())
        if angle < 1e-3:
            self.drop("spin")
            return
        points = at.numpy() + _arc(spin.numpy(), min(angle, 2 * np.pi), ARC)
        self.draw("spin", np.stack([points[:-1], points[1:]], 1), SPIN, 0.012)

    def path(self, points: Vec3 | None, *, exact: bool = True) -> None:
        """Draw the predicted path ``(T, 3)``; None hides it."""
        if points is None:
            self.drop("path")
            return
        x = points.float().numpy()
        self.draw("path", np.stack([x[:-1], x[1:]], 1), EXACT if exact else COARSE, 0.008)

    # --- floor and solid parts --------------------------------------------------------------------

    def floor(self, middle: Vec3, visible: bool) -> None:
        """Draw the floor as a grid with cells of half a physics unit."""
        x, _, z = middle.tolist()
        if "floor" not in self.lines:
            self.lines["floor"] = self.api.add_grid(
                "/floor", 8.0, 8.0, plane="xz", cell_size=0.5, section_size=1.0, cell_color=FLOOR,
                section_color=FLOOR, visible=False,
            )  # fmt: skip
        self.lines["floor"].position = (x, 0.0, z)
        show(self.lines["floor"], visible)
        if not self.held:
            self.ground.position, self.ground.wxyz = (x, 0.0, z), (1.0, 0.0, 0.0, 0.0)

    def marks(self, points: Sequence[Vec3]) -> None:
        """Mark clicked points."""
        for k in range(3):
            self.drop(f"mark_{k}")
        for k, x in enumerate(points):
            self.lines[f"mark_{k}"] = self.api.add_icosphere(
                f"/mark_{k}", DOT, MARK, position=x.numpy()
            )

    def solids(self, boxes: Array | None, near: Vec3 | None = None) -> None:
        """Draw the edges of solid boxes ``(N, 2, 3)``; if there are many, those near a point."""
        if boxes is None or not len(boxes):
            self.drop("solids")
            return
        if near is not None and len(boxes) > MOST_BOXES:
            distances = np.linalg.norm(boxes.mean(1) - near.numpy(), axis=-1)
            boxes = boxes[np.argsort(distances)[:MOST_BOXES]]
        self.draw("solids", box_lines(boxes[:MOST_BOXES]), SOLID_COLOR, 0.002)

    def shapes(self, bodies: Sequence[Body]) -> None:
        """Draw the edges of the objects' convex pieces, which move with them."""
        for k in range(len(self.starts)):
            self.drop(f"shape_{k}")
        self.starts = [body.z0.double() for body in bodies]
        for k, body in enumerate(bodies):
            if body.shape is not None:
                self.draw(f"shape_{k}", _shape_lines(body.shape), SOLID_COLOR, 0.004)
        self.pose(torch.stack(self.starts) if self.starts else ())

    def pose(self, states: StateTensor | Sequence[StateTensor]) -> None:
        """Move the pieces to states ``(K, 22)``."""
        for k, (z0, z) in enumerate(zip(self.starts, states, strict=False)):
            line = self.lines.get(f"shape_{k}")
            if line is not None:
                x = State(z.double())
                turn = rotations.multiply(x.q, rotations.conjugate(State(z0).q))
                line.position, line.wxyz = x.p.numpy(), rotations.normalize(turn).numpy()

    # --- lines ------------------------------------------------------------------------------------

    def draw(self, name: str, points: Array, color: tuple[int, int, int], thickness: float) -> None:
        """Draw segments ``(N, 2, 3)``; an existing line of the same length is updated in place."""
        points, known = points.astype(np.float32), self.lines.get(name)
        colors = np.broadcast_to(np.array(color, dtype=np.uint8), points.shape)
        if known is not None and known.points.shape == points.shape:
            known.points, known.colors = points, colors
            return
        self.drop(name)
        self.lines[name] = self.api.add_line_segments(
            f"/{name}", points, colors, thickness=thickness
        )

    def drop(self, *names: str) -> None:
        """Remove lines."""
        for name in names:
            handle = self.lines.pop(name, None)
            if handle is not None:
                handle.remove()


def _arc(axis: Array, angle: float, radius: float) -> Array:
    """Points ``(33, 3)`` of an arc about ``axis (3,)`` at the origin, ``angle`` in radians."""
    n = axis / np.linalg.norm(axis)
    a = np.cross(n, np.eye(3)[np.abs(n).argmin()])
    a /= np.linalg.norm(a)
    t = np.linspace(0, angle, POINTS)[:, None]
    return radius * (np.cos(t) * a + np.sin(t) * np.cross(n, a))


def _shape_lines(shape: Shape) -> Array:
    """Edges ``(N, 2, 3)`` of an object's convex pieces, or three circles of a ball."""
    if shape.radius is not None:
        rings = [_arc(axis, 2 * np.pi, shape.radius) + shape.center for axis in np.eye(3)]
        return np.concatenate([np.stack([x[:-1], x[1:]], 1) for x in rings])
    return np.concatenate([_hull_edges(piece) for piece in shape.pieces])


def _hull_edges(points: Array) -> Array:
    from scipy.spatial import ConvexHull

    faces = ConvexHull(points).simplices
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return points[np.unique(np.sort(pairs, 1), axis=0)]

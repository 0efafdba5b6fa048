"""The floor panel: show the floor, set it by handles or three clicks, show solid parts."""

import threading
from typing import Any

import torch

from ..base import rotations
from ..base.state import State
from ..base.types import Vec3
from .controls import Controls, Wired
from .pointing import Ray, ground_in_scene, met, plane_through

CORNERS = 3  # clicks that define the floor


class FloorPanel(Controls):
    """The folder "Floor"."""

    waiting = False
    """Whether the next clicks mark points on the floor."""
    marked: list[Vec3]
    """The points marked so far."""

    def updates(self) -> Wired:
        """See :class:`Controls`."""
        p = self.page.panel
        return ((c, self.on_shown) for c in (p.floor, p.move_floor, p.solids))

    def clicks(self) -> Wired:
        """See :class:`Controls`."""
        return ((self.page.panel.three, self.on_three),)

    def on_shown(self, event: Any) -> None:
        """A checkbox of this folder was changed."""
        _ = self.page.open_session
        self.show()

    def show(self) -> None:
        """Show or hide the floor's grid and handles, solid boxes and convex pieces."""
        page, session, p = self.page, self.page.open_session, self.page.panel
        x = session.scene.means[:: max(1, len(session.scene) // 50_000)]
        middle = session.world.to_physics(x.double().median(0).values)
        page.overlays.floor(middle, p.floor.value or p.move_floor.value)
        page.overlays.ground.visible = p.move_floor.value
        if not (p.solids.value and session.recipe.pushes):
            page.overlays.solids(None)
            page.overlays.shapes(())
            return
        setup = session.setup
        near = State(setup.bodies[page.selected or 0].z0).p.double()
        page.overlays.solids(setup.fixed.surroundings.solids, near)
        page.overlays.shapes(setup.bodies)

    # --- three clicks -----------------------------------------------------------------------------

    def on_three(self, event: Any) -> None:
        """Wait for three clicks on the floor."""
        _ = self.page.open_session
        self.page.stop()
        self.forget()
        self.waiting = True
        self.page.inform("click three points on the floor, far apart")

    def forget(self) -> None:
        """Stop waiting for clicks."""
        self.waiting, self.marked = False, []
        self.page.overlays.marks(())

    def mark(self, origin: Ray, direction: Ray) -> None:
        """Mark one of the three points."""
        page, session = self.page, self.page.open_session
        self.marked.append(met(session.scene, session.world, origin, direction))
        page.overlays.marks(self.marked)
        if len(self.marked) < CORNERS:
            page.inform(f"click {CORNERS - len(self.marked)} more on the floor")
            return
        points = self.marked
        self.forget()
        self.stand(*plane_through(points, above=origin))

    # --- by handles -------------------------------------------------------------------------------

    async def on_handle(self, event: Any) -> None:
        """The floor was dragged or rotated; it is set when the handle is released."""
        self.page.overlays.held = event.phase != "end"
        if event.phase == "end":
            threading.Thread(target=self.page.guarded(self._released), args=(event,)).start()

    def _released(self, event: Any) -> None:
        handle = self.page.overlays.ground
        q = torch.as_tensor(handle.wxyz, dtype=torch.float64)
        up = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
        self.stand(torch.as_tensor(handle.position, dtype=torch.float64), up)

    def stand(self, point: Vec3, up: Vec3) -> None:
        """Set the floor to a plane of the physics frame."""
        page, session = self.page, self.page.open_session
        page.stop()
        page.inform("finding the objects above it ...")
        lost = session.stand(*ground_in_scene(session.world, point, up))
        page.reshow(page.selected)
        page.view.look(session)
        note = f"; {lost} objects were deselected, pick them again" if lost else ""
        page.inform(f"{session.floor.description}{note}")

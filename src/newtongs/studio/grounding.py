"""Up and the floor: shown, moved by handles, or set by three clicks; and what is solid."""

import threading
from typing import Any

import torch

from .. import rotations
from ..state import State
from ..types import Vec3
from .part import Part, Wired
from .pointing import Ray, ground_in_scene, met, plane_through

CORNERS = 3


class Grounding(Part):
    """What the folder "Floor" does."""

    waiting = False
    """Whether the next clicks are for the floor."""
    marked: list[Vec3]
    """Where they were."""

    def updates(self) -> Wired:
        """See :class:`Part`."""
        p = self.page.panel
        return ((c, self.on_shown) for c in (p.floor, p.move_floor, p.solids))

    def clicks(self) -> Wired:
        """See :class:`Part`."""
        return ((self.page.panel.three, self.on_three),)

    def on_shown(self, event: Any) -> None:
        """What is drawn besides."""
        _ = self.page.open_session
        self.show()

    def show(self) -> None:
        """The floor's grid and handles, solid boxes and pieces, where they are wanted."""
        page, session, p = self.page, self.page.open_session, self.page.panel
        x = session.scene.means[:: max(1, len(session.scene) // 50_000)]
        middle = session.world.to_physics(x.double().median(0).values)
        page.aids.floor(middle, p.floor.value or p.move_floor.value)
        page.aids.ground.visible = p.move_floor.value
        if not (p.solids.value and session.recipe.pushes):
            page.aids.solids(None)
            page.aids.shapes(())
            return
        ready = session.ready
        near = State(ready.bodies[page.selected or 0].z0).p.double()
        page.aids.solids(ready.around.surroundings.solids, near)
        page.aids.shapes(ready.bodies)

    # --- three clicks -----------------------------------------------------------------------------

    def on_three(self, event: Any) -> None:
        """Wait for three clicks."""
        _ = self.page.open_session
        self.page.stop()
        self.forget()
        self.waiting = True
        self.page.say("click three places on the floor, far apart")

    def forget(self) -> None:
        """Wait no longer."""
        self.waiting, self.marked = False, []
        self.page.aids.marks(())

    def mark(self, origin: Ray, direction: Ray) -> None:
        """One of the three."""
        page, session = self.page, self.page.open_session
        self.marked.append(met(session.scene, session.world, origin, direction))
        page.aids.marks(self.marked)
        if len(self.marked) < CORNERS:
            page.say(f"{CORNERS - len(self.marked)} more on the floor")
            return
        points = self.marked
        self.forget()
        self.stand(*plane_through(points, above=origin))

    # --- by handles -------------------------------------------------------------------------------

    async def on_handle(self, event: Any) -> None:
        """The floor was pulled or turned; it is taken when it is let go."""
        self.page.aids.held = event.phase != "end"
        if event.phase == "end":
            threading.Thread(target=self.page.guarded(self._let_go), args=(event,)).start()

    def _let_go(self, event: Any) -> None:
        handle = self.page.aids.ground
        q = torch.as_tensor(handle.wxyz, dtype=torch.float64)
        up = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
        self.stand(torch.as_tensor(handle.position, dtype=torch.float64), up)

    def stand(self, point: Vec3, up: Vec3) -> None:
        """Take a plane of the physics frame for the floor."""
        page, session = self.page, self.page.open_session
        page.stop()
        page.say("looking what stands on it ...")
        lost = session.stand(*ground_in_scene(session.world, point, up))
        page.reshow(page.selected)
        page.view.look(session)
        gone = f"; {lost} objects are let go, pick them again" if lost else ""
        page.say(f"{session.floor.description}{gone}")

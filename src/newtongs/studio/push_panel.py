"""The push panel: numbers, arrow and ring, named motions, and the predicted path."""

import threading
from collections.abc import Callable
from typing import Any

import torch

from ..base import rotations
from ..base.errors import InputError
from ..base.state import State
from ..base.types import Vec3
from .controls import Controls, Wired
from .overlays import ARROW, RING
from .panel import FREE, STILL
from .player import LAST

DIGITS = 3  # decimals of velocities set by dragging


class PushPanel(Controls):
    """The folder "Push", and the handles in the scene."""

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self._pulled, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._follow, daemon=True, name="newtongs arrow")
        self._thread.start()

    def updates(self) -> Wired:
        """See :class:`Controls`."""
        p = self.page.panel
        numbers = p.velocity, p.spin, p.mass, p.restitution, p.friction
        return (
            *((c, self.on_push) for c in numbers), (p.motion, self.on_motion),
            *((c, self.on_options) for c in (p.loose, p.dynamics, p.seconds)),
            (p.handles, self.on_handles),
        )  # fmt: skip

    # --- numbers ----------------------------------------------------------------------------------

    def on_push(self, event: Any) -> None:
        """A number of the push was changed."""
        p, session, index = self.page.panel, self.page.open_session, self.page.require_selected()
        fields = {"mass": p.mass.value, "restitution": p.restitution.value}
        fields |= {"friction": p.friction.value}
        if session.recipe.pushes[index].motion is None:
            fields |= {"velocity": tuple(p.velocity.value), "spin": tuple(p.spin.value)}
        self.change(lambda: session.push(index, **fields))

    def on_motion(self, event: Any) -> None:
        """A named motion was chosen, or none."""
        session, index = self.page.open_session, self.page.require_selected()
        name = self.page.panel.motion.value
        free = {"velocity": STILL, "motion": None}
        fields = free if name == FREE else {"motion": name}
        self.change(lambda: session.push(index, **fields), rebuild=True)

    def on_options(self, event: Any) -> None:
        """An option of all objects was changed."""
        p, session = self.page.panel, self.page.open_session
        rebuild = p.loose.value != session.recipe.loose or "paper" in (
            p.dynamics.value, session.recipe.dynamics,
        )  # fmt: skip
        fields = {"loose": p.loose.value, "dynamics": p.dynamics.value, "seconds": p.seconds.value}
        self.change(lambda: session.choose(**fields), rebuild=rebuild)

    def change(self, do: Callable[[], None], *, rebuild: bool = False) -> None:
        """Change the recipe, and undo the change if it cannot be simulated."""
        page, session = self.page, self.page.open_session
        before = session.recipe
        page.stop()
        do()
        if session.recipe == before:
            page.refresh(page.selected)
            return
        try:
            if session.recipe.pushes:
                session.states()
        except InputError:
            session.undo()
            page.refresh(page.selected)
            raise
        if rebuild:
            page.view.show(session)
        page.refresh(page.selected)

    # --- arrow and ring ---------------------------------------------------------------------------

    async def on_arrow(self, event: Any) -> None:
        """A handle was moved; our own thread draws its latest position.

        Viser's own threads may see the end of a drag before its middle. Handles are hidden while
        something moves, but a slow browser may not have received that yet.
        """
        if self.page.playing.player.mode == "still":
            self.page.overlays.held = event.phase != "end"
            self._pulled.set()

    on_ring = on_arrow

    def on_handles(self, event: Any) -> None:
        """Other handles were chosen."""
        self.page.refresh(self.page.selected)

    def _follow(self) -> None:
        """Draw an approximate path while a handle is dragged, the exact one after its release."""
        while self._pulled.wait() and not self._closed:
            self._pulled.clear()
            self.page.guarded(lambda _: self.pull())(None)
            if not self.page.overlays.held:
                self.page.guarded(lambda _: self.let_go())(None)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._pulled.set()
        self._thread.join(LAST)

    def pulled(self) -> tuple[int, Vec3, Vec3, Vec3]:
        """The object, its position, and the velocity and spin that the handles show.

        The rotation of the ring is added to the previous spin; the ring starts at zero with every
        drag.
        """
        page, index = self.page, self.page.require_selected()
        at = State(page.open_session.setup.bodies[index].z0).p.double()
        tip = torch.as_tensor(page.overlays.pull.position, dtype=torch.float64)
        turn = torch.as_tensor(page.overlays.ring.wxyz, dtype=torch.float64)
        was = page.open_session.recipe.pushes[index].spin or STILL
        spin = torch.tensor(was, dtype=torch.float64) + rotations.log(turn) / RING
        return index, at, (tip - at) / ARROW, spin

    def pull(self) -> None:
        """Draw arrow, spin and an approximate path at once."""
        index, at, velocity, spin = self.pulled()
        self.page.overlays.arrow(at, at + ARROW * velocity)
        self.page.overlays.spin(at, spin)
        self.page.overlays.path(self.page.open_session.coarse(index, velocity, spin), exact=False)

    def let_go(self) -> None:
        """Set velocity and spin, and draw the exact path."""
        index, _, velocity, spin = self.pulled()
        fields = {"velocity": _rounded(velocity), "spin": _rounded(spin)}
        self.change(lambda: self.page.open_session.push(index, **fields))

    # --- display ----------------------------------------------------------------------------------

    def hide(self) -> None:
        """Hide everything, because no object is selected or it moves."""
        self.page.overlays.push(None)
        self.page.overlays.path(None)

    def show(self, path: Vec3 | None) -> None:
        """Show arrow, ring and path ``(T, 3)`` of the selected object, if there is one."""
        overlays, index = self.page.overlays, self.page.selected
        if path is None or index is None:
            self.hide()
            return
        push, wanted = self.page.open_session.recipe.pushes[index], self.page.panel.handles.value
        if push.motion:
            overlays.push(None)
        else:
            overlays.push(path[0].double(), push.velocity or STILL, push.spin or STILL)
            overlays.pull.visible, overlays.ring.visible = wanted != "ring", wanted != "arrow"
        overlays.path(path.double())


def _rounded(x: Vec3) -> tuple[float, float, float]:
    a, b, c = (round(v, DIGITS) + 0.0 for v in x.tolist())
    return a, b, c

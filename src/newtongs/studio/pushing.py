"""Pushing: numbers, arrow and ring, named motions, and the path to come."""

import threading
from collections.abc import Callable
from typing import Any

import torch

from .. import rotations
from ..errors import InputError
from ..state import State
from ..types import Vec3
from .aids import ARROW, RING
from .panel import FREE, STILL
from .part import Part, Wired
from .player import LAST

DIGITS = 3  # of velocities that were pulled


class Pushing(Part):
    """What the folder "Push" and the handles in the scene do."""

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self._pulled, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._follow, daemon=True, name="newtongs arrow")
        self._thread.start()

    def updates(self) -> Wired:
        """See :class:`Part`."""
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
        """A named motion, or none."""
        session, index = self.page.open_session, self.page.require_selected()
        name = self.page.panel.motion.value
        free = {"velocity": STILL, "motion": None}
        fields = free if name == FREE else {"motion": name}
        self.change(lambda: session.push(index, **fields), anew=True)

    def on_options(self, event: Any) -> None:
        """What concerns all objects."""
        p, session = self.page.panel, self.page.open_session
        anew = p.loose.value != session.recipe.loose or "paper" in (
            p.dynamics.value, session.recipe.dynamics,
        )  # fmt: skip
        fields = {"loose": p.loose.value, "dynamics": p.dynamics.value, "seconds": p.seconds.value}
        self.change(lambda: session.choose(**fields), anew=anew)

    def change(self, do: Callable[[], None], *, anew: bool = False) -> None:
        """Change the recipe, and go back if it cannot be staged."""
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
        if anew:
            page.view.show(session)
        page.refresh(page.selected)

    # --- arrow and ring ---------------------------------------------------------------------------

    async def on_arrow(self, event: Any) -> None:
        """A handle was moved: drawn by a thread, which takes the newest place.

        Not one of viser's threads, which may see the end of a pull before its middle. While
        something moves the handles are hidden, but a slow browser may not know yet.
        """
        if self.page.playing.player.mode == "still":
            self.page.aids.held = event.phase != "end"
            self._pulled.set()

    on_ring = on_arrow

    def on_handles(self, event: Any) -> None:
        """Other handles are wanted."""
        self.page.refresh(self.page.selected)

    def _follow(self) -> None:
        """A rough path while it is pulled, the exact one when it is let go."""
        while self._pulled.wait() and not self._closed:
            self._pulled.clear()
            self.page.guarded(lambda _: self.pull())(None)
            if not self.page.aids.held:
                self.page.guarded(lambda _: self.let_go())(None)

    def close(self) -> None:
        """Follow no more."""
        self._closed = True
        self._pulled.set()
        self._thread.join(LAST)

    def pulled(self) -> tuple[int, Vec3, Vec3, Vec3]:
        """The object, where it is, and the velocity and spin that the handles show.

        A turn of the ring is added to the spin there was; the ring begins anew at every grasp.
        """
        page, index = self.page, self.page.require_selected()
        at = State(page.open_session.ready.bodies[index].z0).p.double()
        tip = torch.as_tensor(page.aids.pull.position, dtype=torch.float64)
        turn = torch.as_tensor(page.aids.ring.wxyz, dtype=torch.float64)
        was = page.open_session.recipe.pushes[index].spin or STILL
        spin = torch.tensor(was, dtype=torch.float64) + rotations.log(turn) / RING
        return index, at, (tip - at) / ARROW, spin

    def pull(self) -> None:
        """A rough path at once."""
        index, at, velocity, spin = self.pulled()
        self.page.aids.arrow(at, at + ARROW * velocity)
        self.page.aids.spin(at, spin)
        self.page.aids.path(self.page.open_session.coarse(index, velocity, spin), exact=False)

    def let_go(self) -> None:
        """Velocity and spin are chosen, and the exact path drawn."""
        index, _, velocity, spin = self.pulled()
        fields = {"velocity": _rounded(velocity), "spin": _rounded(spin)}
        self.change(lambda: self.page.open_session.push(index, **fields))

    # --- what is drawn of it ----------------------------------------------------------------------

    def hide(self) -> None:
        """No object, or it moves."""
        self.page.aids.push(None)
        self.page.aids.path(None)

    def show(self, way: Vec3 | None) -> None:
        """Arrow, ring and path ``(T, 3)`` of the selected object, if there is one."""
        aids, index = self.page.aids, self.page.selected
        if way is None or index is None:
            self.hide()
            return
        push, wanted = self.page.open_session.recipe.pushes[index], self.page.panel.handles.value
        if push.motion:
            aids.push(None)
        else:
            aids.push(way[0].double(), push.velocity or STILL, push.spin or STILL)
            aids.pull.visible, aids.ring.visible = wanted != "ring", wanted != "arrow"
        aids.path(way.double())


def _rounded(x: Vec3) -> tuple[float, float, float]:
    a, b, c = (round(v, DIGITS) + 0.0 for v in x.tolist())
    return a, b, c

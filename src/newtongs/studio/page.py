"""The studio in a browser, with viser: what the page says and shows.

All tabs see the same scene. What they do is done one after the other, under one lock; an error is
a red line in the page. What happens when something is clicked, pulled or pressed stands by subject
in :mod:`.opening`, :mod:`.picking`, :mod:`.grounding`, :mod:`.pushing`, :mod:`.playing` and
:mod:`.taking`.
"""

import html
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import InputError
from ..state import State
from ..threads import one_thread
from . import recent
from .aids import Aids
from .grounding import Grounding
from .guard import Uploads
from .opening import Opening
from .panel import FREE, NONE, Panel, make_panel
from .picking import Picking
from .playing import Playing
from .pushing import Pushing
from .session import Session
from .taking import Taking
from .view import View

RED, GREY = "#d33", "#777"

Callback: TypeAlias = Callable[[Any], None]


class Page:
    """One studio: a session, a viser server, and what connects them."""

    def __init__(self, server: Any, session: Session | None, uploads: Uploads) -> None:
        self.server, self.session, self.uploads = server, session, uploads
        self.lock = threading.RLock()
        self.shown = "" if session is None else session.recipe.scene
        self.selected: int | None = None
        self.recent = recent.labels(recent.files())
        self.view = View(server)
        recipe = session.recipe if session else None
        self.panel: Panel = make_panel(server.gui, recipe, list(self.recent))
        self.opening, self.picking, self.grounding = Opening(self), Picking(self), Grounding(self)
        self.pushing, self.playing, self.taking = Pushing(self), Playing(self), Taking(self)
        self.aids = Aids(
            server, self.pushing.on_arrow, self.pushing.on_ring, self.grounding.on_handle
        )
        self._connect()
        uploads.watch(server.gui, self.fail)
        if session is not None:
            with one_thread():
                self.open(session, self.shown)
        else:
            self.say("choose a scene, or open a file")

    # --- words ------------------------------------------------------------------------------------

    def say(self, words: str) -> None:
        """A quiet line."""
        self._line(words, GREY)

    def fail(self, words: str) -> None:
        """A red line."""
        self._line(words, RED)

    def _line(self, words: str, color: str) -> None:
        style = f"color:{color};padding:0.4em 1em;font-size:0.85em"
        self.panel.said.content = f'<div style="{style}">{html.escape(words)}</div>'

    def guarded(self, do: Callback) -> Callback:
        """A callback for viser: one at a time; what goes wrong is told in the page."""

        @wraps(do)
        def run(event: Any) -> None:
            if event is not None and event.client is None:  # the page's own doing, no person's
                return
            with self.lock:
                self.attempt(lambda: do(event))

        return run

    def attempt(self, do: Callable[[], None]) -> None:
        """Do it; what goes wrong is a red line.

        The browser draws on the same processor: two threads would wait for each other.
        """
        try:
            with one_thread():
                do()
        except InputError as error:
            self.fail(str(error))
        except Exception as error:
            traceback.print_exc()
            self.fail(f"{type(error).__name__}: {error}")

    def _connect(self) -> None:
        parts = (
            self.opening, self.picking, self.grounding, self.pushing, self.playing, self.taking,
        )  # fmt: skip
        for part in parts:
            for control, do in part.updates():
                control.on_update(self.guarded(do))
            for button, do in part.clicks():
                button.on_click(self.guarded(do))
        self.panel.upload.on_upload(self.guarded(self.opening.on_upload))
        self.panel.export.on_click(self.taking.on_export)  # it holds the lock only at its start
        scene = self.server.scene
        scene.on_click()(self.guarded(self.picking.on_click))
        scene.on_click(modifier="shift")(self.guarded(self.picking.on_shift_click))
        self.server.on_client_disconnect(self.playing.on_leave)

    @property
    def open_session(self) -> Session:
        """The session, if there is one."""
        if self.session is None:
            raise InputError("no scene is open; choose one, or open a file")
        return self.session

    def require_selected(self) -> int:
        """The object that the controls are about."""
        if self.selected is None:
            raise InputError("no object is selected; click one first")
        return self.selected

    # --- what it shows ----------------------------------------------------------------------------

    def open(self, session: Session, shown: str) -> None:
        """Show a session."""
        self.session, self.shown = session, shown
        self.stop()
        self.grounding.forget()
        self.view.show(session)
        self.view.look(session)
        self.refresh(0 if session.recipe.pushes else None)
        doubt = f"; {session.floor.doubt}" if session.floor.doubt else ""
        self.say(f"{len(session.scene):,} Gaussians; {session.floor.description}{doubt}")

    def reshow(self, selected: int | None = None) -> None:
        """After objects have come or gone."""
        session = self.open_session
        self.view.show(session)
        known = len(session.recipe.pushes)
        self.refresh(selected if selected is not None and selected < known else known - 1)

    def refresh(self, selected: int | None) -> None:
        """Controls, arrow, path and tint as the recipe has them; frame 0."""
        session = self.open_session
        self.selected = None if selected is None or selected < 0 else selected
        self.playing.clock = 0.0
        self._set_controls(session)
        self.grounding.show()
        if not session.recipe.pushes:
            self.pushing.hide()
            return
        states = session.states()
        self.pose(states[0], start=True)
        self.view.tint(self.selected)
        self.pushing.show(State(states[:, self.selected]).p if self.selected is not None else None)

    def pose(self, states: Any, *, start: bool) -> None:
        """Objects, and the outlines of their pieces, at states ``(K, 22)``."""
        self.view.pose(states, start=start)
        self.aids.pose(states)

    def stop(self) -> None:
        """Whatever moves."""
        self.playing.stop()

    def close(self) -> None:
        """Let all threads end."""
        self.playing.player.close()
        self.pushing.close()

    def _set_controls(self, session: Session) -> None:
        p, recipe, index = self.panel, session.recipe, self.selected
        names = [f"{i}: {push.select}" for i, push in enumerate(recipe.pushes)]
        p.objects.options = (NONE, *names)
        p.objects.value = NONE if index is None else names[index]
        p.counted.content = f"**{Path(self.shown).name}** · {self._counted(session)}"
        p.loose.value, p.dynamics.value = recipe.loose, recipe.dynamics
        p.seconds.value = min(max(recipe.seconds, 0.5), 20.0)
        p.frame.max = max(int(recipe.seconds * recipe.fps + 1e-6), 1)
        p.frame.value = 0
        p.command.content = ""
        if index is None:
            return
        push = recipe.pushes[index]
        p.velocity.value, p.spin.value = push.velocity or (0, 0, 0), push.spin or (0, 0, 0)
        p.mass.value, p.friction.value = push.mass, push.friction
        p.restitution.value = 0.6 if push.restitution is None else push.restitution
        p.motion.value = push.motion or FREE

    def _counted(self, session: Session) -> str:
        """How many objects there are, and how large the selected one is."""
        count = len(session.recipe.pushes)
        words = "no object picked" if not count else f"{count} object{'s' * (count > 1)} picked"
        if self.selected is None:
            return words
        own = int((session.ready.stage.scene.ids == self.selected).sum())
        return f"{words}, {own:,} Gaussians selected"

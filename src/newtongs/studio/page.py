"""The page of the studio, built with viser.

All tabs show the same scene. Their actions run one after the other, under one lock; an error is
shown as a red line in the page. The callbacks of clicks, drags and buttons are grouped by topic in
:mod:`.opening`, :mod:`.picking`, :mod:`.floor_panel`, :mod:`.push_panel`, :mod:`.playing` and
:mod:`.export_panel`.
"""

import html
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

from ..base.errors import InputError
from ..base.process import one_thread
from ..base.state import State
from ..pipeline.spec import RESTITUTION
from .export_panel import ExportPanel
from .floor_panel import FloorPanel
from .guard import Uploads
from .opening import Opening, recent_files, recent_labels
from .overlays import Overlays
from .panel import FREE, NONE, PART, WHOLE, Panel, make_panel
from .picking import Picking
from .playing import Playing
from .push_panel import PushPanel
from .session import Session
from .view import View

RED, GREY = "#d33", "#777"
SUMMARY = "padding:0 1em;font-size:0.95em"

Callback: TypeAlias = Callable[[Any], None]


class Page:
    """Connects a session with a viser server."""

    def __init__(self, server: Any, session: Session | None, uploads: Uploads) -> None:
        self.server, self.session, self.uploads = server, session, uploads
        self.lock = threading.RLock()
        self.shown = "" if session is None else session.recipe.scene
        self.selected: int | None = None
        self.recent = recent_labels(recent_files())
        self.view = View(server)
        recipe = session.recipe if session else None
        self.panel: Panel = make_panel(server.gui, recipe, list(self.recent))
        self.opening, self.picking = Opening(self), Picking(self)
        self.floor_panel, self.push_panel = FloorPanel(self), PushPanel(self)
        self.playing, self.export_panel = Playing(self), ExportPanel(self)
        self.overlays = Overlays(
            server, self.push_panel.on_arrow, self.push_panel.on_ring, self.floor_panel.on_handle
        )
        self._connect()
        uploads.watch(server.gui, self.fail)
        if session is not None:
            with one_thread():
                self.open(session, self.shown)
        else:
            self.inform("choose a scene, or open a file")

    # --- messages ---------------------------------------------------------------------------------

    def inform(self, message: str) -> None:
        """Show a grey line."""
        self._line(message, GREY)

    def fail(self, message: str) -> None:
        """Show a red line."""
        self._line(message, RED)

    def _line(self, message: str, color: str) -> None:
        style = f"color:{color};padding:0.4em 1em;font-size:0.85em"
        self.panel.message.content = f'<div style="{style}">{html.escape(message)}</div>'

    def guarded(self, do: Callback) -> Callback:
        """Wrap a callback for viser: one runs at a time, and errors are shown in the page."""

        @wraps(do)
        def run(event: Any) -> None:
            if event is not None and event.client is None:  # the page changed it, not the user
                return
            with self.lock:
                self.attempt(lambda: do(event))

        return run

    def attempt(self, do: Callable[[], None]) -> None:
        """Run ``do``, and show an error as a red line.

        Torch gets one thread: the browser uses the same processor, and more threads would wait for
        it.
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
        panels = (
            self.opening, self.picking, self.floor_panel, self.push_panel, self.playing,
            self.export_panel,
        )  # fmt: skip
        for panel in panels:
            for control, do in panel.updates():
                control.on_update(self.guarded(do))
            for button, do in panel.clicks():
                button.on_click(self.guarded(do))
        self.panel.upload.on_upload(self.guarded(self.opening.on_upload))
        # Not guarded: an export holds the lock only while it starts.
        self.panel.export.on_click(self.export_panel.on_export)
        scene = self.server.scene
        scene.on_click()(self.guarded(self.picking.on_click))
        scene.on_click(modifier="shift")(self.guarded(self.picking.on_shift_click))
        keys = (("pageup", self.picking.on_larger), ("pagedown", self.picking.on_smaller))
        for (key, do), what in zip(keys, (WHOLE, PART), strict=True):
            command = self.server.gui.add_command(f"Take: {what.lower()}", hotkey=key)
            command.on_trigger(self.guarded(do))
        self.server.on_client_disconnect(self.playing.on_leave)

    @property
    def open_session(self) -> Session:
        """The session; an error if no scene is open."""
        if self.session is None:
            raise InputError("no scene is open; choose one, or open a file")
        return self.session

    def require_selected(self) -> int:
        """The selected object; an error if there is none."""
        if self.selected is None:
            raise InputError("no object is selected; click one first")
        return self.selected

    # --- display ----------------------------------------------------------------------------------

    def open(self, session: Session, shown: str) -> None:
        """Open a session and show it."""
        self.session, self.shown = session, shown
        self.stop()
        self.floor_panel.forget()
        self.view.show(session)
        self.view.look(session)
        self.refresh(0 if session.recipe.pushes else None)
        doubt = f"; {session.floor.doubt}" if session.floor.doubt else ""
        self.inform(f"{len(session.scene):,} Gaussians; {session.floor.description}{doubt}")

    def reshow(self, selected: int | None = None) -> None:
        """Show the session again after objects were added or removed."""
        session = self.open_session
        self.view.show(session)
        known = len(session.recipe.pushes)
        self.refresh(selected if selected is not None and selected < known else known - 1)

    def refresh(self, selected: int | None) -> None:
        """Set controls, arrow, path and tint from the recipe, at frame 0."""
        session = self.open_session
        self.selected = None if selected is None or selected < 0 else selected
        self.playing.clock = 0.0
        self._set_controls(session)
        self.floor_panel.show()
        if not session.recipe.pushes:
            self.push_panel.hide()
            return
        states = session.states()
        self.pose(states[0], start=True)
        self.view.tint(self.selected)
        self.push_panel.show(
            State(states[:, self.selected]).p if self.selected is not None else None
        )

    def pose(self, states: Any, *, start: bool) -> None:
        """Move objects and their outlines to states ``(K, 22)``."""
        self.view.pose(states, start=start)
        self.overlays.pose(states)

    def stop(self) -> None:
        """Stop playback and live run."""
        self.playing.stop()

    def close(self) -> None:
        """End all threads."""
        self.playing.player.close()
        self.push_panel.close()

    def _set_controls(self, session: Session) -> None:
        p, recipe, index = self.panel, session.recipe, self.selected
        names = [f"{i}: {push.select}" for i, push in enumerate(recipe.pushes)]
        p.objects.options = (NONE, *names)
        p.objects.value = NONE if index is None else names[index]
        name = html.escape(Path(self.shown).name)  # a browser's choice, where it was uploaded
        p.summary.content = (
            f'<div style="{SUMMARY}"><b>{name}</b> · {html.escape(self._summary(session))}</div>'
        )
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
        e = push.restitution
        p.restitution.value = RESTITUTION if e is None else e
        p.motion.value = push.motion or FREE

    def _summary(self, session: Session) -> str:
        """The number of picked objects, and the size of the selected one."""
        count = len(session.recipe.pushes)
        text = "no object picked" if not count else f"{count} object{'s' * (count > 1)} picked"
        if self.selected is None:
            return text
        own = int((session.setup.layout.scene.ids == self.selected).sum())
        return f"{text}, {own:,} Gaussians selected"

"""Playback of the animation, and the live run."""

from typing import Any

from ..base.errors import InputError
from .controls import Controls, Wired
from .player import Player


class Playing(Controls):
    """The folder "Play"."""

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self.clock = 0.0  # time in the animation, seconds
        self.started_by: int | None = None  # the tab that pressed the button
        self.player = Player(self.on_tick, self.on_step)

    def updates(self) -> Wired:
        """See :class:`Controls`."""
        return ((self.page.panel.frame, self.on_frame),)

    def clicks(self) -> Wired:
        """See :class:`Controls`."""
        p = self.page.panel
        return (
            (p.play, self.on_play), (p.live, self.on_live), (p.keep, self.on_keep),
            (p.reset, self.on_reset),
        )  # fmt: skip

    def stop(self) -> None:
        """Stop playback and live run."""
        self.player.set("still")
        self.page.panel.play.label, self.page.panel.live.label = "Play", "Live"

    def hide_overlays(self) -> None:
        """Hide tint and arrow, which are not part of the scene."""
        self.page.view.tint(None)
        self.page.overlays.push(None)

    # --- frames -----------------------------------------------------------------------------------

    def on_play(self, event: Any) -> None:
        """Play or pause."""
        page, frame = self.page, self.page.panel.frame
        playing = self.player.mode == "play"
        self.stop()
        if playing:
            page.inform(f"paused at frame {int(frame.value)} of {frame.max}")
            return
        page.open_session.states()
        if frame.value >= frame.max:
            self.clock = 0.0
        self.hide_overlays()
        page.panel.play.label = "Pause"
        self._start("play", event)

    def _start(self, mode: Any, event: Any) -> None:
        self.started_by = None if event is None else getattr(event.client, "client_id", None)
        self.player.set(mode)

    def on_tick(self, gone: float) -> None:
        """Called by the player: ``gone`` seconds have passed."""
        with self.page.lock:
            if self.player.mode == "play" and self.page.session is not None:
                self.page.attempt(lambda: self._advance(gone))

    def _advance(self, gone: float) -> None:
        session, p = self.page.open_session, self.page.panel
        states = session.states()
        self.clock += gone * p.speed.value
        index = int(self.clock * session.recipe.fps)
        if index >= len(states):
            index = 0 if p.loop.value else len(states) - 1
            self.clock = 0.0
            if not p.loop.value:
                self.stop()
        if index != p.frame.value:
            self.page.pose(states[index], start=index == 0)
            p.frame.value = index

    def on_frame(self, event: Any) -> None:
        """The frame slider was moved."""
        session = self.page.session
        if session is None or not session.recipe.pushes:
            return
        self.stop()
        states = session.states()
        index = min(int(self.page.panel.frame.value), len(states) - 1)
        self.clock = index / session.recipe.fps
        self.hide_overlays()
        self.page.pose(states[index], start=index == 0)

    # --- live -------------------------------------------------------------------------------------

    def on_live(self, event: Any) -> None:
        """Start or stop the live run."""
        page, live = self.page, self.player.mode == "live"
        self.stop()
        if live:
            return
        _ = page.open_session.now  # compile before the clock starts
        self.hide_overlays()
        page.overlays.path(None)
        page.panel.live.label = "Stop"
        page.inform("live: click an object to kick it along the view")
        self._start("live", event)

    def on_step(self, steps: int) -> None:
        """Called by the player: advance the live run by some steps of 1/60 s."""
        with self.page.lock:
            if self.player.mode == "live":
                self.page.attempt(lambda: self._step(steps))

    def _step(self, steps: int) -> None:
        try:
            for _ in range(steps):
                states = self.page.open_session.step()
        except InputError:
            self.stop()
            raise
        self.page.pose(states, start=False)

    def on_keep(self, event: Any) -> None:
        """Make the live run the animation."""
        self.stop()
        session = self.page.open_session
        session.keep()
        self.page.refresh(self.page.selected)
        seconds, kicks = session.recipe.seconds, len(session.recipe.kicks)
        self.page.inform(f"kept {seconds:.2f} s with {kicks} kicks: play or export it")

    def on_reset(self, event: Any) -> None:
        """Go back to frame 0."""
        self.stop()
        self.page.open_session.reset()
        self.page.refresh(self.page.selected)
        self.page.inform("frame 0")

    def on_leave(self, client: Any) -> None:
        """A tab was closed: stop what it played and release what it dragged."""
        self.page.overlays.held = False
        if client.client_id == self.started_by or not self.page.server.get_clients():
            self.stop()

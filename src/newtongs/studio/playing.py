"""Playing: frames of the animation, or the live run."""

from typing import Any

from ..errors import InputError
from .part import Part, Wired
from .player import Player


class Playing(Part):
    """What the folder "Play" does."""

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self.clock = 0.0  # seconds of the animation
        self.by: int | None = None  # the tab that pressed the button
        self.player = Player(self.on_tick, self.on_step)

    def updates(self) -> Wired:
        """See :class:`Part`."""
        return ((self.page.panel.frame, self.on_frame),)

    def clicks(self) -> Wired:
        """See :class:`Part`."""
        p = self.page.panel
        return (
            (p.play, self.on_play), (p.live, self.on_live), (p.keep, self.on_keep),
            (p.reset, self.on_reset),
        )  # fmt: skip

    def stop(self) -> None:
        """Whatever moves."""
        self.player.set("still")
        self.page.panel.play.label, self.page.panel.live.label = "Play", "Live"

    def hide_aids(self) -> None:
        """What is not there in truth: tint and arrow."""
        self.page.view.tint(None)
        self.page.aids.push(None)

    # --- frames -----------------------------------------------------------------------------------

    def on_play(self, event: Any) -> None:
        """Play or pause."""
        page, frame = self.page, self.page.panel.frame
        playing = self.player.mode == "play"
        self.stop()
        if playing:
            page.say(f"paused at frame {int(frame.value)} of {frame.max}")
            return
        page.open_session.states()
        if frame.value >= frame.max:
            self.clock = 0.0
        self.hide_aids()
        page.panel.play.label = "Pause"
        self._start("play", event)

    def _start(self, mode: Any, event: Any) -> None:
        self.by = None if event is None else getattr(event.client, "client_id", None)
        self.player.set(mode)

    def on_tick(self, gone: float) -> None:
        """Some seconds later."""
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
        """Scrub."""
        session = self.page.session
        if session is None or not session.recipe.pushes:
            return
        self.stop()
        states = session.states()
        index = min(int(self.page.panel.frame.value), len(states) - 1)
        self.clock = index / session.recipe.fps
        self.hide_aids()
        self.page.pose(states[index], start=index == 0)

    # --- live -------------------------------------------------------------------------------------

    def on_live(self, event: Any) -> None:
        """Start or stop the live run."""
        page, live = self.page, self.player.mode == "live"
        self.stop()
        if live:
            return
        _ = page.open_session.now  # compiled before the clock runs
        self.hide_aids()
        page.aids.path(None)
        page.panel.live.label = "Stop"
        page.say("live: click an object to kick it along the view")
        self._start("live", event)

    def on_step(self, steps: int) -> None:
        """Some sixtieths of a second later."""
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
        """The live run becomes the animation."""
        self.stop()
        session = self.page.open_session
        session.keep()
        self.page.refresh(self.page.selected)
        seconds, kicks = session.recipe.seconds, len(session.recipe.kicks)
        self.page.say(f"kept {seconds:.2f} s with {kicks} kicks: play it, or take it home")

    def on_reset(self, event: Any) -> None:
        """Frame 0."""
        self.stop()
        self.page.open_session.reset()
        self.page.refresh(self.page.selected)
        self.page.say("frame 0")

    def on_leave(self, client: Any) -> None:
        """A tab has gone: what it played stops, and what it held is let go."""
        self.page.aids.held = False
        if client.client_id == self.by or not self.page.server.get_clients():
            self.stop()

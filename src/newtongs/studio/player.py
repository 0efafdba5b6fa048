"""A clock beside the page: it plays frames, or steps the live simulation, sixty times a second."""

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from .live import RATE

Mode: TypeAlias = Literal["still", "play", "live"]
LAST = 5.0  # seconds that a last step may take
CATCH_UP = 3  # steps at most in a tick: what is later than that is left out
BREATH = 0.001  # s that others have between two ticks, however late it is


class Player:
    """Calls back from a thread of its own while something moves; it sleeps otherwise."""

    def __init__(self, play: Callable[[float], None], step: Callable[[int], None]) -> None:
        """``play`` is called with the seconds gone, ``step`` with a number of live steps."""
        self.play, self.step = play, step
        self.mode: Mode = "still"
        self._wake, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._loop, daemon=True, name="newtongs player")
        self._thread.start()

    def set(self, mode: Mode) -> None:
        """Start or stop."""
        self.mode = mode
        if mode != "still":
            self._wake.set()

    def close(self) -> None:
        """For good: no step is under way afterwards."""
        self._closed, self.mode = True, "still"
        self._wake.set()
        self._thread.join(LAST)

    def _loop(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            last, owed = time.monotonic(), 0.0
            while self.mode != "still" and not self._closed:
                due = last + (1 - owed) / RATE
                time.sleep(max(due - time.monotonic(), BREATH))
                now = time.monotonic()
                gone, last = now - last, now
                if self.mode == "play":
                    owed = 0.0  # a live run may have left something
                    self.play(gone)
                    continue
                owed = min(owed + gone * RATE, CATCH_UP)
                if owed >= 1:
                    self.step(int(owed))
                    owed -= int(owed)

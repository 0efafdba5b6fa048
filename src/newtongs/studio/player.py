"""A clock thread that plays frames or steps the live simulation, 60 times per second."""

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from .live import RATE

Mode: TypeAlias = Literal["still", "play", "live"]
LAST = 5.0  # seconds to wait for the last step of a thread
CATCH_UP = 3  # maximum steps per tick; a longer backlog is dropped
BREATH = 0.001  # minimum seconds between two ticks, for other threads


class Player:
    """Calls back from its own thread while something moves, and sleeps otherwise."""

    def __init__(self, play: Callable[[float], None], step: Callable[[int], None]) -> None:
        """``play`` is called with the elapsed seconds, ``step`` with a number of live steps."""
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
        """End the thread; no step is running afterwards."""
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
                    owed = 0.0  # drop the backlog of a live run
                    self.play(gone)
                    continue
                owed = min(owed + gone * RATE, CATCH_UP)
                if owed >= 1:
                    self.step(int(owed))
                    owed -= int(owed)

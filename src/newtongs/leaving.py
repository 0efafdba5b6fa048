"""How a command is left: with one line and a code, at whatever moment Ctrl-C comes.

Before the command runs and after it there is nothing to tidy up: the process ends at once. So it
does while a library is loaded, which would not survive an exception. Else the first Ctrl-C is a
KeyboardInterrupt, which takes temporary files back; a second one ends the process at once, and the
next run removes what was left.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130


def leave(*_: object) -> NoReturn:
    """One line, and the end; also where Python itself is closing."""
    os.write(2, b"newtongs: stopped\n")
    os._exit(INTERRUPTED)


class Interrupts:
    """Whether somebody asked for the end."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _: int, frame: FrameType | None) -> None:
        """The handler of SIGINT."""
        if self.asked or _importing(frame):
            leave()
        self.asked = True
        raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    """Whether a library is being loaded; an exception there leaves it half there, or aborts it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """While a command runs."""
    asked = Interrupts()
    try:
        before = signal.signal(signal.SIGINT, asked)
    except ValueError:  # not the main thread: signals are somebody else's business
        yield asked
        return
    unraisable = sys.unraisablehook

    def seen(about: Any) -> None:
        """In a destructor the interrupt would be told and forgotten."""
        if issubclass(about.exc_type, KeyboardInterrupt):
            leave()
        unraisable(about)

    sys.unraisablehook = seen
    try:
        yield asked
    finally:
        sys.unraisablehook = unraisable
        signal.signal(signal.SIGINT, before)

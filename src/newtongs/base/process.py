"""The process we run in: how it ends on Ctrl-C, torch's threads, and memory that is freed.

Nothing heavy is imported here: the command line loads this before torch.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeAlias

INTERRUPTED = 130

Share: TypeAlias = Callable[[Callable[[int], Any], range], list[Any]]

# --- Ctrl-C ---------------------------------------------------------------------------------------
#
# Before the command runs and after it there is nothing to clean up: the process ends at once. The
# same holds while a library is imported, which would not survive an exception. Otherwise the first
# Ctrl-C raises KeyboardInterrupt, which removes temporary files; a second one ends the process at
# once, and the next run removes what was left.


def leave(*_: object) -> NoReturn:
    """Print one line and end the process, even while Python itself shuts down."""
    os.write(2, b"newtongs: stopped\n")
    os._exit(INTERRUPTED)


class Interrupts:
    """Handles SIGINT, and remembers whether one came."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.asked or _importing(frame):
            leave()
        self.asked = True
        raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    """Whether an import is under way; an exception leaves a library half loaded, or aborts it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Handle Ctrl-C while a command runs."""
    asked = Interrupts()
    try:
        before = signal.signal(signal.SIGINT, asked)
    except ValueError:  # not the main thread, which alone receives signals
        yield asked
        return
    unraisable = sys.unraisablehook

    def seen(about: Any) -> None:
        """Leave: Python would only report an interrupt in a destructor, and go on."""
        if issubclass(about.exc_type, KeyboardInterrupt):
            leave()
        unraisable(about)

    sys.unraisablehook = seen
    try:
        yield asked
    finally:
        sys.unraisablehook = unraisable
        signal.signal(signal.SIGINT, before)


# --- torch's threads ------------------------------------------------------------------------------

_lock = threading.Lock()
_inside = 0  # Python threads that hold torch to one thread
_outside = 1  # torch's threads when the first of them entered
_here = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread.

    Meant for many short operations: beside another busy process, two threads wait for each other at
    every one of them and take several times as long. Several Python threads may enter at once.
    """
    if getattr(_here, "inside", False):
        yield
        return
    before = _enter()
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = False
        _leave(before)


def _enter() -> int:
    """Set one thread; returns how many are to be set afterwards.

    Each Python thread has its own number, and one that is new to torch starts with the number that
    was set last, by any thread. So a number of one that is found while others are inside may be
    theirs and must not outlast them.
    """
    global _inside, _outside
    import torch

    with _lock:
        mine = torch.get_num_threads()
        if not _inside:
            _outside = mine
        _inside += 1
        torch.set_num_threads(1)
        return mine if mine > 1 else _outside


def _leave(before: int) -> None:
    global _inside
    import torch

    with _lock:
        _inside -= 1
        torch.set_num_threads(before)


def threads() -> int:
    """How many threads large work may use: torch's, or those it had before :func:`one_thread`."""
    import torch

    return _outside if getattr(_here, "inside", False) else torch.get_num_threads()


@contextmanager
def sharing() -> Iterator[Share]:
    """``share(work, items)`` calls ``work`` for each number, on :func:`threads` threads.

    These are not numba's own threads, which abort when two Python threads use them at once.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads()) as pool:
        yield lambda work, items: list(pool.map(work, items))  # waits, raises what a thread raised


# --- memory ---------------------------------------------------------------------------------------

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # glibc's names, from <malloc.h>
KEPT = 1 << 30  # bytes


def keep_freed() -> None:
    """Tune glibc's malloc to reuse freed arrays of up to a gigabyte instead of unmapping them.

    Linux clears all memory that it hands out; with millions of Gaussians every step would pay for
    that again. Only for a process of our own: it changes how the whole process allocates.

    All threads share one heap. By default each gets its own, and each would keep what was freed in
    it: the studio, whose actions run on any of 32 threads, grew by gigabytes within hours.
    """
    if (mallopt := _glibc("mallopt")) is not None:
        mallopt(ARENA_MAX, 1)
        mallopt(MMAP_THRESHOLD, KEPT)
        mallopt(TRIM_THRESHOLD, KEPT)


def give_back_freed() -> None:
    """Return freed memory before a step that needs other and larger arrays than the last."""
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


def _glibc(name: str) -> Any:
    """A function of glibc; None where there is another C library."""
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None


def available_memory() -> int | None:
    """Bytes of memory that a process can still get; None where the system does not say."""
    import psutil

    try:
        return int(psutil.virtual_memory().available)
    except (OSError, RuntimeError, NotImplementedError):
        return None


def peak_memory() -> int:
    """The most bytes of memory that this process has held so far."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

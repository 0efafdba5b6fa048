"""How many threads torch may use, for a while, and work shared among as many."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

Share: TypeAlias = Callable[[Callable[[int], Any], range], list[Any]]

_lock = threading.Lock()
_inside = 0  # Python threads that hold torch to one thread
_outside = 1  # torch's threads when the first of them came
_here = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread.

    For many short operations: beside another busy process two threads wait for each other at every
    one of them and take several times as long. Any number of Python threads may do so at once.
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

    The number belongs to the calling Python thread, and one that is new to torch starts with the
    number that was set last, by whomever. So one thread, found while others are inside, may be
    theirs and must not outlast them.
    """
    global _inside, _outside
    with _lock:
        mine = torch.get_num_threads()
        if not _inside:
            _outside = mine
        _inside += 1
        torch.set_num_threads(1)
        return mine if mine > 1 else _outside


def _leave(before: int) -> None:
    global _inside
    with _lock:
        _inside -= 1
        torch.set_num_threads(before)


def threads() -> int:
    """How many torch has, and had before :func:`one_thread`: what large work may be shared by."""
    return _outside if getattr(_here, "inside", False) else torch.get_num_threads()


@contextmanager
def sharing() -> Iterator[Share]:
    """``share(work, items)`` does the work for each number on as many threads as torch has.

    Within :func:`one_thread` as many as it had before. Not numba's own threads: they abort when two
    Python threads use them at once.
    """
    with ThreadPoolExecutor(threads()) as pool:
        yield lambda work, items: list(pool.map(work, items))  # waits, raises what a thread raised

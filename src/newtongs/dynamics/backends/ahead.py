"""Kernels compiled side by side, before the first of them is launched.

Triton compiles a kernel when it is first launched, so that one waits for the other: a machine's
first training run would begin with half a minute of it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import triton  # type: ignore[import-untyped]

_ahead: ContextVar[bool] = ContextVar("kernels are compiled, not launched", default=False)


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
    """``kernel[grid]``; within :func:`compiled_ahead` it is only compiled for its arguments."""
    return partial(kernel.warmup, grid=grid) if _ahead.get() else kernel[grid]


@contextmanager
def compiled_ahead() -> Iterator[None]:
    """Kernels launched in here, in this thread, are compiled at once and not run.

    What they would have written holds whatever was there. All are compiled when this ends.
    """
    with ThreadPoolExecutor() as pool, triton.AsyncCompileMode(pool):
        token = _ahead.set(True)
        try:
            yield
        finally:
            _ahead.reset(token)

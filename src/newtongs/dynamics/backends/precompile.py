"""Compiling kernels in parallel before the first of them is launched.

Triton compiles a kernel on its first launch, one after the other: the first training run on a
machine would start with half a minute of it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import triton  # type: ignore[import-untyped]

_precompiling: ContextVar[bool] = ContextVar("kernels are compiled, not launched", default=False)


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
    """``kernel[grid]``; within :func:`precompile` it is only compiled for its arguments."""
    return partial(kernel.warmup, grid=grid) if _precompiling.get() else kernel[grid]


@contextmanager
def precompile() -> Iterator[None]:
    """Kernels launched in here, in this thread, are compiled side by side and not run.

    Their outputs keep whatever was there. All are compiled when this ends.
    """
    with ThreadPoolExecutor() as pool, triton.AsyncCompileMode(pool):
        token = _precompiling.set(True)
        try:
            yield
        finally:
            _precompiling.reset(token)

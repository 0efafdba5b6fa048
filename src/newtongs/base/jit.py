"""Machine code by numba, kept on disk for as long as what it was made from stays the same.

Numba keeps what it has compiled beside the source, and compiles again when that file changes. It
does not see that a constant or a function changed which the file imports. Here these belong to
what is compared: all constants and compiled functions that a module knows when it compiles.
"""

import hashlib
import pickle
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGE = __name__.split(".")[0]
CONSTANTS = (bool, int, float, complex, str, bytes, tuple, np.generic, np.ndarray)


def njit(**options: Any) -> Callable[[Function], Function]:
    """``numba.njit`` with these options: compiled on the first call and kept on disk."""

    def decorate(function: Function) -> Function:
        compiled: Any = numba.njit(cache=True, **options)(function)
        if compiled is function:  # NUMBA_DISABLE_JIT
            return function
        compiled.imports = _digest(function.__globals__)
        file = compiled._cache._cache_file  # numba has no public way to say what makes it stale
        file._source_stamp = (*file._source_stamp, compiled.imports)
        file._load_index = _tolerant(file._load_index)
        return compiled

    return decorate


def _tolerant(load: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """An index whose types have been renamed since is empty: numba reads it before its stamp."""

    def load_index() -> dict[Any, Any]:
        try:
            return load()
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            return {}

    return load_index


def compiled(*fastmath: str, inside: bool = False) -> Callable[[Function], Function]:
    """For numerical loops: other threads go on meanwhile, and divisions by zero raise nothing.

    ``contract`` permits a fused multiply-add, ``reassoc`` a sum in another order, ``nsz`` to forget
    the sign of zero: they change the rounding and nothing else. ``inside`` puts the function's code
    where it is called: an array as an argument is seven numbers on the stack.
    """
    return njit(nogil=True, error_model="numpy", fastmath=set(fastmath), forceinline=inside)


def _digest(known: dict[str, Any]) -> str:
    """Of the constants and compiled functions among a module's names."""
    found = hashlib.sha256()
    for name, value in sorted(known.items()):
        if isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE):
            constants = {k: v for k, v in vars(value).items() if isinstance(v, CONSTANTS)}
            found.update(_digest(constants).encode())
        elif not name.startswith("__"):
            found.update(f"{name}={_described(value)};".encode())
    return found.hexdigest()


def _described(value: Any) -> str:
    """What compiled code would notice of a value; the same text in every process."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({','.join(map(_described, value))})"
    if isinstance(value, CONSTANTS):
        return f"{type(value).__name__}{value!r}"
    if isinstance(value, type) and issubclass(value, tuple):  # compiled code knows named tuples
        return str(getattr(value, "_fields", ()))
    if isinstance(value, CodeType):
        parts = value.co_code, value.co_consts, value.co_names
        return _described(parts)
    if hasattr(value, "imports"):  # a function compiled here
        return f"{_described(value.py_func.__code__)}{value.imports}"
    return ""

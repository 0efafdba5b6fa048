"""What becomes of memory that is freed."""

import ctypes
import sys
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's names for the two, from <malloc.h>
KEPT = 1 << 30  # bytes


def keep_freed() -> None:
    """Let freed arrays of up to a gigabyte be used again instead of going back to the system.

    Linux fills with zeros whatever it hands out; with millions of Gaussians every step would pay
    for that anew. For a process of our own only: it changes how the whole process allocates.
    """
    if (mallopt := _glibc("mallopt")) is not None:
        mallopt(MMAP_THRESHOLD, KEPT)
        mallopt(TRIM_THRESHOLD, KEPT)


def give_back_freed() -> None:
    """Let go of freed memory before a step that needs other and larger arrays than the last."""
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

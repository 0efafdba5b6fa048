"""What becomes of memory that is freed."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's names for the two, from <malloc.h>
KEPT = 1 << 30  # bytes


def keep_freed() -> None:
    """Let freed arrays of up to a gigabyte be used again instead of going back to the system.

    Linux fills with zeros whatever it hands out; with millions of Gaussians every step would pay
    for that anew. For a process of our own only: it changes how the whole process allocates.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(MMAP_THRESHOLD, KEPT)
    mallopt(TRIM_THRESHOLD, KEPT)

"""A disk that is full, for the length of a test."""

import resource
from contextlib import contextmanager


@contextmanager
def files_up_to(size):
    """No file can grow beyond ``size`` bytes: the system refuses, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

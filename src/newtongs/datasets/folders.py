"""A data set's folder while it is made: taken back after an error, and one build at a time."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import InputError

if sys.platform != "win32":
    import fcntl


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make the folder; after an error, take back what was made and stayed empty."""
    try:
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make folder {folder}: {error.strerror}") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty: an interrupted build is to go on
            for path in new:
                path.rmdir()
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second build out of the folder; the lock ends with the process, however it ends."""
    path = folder / ".state32.lock"
    try:
        file = path.open("w")
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from error
    with file:
        if not take_lock(file, path):
            raise InputError(
                f"another build is writing to {folder}; wait for its end, or choose another folder"
            )
        try:
            yield
        finally:
            with suppress(OSError):  # Windows keeps a file that is open
                path.unlink()


def take_lock(file: IO[str], path: Path) -> bool:
    """Lock an open file, unless somebody else has it."""
    if sys.platform == "win32":  # has no such locks
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: better unguarded than not at all
        return True
    # Who held it may have removed it since we opened it; a lock on a removed file keeps nobody out.
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False

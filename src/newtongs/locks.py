"""Locks that end with their process, however it ends: one writer a folder, and no leftovers.

The system gives a lock back when its holder dies, so that a stale one is recognised by being free.
Temporary files are locked while they are written; what is not locked any more was left behind by a
process that was killed, and the next one that writes into the folder removes it.
"""

import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import InputError

if sys.platform != "win32":
    import fcntl

PART = re.compile(r"\..+\.[a-z0-9_]{8}\.part")  # of a file that is being written
SCRATCH = "newtongs-scratch-"
PAUSE = 0.2  # seconds between two looks at a lock that is waited for

_held: set[Path] = set()  # by this process: whoever holds a folder may take it again
_swept: set[Path] = set()


@contextmanager
def alone(folder: Path, name: str = "newtongs", *, wait: bool = False) -> Iterator[None]:
    """Keep others from writing ``name`` in a folder, which is made.

    After an error, folders that were made and stayed empty are taken back.

    Args:
        folder: what is written.
        name: of what is written there, where several things have room side by side.
        wait: for the end of another writer, rather than refuse.
    """
    with made(folder):
        path = folder.resolve() / f".{name}.lock"
        if path in _held:
            yield
            return
        file = _taken(path, wait)
        _held.add(path)
        try:
            yield
        finally:
            _held.remove(path)
            with suppress(OSError):  # Windows keeps a file that is open
                path.unlink()
            file.close()


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make the folder; after an error, take back what was made and stayed empty."""
    try:
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot make folder {folder}: {reason}") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty: an interrupted build is to go on
            for path in new:
                path.rmdir()
        raise


def _taken(path: Path, wait: bool) -> IO[str]:
    """The open and locked file."""
    told = False
    while True:
        try:
            # A link might lead to a file that is somebody's, and would be emptied.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            file = os.fdopen(os.open(path, flags, 0o666), "a+")
        except OSError as error:
            raise InputError(f"cannot write to {path.parent}: {error.strerror}") from error
        if take_lock(file, path):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return file
        holder = _holder(file)
        file.close()
        if not wait:
            raise InputError(
                f"another process{holder} is writing to {path.parent}; wait for its end, or choose "
                "another folder"
            )
        if not told:
            warnings.warn(f"waiting for another process{holder} that writes {path}", stacklevel=4)
        told = True
        time.sleep(PAUSE)


def _holder(file: IO[str]) -> str:
    """The number of the process that holds a lock, in words."""
    file.seek(0)
    number = file.read(20).strip()
    return f" ({number})" if number.isdigit() else ""


def take_lock(file: IO[str] | int, path: Path, *, unknown: bool = True) -> bool:
    """Lock an open file or folder, unless somebody else has it or it is not there any more.

    ``unknown`` is the answer of a file system without locks: better unguarded than not at all.
    """
    if sys.platform == "win32":
        return unknown
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unknown
    # Who held it may have removed it since we opened it; a lock on a removed file keeps nobody out.
    number = file if isinstance(file, int) else file.fileno()
    try:
        return os.path.samestat(path.stat(), os.fstat(number))
    except FileNotFoundError:
        return False


def locked_part(path: Path) -> tuple[int, Path]:
    """An open temporary file beside ``path``; leftovers of other processes are removed once."""
    _sweep(path.parent, PART)
    while True:
        handle, part = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:200]}.", suffix=".part"
        )
        if take_lock(handle, Path(part)):
            return handle, Path(part)
        os.close(handle)  # another process took it for a leftover, in between


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder that is removed, at the latest by the next that needs one."""
    _sweep(Path(tempfile.gettempdir()), re.compile(re.escape(SCRATCH) + r"\w+"))
    while True:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH))
        try:
            handle = os.open(folder, os.O_RDONLY)
        except OSError:  # Windows opens no folders
            handle = -1
        if handle < 0 or take_lock(handle, folder):
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def _sweep(folder: Path, name: re.Pattern[str]) -> None:
    """Remove what killed processes left in a folder; once a process, for it may be large."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and not entry.is_symlink():
                _remove_abandoned(Path(entry.path))


def _remove_abandoned(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            if not take_lock(handle, path, unknown=False):
                return
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(handle)

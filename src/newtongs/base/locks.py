"""Locks that end with their process, however it ends: one writer per folder, and no leftovers.

The system releases a lock when its holder dies, so a stale lock file is one that can be locked.
Temporary files stay locked while they are written. One that can be locked was left behind by a
process that was killed, and the next process that writes into its folder removes it.
"""

import os
import re
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

PART = re.compile(r"\..+\.[a-z0-9_]{8}\.part")  # a file that is being written
# Not "newtongs-scratch-": earlier versions lock such a folder itself, and remove an unlocked one.
SCRATCH = "newtongs-work-"
SCRATCH_LOCK = re.compile(re.escape(SCRATCH) + r"\w+\.lock")
POLL_SECONDS = 0.2  # between two attempts at a lock that is waited for

_held: set[tuple[Path, int]] = set()  # here: whoever holds a folder may take it again
_swept: set[Path] = set()


@contextmanager
def alone(folder: Path, name: str = "newtongs", *, wait: bool = False) -> Iterator[None]:
    """Keep other processes from writing ``name`` in a folder, which is created if needed.

    After an error, folders that were created here and are still empty are removed.

    Args:
        folder: where the files are written.
        name: of what is written, where several outputs may share a folder.
        wait: for another writer to finish, instead of raising an error.
    """
    with made(folder):
        path = folder.resolve() / f".{name}.lock"
        # A command holds its folder for all its threads; two that write one file wait in turn.
        held = path, threading.get_ident() if wait else 0
        if held in _held:
            yield
            return
        handle = _taken(path, wait)
        _held.add(held)
        try:
            yield
        finally:
            _held.remove(held)
            _release(handle, path)


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Create the folder; after an error, remove what was created and is still empty."""
    try:
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot make folder {folder}: {reason}") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty: an interrupted build can be resumed
            for path in new:
                path.rmdir()
        raise


def _taken(path: Path, wait: bool) -> int:
    """The descriptor of a lock file that is now locked, and holds this process's number."""
    warned = False
    while True:
        try:
            # Never through a link: it might lead to somebody's file, which would be emptied.
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(path, flags, 0o666)
        except OSError as error:
            raise InputError(f"cannot write to {path.parent}: {error.strerror}") from error
        if take_lock(handle, path):
            os.ftruncate(handle, 0)
            # From the second byte on: Windows lets nobody else read the first, which is locked.
            os.write(handle, f"\n{os.getpid()}\n".encode())
            return handle
        holder = _holder(handle)
        os.close(handle)
        if not wait:
            raise InputError(
                f"another process{holder} is writing to {path.parent}; wait for it to finish, or "
                "choose another folder"
            )
        if not warned:
            warnings.warn(f"waiting for another process{holder} that writes {path}", stacklevel=4)
        warned = True
        time.sleep(POLL_SECONDS)


def _holder(handle: int) -> str:
    """The number of the process that holds a lock, in words."""
    os.lseek(handle, 1 if sys.platform == "win32" else 0, os.SEEK_SET)
    number = os.read(handle, 20).strip()
    return f" ({number.decode()})" if number.isdigit() else ""


def take_lock(handle: int, path: Path, *, unknown: bool = True) -> bool:
    """Lock an open file, unless another process holds it or it has been removed.

    ``unknown`` is the answer on a file system without locks: writing unguarded beats not writing.
    """
    from filelock import lock_descriptor  # here, because --help should not wait for it

    try:
        if not lock_descriptor(handle, blocking=False):
            return False
    except OSError:
        return unknown
    # The last holder may have removed the file since we opened it; such a lock keeps nobody out.
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _release(handle: int, path: Path) -> None:
    """Remove a locked file and unlock it.

    Windows removes no open file, so it is closed first, and stays if another process has opened it
    since. Elsewhere it must go while it is locked, or another process's lock might be removed.
    """
    if sys.platform == "win32":
        os.close(handle)
    with suppress(OSError):
        path.unlink()
    if sys.platform != "win32":
        os.close(handle)


def locked_part(path: Path) -> tuple[int, Path]:
    """An open temporary file beside ``path``; what killed processes left there is removed."""
    for stale in _stale(path.parent, PART):
        _remove(stale)
    return _locked_temporary(path.parent, f".{path.name[:200]}.", ".part")


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder that is removed afterwards, or after a kill by the next call.

    A folder cannot be locked everywhere, so a lock file stands beside it.
    """
    parent = Path(tempfile.gettempdir())
    for stale in _stale(parent, SCRATCH_LOCK):
        _remove(stale, stale.with_suffix(""))
    handle, lock = _locked_temporary(parent, SCRATCH, ".lock")
    folder = lock.with_suffix("")
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _release(handle, lock)


def _locked_temporary(folder: Path, prefix: str, suffix: str) -> tuple[int, Path]:
    while True:
        handle, name = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)
        if take_lock(handle, Path(name)):
            return handle, Path(name)
        os.close(handle)  # in between, another process took it for a leftover


def _stale(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Files that a killed process may have left in a folder; asked once, for it may be large."""
    if folder in _swept:
        return []
    _swept.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if name.fullmatch(entry.name) and not entry.is_symlink()
        ]
    return []


def _remove(path: Path, folder: Path | None = None) -> None:
    """Remove a file, and the folder it stands for, unless a living process holds its lock."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        if not take_lock(handle, path, unknown=False):
            os.close(handle)
            return
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():  # someone still writes there; the next process tries again
                os.close(handle)
                return
        _release(handle, path)

"""What a file may ask of the machine: one rule for memory, one for the disk, held before the work.

Memory: a file may unfold to a hundred times its size, and any file to 64 MB. Every reader asks
:func:`afford` before it makes room for what a header promises. Real captures unfold to about ten
times their size.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any

from .errors import InputError

SMALL = 64 << 20  # bytes that any file may unfold to
RATIO = 100  # beyond that, as many times its size
JSON_BYTES = 64 << 20  # of a description; those of captures have some 10,000
MANY_BYTES = 20 * 10**9  # of output that is not written without being asked again
ZEROS = bytes(1 << 20)


def allowance(size: int, small: int = SMALL) -> int:
    """Bytes that may unfold from a file of ``size`` bytes."""
    return max(small, RATIO * size)


def afford(path: Path | str, needed: int, size: int, what: str, small: int = SMALL) -> None:
    """Refuse what would take far more memory than a file of this size can mean."""
    if needed > allowance(size, small):
        raise InputError(f"{path} promises {what} in {size:,} bytes; it is damaged")


def parsed_json(path: Path | str, raw: bytes | str, most: int = JSON_BYTES) -> Any:
    """What a JSON text says; one line where it is none, too long, or nested too deep."""
    if len(raw) > most:
        raise InputError(f"{path}: expected up to {most:,} bytes of JSON; it is damaged")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: what should be JSON is no JSON; it is damaged") from error


def read_json(path: Path, most: int = JSON_BYTES) -> Any:
    """The content of a JSON file, of which no more is read than may be."""
    try:
        with path.open("rb") as f:
            raw = f.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return parsed_json(path, raw, most)


def free_bytes(folder: Path | str) -> int:
    """Room on the disk of a folder, which need not be there yet."""
    folder = Path(folder).absolute()
    there = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
    return shutil.disk_usage(there).free


def reserve(file: IO[bytes], size: int, what: str) -> None:
    """Have a temporary file's bytes on the disk before it is mapped.

    Where the disk is full a mapped file that has only a size would kill the process without a word.
    """
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return
        for start in range(0, size, len(ZEROS)):
            file.write(ZEROS[: size - start])
    except OSError as error:
        raise InputError(no_room(tempfile.gettempdir(), size, what)) from error


def no_room(folder: Path | str, size: int, what: str) -> str:
    """What to do where temporary files do not fit."""
    return (
        f"not enough space for {what}: {size / 1e9:.2f} GB needed in {folder}, "
        f"{free_bytes(folder) / 1e9:.2f} GB free; name another folder in TMPDIR, or write less"
    )

"""Reading a file that may not be there, and writing one that is never half there."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from .errors import InputError
from .locks import locked_part

WRITABLE = (".ply", ".compressed.ply", ".spz", ".sog", ".splat", ".glb", ".compressed.glb")

Progress: TypeAlias = Callable[[str, int, int], None]  # what, how much is done, of how much


def silent(what: str, done: int, of: int) -> None:
    """Progress that nobody asked for."""


def under(tell: Progress, name: str) -> Progress:
    """Progress of a part, told with its name before what is done."""
    return lambda what, done, of: tell(f"{name} {what}", done, of)


def require_ending(path: Path) -> str:
    """The ending of a splat file's name, the longest there is, if we write such files."""
    found = [ending for ending in WRITABLE if path.name.lower().endswith(ending)]
    if not found:
        raise InputError(f"cannot write {path}: expected a name that ends in {', '.join(WRITABLE)}")
    return max(found, key=len)


def existing_file(path: Path | str, wanted: str = "a file") -> Path:
    """The path, if a readable file stands there; ``wanted`` says what else to give."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; give {wanted}")
        if path.exists() and not path.is_file():  # a pipe would wait for ever
            raise InputError(f"{path} is no ordinary file; give {wanted}")
        with path.open("rb"):
            return path
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path}: {_reason(error)}") from error


def write_atomically(
    path: Path, write: Callable[[BinaryIO], object], *, sync: bool = False, what: str = ""
) -> None:
    """Let ``write`` fill a temporary file and rename it, so that no half file is ever seen.

    Args:
        path: where the file will stand; its folder is made.
        write: called with the open temporary file.
        sync: have the bytes on the disk before the rename, so that a power cut costs no old file.
        what: word for the file in an error, such as "picture".
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = locked_part(path)
        try:
            with os.fdopen(handle, "wb") as f:
                write(f)
                if sync:
                    f.flush()
                    os.fsync(f.fileno())
            os.chmod(part, 0o644)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        named = f"{what} {path}" if what else f"{path}"
        raise InputError(f"cannot write {named}: {_reason(error)}") from error


@contextmanager
def foreign(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever another library raises over a stranger's bytes into one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as {kind}: {first_line(error)[:160]}") from error


def first_line(error: Exception) -> str:
    """What a library says, without its further lines; some say nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _reason(error: OSError | ValueError) -> str:
    """Why, in the system's words where it has some."""
    return getattr(error, "strerror", None) or str(error)

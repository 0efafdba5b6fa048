"""What commands say and write: bars, JSON files, checks before the work."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..files import existing_file, write_atomically

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn, TaskID

WIDTH = 132  # of a table; narrower terminals wrap lines rather than lose columns

Advance = Callable[[str, int, int], None]


def wide_console() -> "Console":
    """Standard output, never cut to a narrow terminal."""
    from rich.console import Console

    console = Console()
    return console if console.width >= WIDTH else Console(width=WIDTH)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file that people can read."""
    text = json.dumps(content, indent=1)
    write_atomically(path, lambda f: f.write(text.encode()))


def check_target(path: Path) -> None:
    """Find out before the work whether a file can be written there."""
    if path.is_dir():  # also the empty name
        raise InputError(f"cannot write {path}: it is a folder; name a file in it")
    parent = next(p for p in path.absolute().parents if os.path.lexists(p))
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise InputError(f"cannot write {path}: {parent} is no folder that can be written to")


def check_folder(path: Path) -> None:
    """Find out before the work whether files can be written into a folder."""
    if path.exists() and not path.is_dir():
        raise InputError(f"cannot write into {path}: it is a file; name a folder")
    check_target(path / "file")


def check_scene(name: str | None) -> None:
    """Find out before anything is loaded whether a splat file is there.

    Our own scenes are named by words without an ending.
    """
    if name and Path(name).suffix and not Path(name).is_dir():
        existing_file(name, "a file of Gaussians")


@contextmanager
def bars(*columns: "ProgressColumn") -> Iterator[Callable[..., None]]:
    """Bars on standard error, fed by calls of (name, done, total, further fields).

    They are drawn from the first call on, so that an error before it stands alone, and only on a
    terminal: in a log they would be noise.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    drawn = Progress(*columns, console=console, disable=not console.is_terminal)
    tasks: dict[str, TaskID] = {}

    def advance(name: str, done: int, total: int, **shown: Any) -> None:
        drawn.start()
        if name not in tasks:
            tasks[name] = drawn.add_task(name, total=total, completed=done, **shown)
        drawn.update(tasks[name], completed=done, **shown)

    try:
        yield advance
    finally:
        if tasks:
            drawn.stop()


@contextmanager
def progress_bar(unit: str = "sequences") -> Iterator[Advance]:
    """A bar for each name, fed by calls of (name, done, total)."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    with bars(
        TextColumn("{task.description:8}"), BarColumn(),
        TextColumn("{task.completed:>9,.0f}/{task.total:,.0f} " + unit), TimeRemainingColumn(),
    ) as advance:  # fmt: skip
        yield advance

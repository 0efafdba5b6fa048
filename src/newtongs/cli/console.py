"""Output of commands: progress bars, JSON files, checks before the work starts."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError, Interrupted
from ..base.files import existing_file, is_address, write_atomically
from ..base.locks import locked_part
from ..base.process import INTERRUPTED

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, TaskID
    from rich.table import Table

    from ..base.types import Progress

WIDEST = 1000  # characters of a table


def print_table(table: "Table") -> None:
    """Print at the table's width; a narrower terminal wraps lines, so that no column is lost."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    wide = console.options.update(width=WIDEST)
    needed = Measurement.get(console, wide, table).maximum
    if needed > console.width:
        console = Console(width=needed)
    console.print(table)


def silent() -> AbstractContextManager[object]:
    """While it is open, nothing is printed: what follows is the only output."""
    return redirect_stdout(StringIO())


def write_json(path: Path, content: Any) -> None:
    """Write an indented JSON file."""
    text = json.dumps(content, indent=1)
    write_atomically(path, lambda f: f.write(text.encode()))


def check_target(path: Path) -> None:
    """Check before the work starts that a file can be written."""
    if path.is_dir():  # the empty name, too
        raise InputError(f"cannot write {path}: it is a folder; name a file in it")
    _check_writable(path, path.absolute().parents)


def check_folder(path: Path) -> None:
    """Check before the work starts that files can be written into a folder."""
    if path.exists() and not path.is_dir():
        raise InputError(f"cannot write into {path}: it is a file; name a folder")
    _check_writable(path, [path.absolute(), *path.absolute().parents])


def _check_writable(path: Path, folders: Iterable[Path]) -> None:
    """Check that files can be made in the first of the folders that exists."""
    folder = next(p for p in folders if os.path.lexists(p))
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InputError(
            f"cannot write {path}: {folder} is not a writable folder; name another place"
        )
    try:  # permissions do not tell all, and root has every one of them
        handle, part = locked_part(folder / "newtongs")
        os.close(handle)
        part.unlink()
    except OSError as error:
        raise InputError(
            f"cannot write {path}: no file can be made in {folder} ({error.strerror}); name "
            "another place"
        ) from error


def check_scene(name: str | None) -> None:
    """Check before anything is loaded that a splat file exists.

    Names without a suffix mean built-in scenes.
    """
    if name and (is_address(name) or (Path(name).suffix and not Path(name).is_dir())):
        existing_file(name, "a file of Gaussians")


@contextmanager
def reported_once() -> Iterator[None]:
    """Under torchrun all ranks raise the same bad input; only rank 0 reports it."""
    try:
        yield
    except (InputError, Interrupted) as error:
        if os.environ.get("RANK", "0") == "0":
            raise
        sys.exit(2 if isinstance(error, InputError) else INTERRUPTED)


@contextmanager
def bars(*columns: "ProgressColumn") -> Iterator[Callable[..., None]]:
    """Progress bars on standard error, updated by calls of (name, done, total, further fields).

    They appear with the first call, so that an error before it stands alone, and only on a
    terminal: in a log they would be noise.
    """
    from rich.console import Console
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    drawn = Bars(*columns, console=console, disable=not console.is_terminal)
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
def progress_bar(unit: str = "sequences") -> Iterator["Progress"]:
    """A progress bar for each name, updated by calls of (name, done, total)."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    with bars(
        TextColumn("{task.description:8}"), BarColumn(),
        TextColumn("{task.completed:>9,.0f}/{task.total:,.0f} " + unit), TimeRemainingColumn(),
    ) as advance:  # fmt: skip
        yield advance

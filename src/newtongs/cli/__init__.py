"""The command ``newtongs``: each subcommand is a dataclass whose fields are the flags.

Commands import heavy modules inside ``run``. Torch and the compilers take seconds to load, and help
pages, misspelt flags and missing files should respond at once.
"""

import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..base.errors import InputError, InputWarning, Interrupted, printable
from ..base.files import require_local
from ..base.locks import alone
from ..base.process import INTERRUPTED, interruptible, keep_freed
from . import (  # noqa: F401  (each registers its commands)
    ablations,
    animate,
    assistant,
    collider,
    continuing,
    convert,
    data,
    evaluate,
    factory,
    figure,
    first_frame,
    generate,
    inspect,
    l4gm,
    reproduce,
    studio,
    train,
)
from .apps import Command, app

USAGE_ERROR = 2
FLAGS = {  # of Python arguments that have another name on the command line
    "floor_height": "--floor", "objects": "--push", "solids": "--plane or --box",
    "Place(up=..., floor_height=...)": "--ground UX UY UZ HEIGHT",
}  # fmt: skip
ANSI = re.compile(r"\x1b\[[0-9;]*m")  # colours and styles of a terminal
KINDS = {
    ("FLOAT", False): "a number", ("FLOAT", True): "numbers separated by spaces",
    ("INT", False): "a whole number", ("INT", True): "whole numbers separated by spaces",
}  # fmt: skip


def parse(args: Sequence[str] | None) -> Command:
    """Parse the command line; tyro's error box becomes one line."""
    words, box = list(sys.argv[1:] if args is None else args), io.StringIO()
    if words[:1] in (["--version"], ["-V"]):
        print(f"newtongs {__version__}")
        sys.exit(0)
    try:
        with redirect_stderr(box):
            return app.parse(words)
    except SystemExit as stop:
        if stop.code == USAGE_ERROR:
            raise InputError(one_line(box.getvalue())) from None
        raise


def one_line(box: str) -> str:
    """Tyro's error box on one line: what is wrong, the closest match, where to find help.

    Horizontal rules divide the box into the error, advice, and the command for help.
    """
    rows = [row.strip("│| ") for row in ANSI.sub("", box).splitlines()[1:-1]]
    parts = re.split(r"(?:^|\n)[─-]{5,}\n", "\n".join(rows))
    parts = [part for part in parts if part.strip()]
    # An InputError from a configuration class needs no class name in front.
    lines = [re.sub(r"^Error parsing [A-Z]\w+: ", "", parts[0].split("\n\n")[0])]
    for words in (part.split() for part in parts[1:]):
        match words[:3]:
            case ["Perhaps", "you", "meant:"]:
                lines.append(f"did you mean {words[3]}?")
            case ["For", "full", "helptext,"]:
                lines.append(f"see {' '.join(words[words.index('newtongs') :])}")
            case ["Argument", "helptext:", _]:
                pass
            case _:
                lines.append(" ".join(words))
    lines[0] = plain(lines[0])
    return "; ".join(f"{s[:1].lower()}{' '.join(s[1:].split())}".removesuffix(".") for s in lines)


def plain(error: str) -> str:
    """Tyro's message about a wrong value, as expected and got."""
    error = " ".join(error.split())
    words = re.search(r"(?:instantiated from|parse for arguments:) \[(.*)\]", error)
    flag = re.match(r"Error parsing (--[\w-]+)", error)
    if words and flag:
        kind = re.search(r"\b(FLOAT|INT)\b( \[)?", error)
        wanted = KINDS[kind[1], bool(kind[2])] if kind else "other values, or more or fewer"
        return f"{flag[1]}: expected {wanted}, got {unquoted(words[1])}"
    if wrong := re.search(r"could not convert string to float: '(.*)'", error):
        return f"{flag[1] if flag else 'a value'}: expected a number, got {wrong[1]}"
    return error


def unquoted(words: str) -> str:
    """The contents of a printed list of strings."""
    return words.replace("', '", " ").strip("'")


def sole_writer(command: Command) -> AbstractContextManager[None]:
    """Keep a second command out of the folder that this one writes; writes are atomic anyway.

    With ``locks_out = False`` a command writes nothing, shares its folder, or locks it itself.
    """
    out = getattr(command, "out", None)
    if isinstance(out, str | Path):
        require_local(out)
    if not isinstance(out, Path) or not getattr(command, "locks_out", True):
        return nullcontext()
    is_folder = out.is_dir() or not (out.suffix or os.path.lexists(out))
    return alone(out) if is_folder else nullcontext()


def main(args: Sequence[str] | None = None) -> None:
    """Parse the command line and run; bad input becomes one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # file names need not be valid text
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = show_warning  # type: ignore[assignment]
    with interruptible() as interrupts:
        command: Command | None = None
        try:
            command = parse(args)
            keep_freed()
            with sole_writer(command):
                command.run()
        except KeyboardInterrupt:
            stop(command)
        except Interrupted as saved:
            print(f"newtongs: {saved}; run the same command again to resume", file=sys.stderr)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # the reader of our output has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if interrupts.asked:  # Ctrl-C also stopped ffmpeg, and a library raised its own error
                stop(command)
            if not isinstance(error, InputError | OSError | MemoryError):
                raise
            print(f"newtongs: {one_reason(error)}", file=sys.stderr)
            sys.exit(USAGE_ERROR)


def stop(command: Command | None) -> NoReturn:
    """Exit after Ctrl-C."""
    advice = "; run the same command again to resume" if command and command.resumes else ""
    print(f"newtongs: stopped{advice}", file=sys.stderr)
    sys.exit(INTERRUPTED)


def show_warning(message: Warning | str, *where: object) -> None:
    """Print a warning as one line, without its place in the code."""
    line = message.spelled(as_flag) if isinstance(message, InputWarning) else str(message)
    print(f"newtongs: {line}", file=sys.stderr)


def as_flag(name: str, value: str) -> str:
    """Spell an argument of a Python function as a flag of the command line."""
    flag = FLAGS.get(name) or f"--{name.replace('_', '-')}"
    return f"{flag} {value}" if value else flag


def one_reason(error: Exception) -> str:
    """The error in one line: our own message, or the system's."""
    if isinstance(error, MemoryError):
        return "not enough memory; use a smaller scene, picture or batch"
    if isinstance(error, InputError):
        return error.spelled(as_flag)
    if not isinstance(error, OSError):
        return str(error)
    where = f" {printable(str(error.filename))}" if error.filename else ""
    reason = error.strerror or printable(str(error).splitlines()[0])
    return f"cannot read or write{where}: {reason}; finished files are kept"

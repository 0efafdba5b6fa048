"""The command ``newtongs``: one subcommand a dataclass, whose fields are the flags.

The files of the commands import what they work with inside ``run``: torch and the compilers take
seconds to load, and help, misspelt words and missing files should answer at once.
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
from ..errors import InputError, Interrupted
from ..leaving import INTERRUPTED, interruptible
from ..locks import alone
from . import (  # noqa: F401  (each adds its commands)
    ablations,
    animate,
    collider,
    convert,
    data,
    evaluate,
    figure,
    first_frame,
    gallery,
    generate,
    inspect,
    l4gm,
    reproduce,
    studio,
    train,
)
from .apps import Command, app

USAGE_ERROR = 2
ANSI = re.compile(r"\x1b\[[0-9;]*m")  # colours and weights of a terminal
KINDS = {
    ("FLOAT", False): "a number", ("FLOAT", True): "numbers with spaces between them",
    ("INT", False): "a whole number", ("INT", True): "whole numbers with spaces between them",
}  # fmt: skip


def parse(args: Sequence[str] | None) -> Command:
    """The command that the words name; tyro's box about wrong words becomes one line."""
    words, said = list(sys.argv[1:] if args is None else args), io.StringIO()
    if words[:1] in (["--version"], ["-V"]):
        print(f"newtongs {__version__}")
        sys.exit(0)
    try:
        with redirect_stderr(said):
            return app.parse(words)
    except SystemExit as stop:
        if stop.code == USAGE_ERROR:
            raise InputError(one_line(said.getvalue())) from None
        raise


def one_line(box: str) -> str:
    """What tyro's box says, on one line: what is wrong, the near miss, where help is.

    Rules cut the box into parts: the error, advice, the command for help.
    """
    rows = [row.strip("│| ") for row in ANSI.sub("", box).splitlines()[1:-1]]
    parts = re.split(r"\n[─-]{5,}\n", "\n".join(rows))
    # An InputError of the configuration itself needs no name of a class before it.
    said = [re.sub(r"^Error parsing [A-Z]\w+: ", "", parts[0].split("\n\n")[0])]
    for words in (part.split() for part in parts[1:]):
        match words[:3]:
            case ["Perhaps", "you", "meant:"]:
                said.append(f"did you mean {words[3]}?")
            case ["For", "full", "helptext,"]:
                said.append(f"see {' '.join(words[words.index('newtongs') :])}")
            case ["Argument", "helptext:", _]:
                pass
            case _:
                said.append(" ".join(words))
    said[0] = plain(said[0])
    return "; ".join(f"{s[:1].lower()}{' '.join(s[1:].split())}".removesuffix(".") for s in said)


def plain(error: str) -> str:
    """What tyro says of a value that does not fit, without the words of a parser."""
    error = " ".join(error.split())
    words = re.search(r"(?:instantiated from|parse for arguments:) \[(.*)\]", error)
    flag = re.match(r"Error parsing (--[\w-]+)", error)
    if words and flag:
        kind = re.search(r"\b(FLOAT|INT)\b( \[)?", error)
        wanted = KINDS[kind[1], bool(kind[2])] if kind else "other words, or more or fewer of them"
        return f"{flag[1]}: expected {wanted}, got {unquoted(words[1])}"
    if wrong := re.search(r"could not convert string to float: '(.*)'", error):
        return f"{flag[1] if flag else 'a value'}: expected a number, got {wrong[1]}"
    return error


def unquoted(words: str) -> str:
    """The words of a printed list of strings."""
    return words.replace("', '", " ").strip("'")


def sole_writer(command: Command) -> AbstractContextManager[None]:
    """Keep the folder that a command writes from a second one; files are written whole anyway."""
    out = getattr(command, "out", None)
    if not isinstance(out, Path) or getattr(command, "side_by_side", False):
        return nullcontext()
    a_folder = out.is_dir() or not (out.suffix or os.path.lexists(out))
    return alone(out) if a_folder else nullcontext()


def main(args: Sequence[str] | None = None) -> None:
    """Parse, run, and turn bad input into one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name may be no text
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = lambda message, *where: print(f"newtongs: {message}", file=sys.stderr)
    with interruptible() as interrupts:
        command: Command | None = None
        try:
            command = parse(args)
            with sole_writer(command):
                command.run()
        except KeyboardInterrupt:
            stop(command)
        except Interrupted as saved:
            print(f"newtongs: {saved}; run the same command again to go on", file=sys.stderr)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if interrupts.asked:  # what runs beside us, such as ffmpeg, was stopped as well
                stop(command)
            if not isinstance(error, InputError | OSError | MemoryError):
                raise
            print(f"newtongs: {one_reason(error)}", file=sys.stderr)
            sys.exit(USAGE_ERROR)


def stop(command: Command | None) -> NoReturn:
    """Leave after Ctrl-C."""
    go_on = "; run the same command again to go on" if command and command.resumes else ""
    print(f"newtongs: stopped{go_on}", file=sys.stderr)
    sys.exit(INTERRUPTED)


def one_reason(error: Exception) -> str:
    """What is wrong, in one line: our own words, or the system's."""
    if isinstance(error, MemoryError):
        return "not enough memory; try a smaller scene, picture or batch"
    if not isinstance(error, OSError):
        return str(error)
    where = f" {error.filename}" if error.filename else ""
    reason = error.strerror or str(error).splitlines()[0]
    return f"cannot read or write{where}: {reason}; what was finished stays"

"""Exceptions that a user can cause, and helpers that word them.

Everything raised at the public edge is an :class:`InputError`: a single line that says what was
expected, what came, and what to do. The command line prints it and exits with code 2.
"""

import difflib
import re
from collections.abc import Callable, Iterable

MOST_SHOWN = 60  # characters of a name that is not known
# What a terminal obeys and what reverses or breaks a line; names in files may hold any of it.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MARK = "\ue000"  # private use: encloses the name of an argument in a message


def printable(text: str) -> str:
    """A line that a terminal shows and does not obey: control characters as escapes."""
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def argument(name: str, value: str = "") -> str:
    """An argument as a message mentions it: ``name=value`` in Python, ``--flag value`` in a shell.

    Which of the two is decided where the message is shown: see :meth:`InputError.spelled`.
    """
    return f"{_MARK}{name}{_MARK}{value}{_MARK}"


class _Spelled(Exception):  # noqa: N818  (shared by an error and a warning)
    """A message whose arguments are written as whoever shows it spells them."""

    def spelled(self, spell: Callable[[str, str], str]) -> str:
        """The line, with every :func:`argument` as ``spell(name, value)`` writes it."""
        pattern = f"{_MARK}(.*?){_MARK}(.*?){_MARK}"
        return printable(re.sub(pattern, lambda found: spell(*found.groups()), super().__str__()))

    def __str__(self) -> str:
        return self.spelled(lambda name, value: f"{name}={value}" if value else name)


class InputError(_Spelled, ValueError):
    """Input that cannot be used, explained in one line."""


class InputWarning(_Spelled, UserWarning):
    """Input that can be used, but perhaps not as it was meant."""


class Interrupted(Exception):  # noqa: N818  (not an error: the run is saved and can go on)
    """A signal asked a run to stop; everything up to its last step is on disk."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for an unknown name that suggests the near miss."""
    names, name = list(known), name[:MOST_SHOWN]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")

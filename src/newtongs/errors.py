"""The exceptions a user can cause, and the helpers that word them.

Everything raised at the public edge is an :class:`InputError`: a single line that says what was
expected, what came, and what to do. The command line prints it and exits with code 2.
"""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used, explained in one line."""


class Interrupted(Exception):  # noqa: N818  (not an error: the run is saved and can go on)
    """A signal asked a run to stop; everything up to its last step is on disk."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for a name outside a fixed set that suggests the near miss."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")

"""Selections as words, changed by a person: grown, shrunk, joined."""

import re

from ..errors import InputError

REACH = re.compile(r"(grown|shrunk):([^:]+):(.+)")
NUMBERED = re.compile(r"((?:(?:grown|shrunk):[^:]+:)?)(cluster|id):([\d+]+)")


def resized(word: str, by: float) -> str:
    """The selection with its reach longer by ``by`` scene units, or shorter where it is below 0."""
    found = REACH.fullmatch(word)
    reach, inner = 0.0, word
    if found is not None:
        reach, inner = float(found[2]) * (1 if found[1] == "grown" else -1), found[3]
    reach += by
    if abs(reach) < abs(by) / 2:
        return inner
    return f"{'grown' if reach > 0 else 'shrunk'}:{abs(reach):.6g}:{inner}"


def joined(word: str, more: str) -> str:
    """Two things as one; both must be clusters, or objects of the file."""
    a, b = NUMBERED.fullmatch(word), NUMBERED.fullmatch(more)
    if a is None or b is None or a[2] != b[2] or b[1]:
        raise InputError(f"{word} and {more} cannot be joined: both must be clusters, or ids")
    numbers = sorted({*a[3].split("+"), *b[3].split("+")}, key=int)
    return f"{a[1]}{a[2]}:{'+'.join(numbers)}"


def hangs_on_floor(word: str) -> bool:
    """Whether a word means something else above another floor: clusters are found above it."""
    return "cluster" in word or word.endswith("auto")


def refuse_files(word: str) -> None:
    """A word from the browser names no folder."""
    if "masks" in word:
        raise InputError("masks are read from a folder; use newtongs animate --select masks:FOLDER")

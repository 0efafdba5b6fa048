"""Files that were opened before: a short list in the user's own folder."""

import json
import os
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..files import write_atomically

MOST = 8


def place() -> Path:
    """Where the list is kept."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "newtongs" / "recent.json"


def files() -> list[Path]:
    """Those that are still there, the newest first; none where the list cannot be read."""
    try:
        words = json.loads(place().read_bytes())
        return [Path(word) for word in words if isinstance(word, str) and Path(word).is_file()]
    except (OSError, ValueError, TypeError, RuntimeError):
        return []


def remember(path: Path) -> None:
    """Put a file first; where the list cannot be written, it is not."""
    path = path.resolve()
    found = [path, *(p for p in files() if p != path)][:MOST]
    text = json.dumps([str(p) for p in found], indent=1).encode() + b"\n"
    with suppress(InputError, RuntimeError):  # RuntimeError: no home
        write_atomically(place(), lambda f: f.write(text))


def labels(paths: list[Path]) -> dict[str, Path]:
    """A line for each, with its folder's name: the browser says a line, and never a path."""
    return {f"{k + 1}: {p.parent.name}/{p.name}": p for k, p in enumerate(paths)}

"""Where a record comes from: program, commit, date, machine, libraries."""

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

KEYS = ("newtongs", "commit", "date", "machine", "device", "torch")
GIT_PATIENCE = 5.0  # seconds


def made(device: str = "cpu", seconds: float | None = None) -> dict[str, Any]:
    """The origin of what is made now on ``device``, in ``seconds``."""
    import torch

    from .. import __version__

    about: dict[str, Any] = {
        "newtongs": __version__,
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "device": _device(device),
        "torch": torch.__version__,
    }
    return about if seconds is None else about | {"seconds": round(seconds, 2)}


def in_words(about: Mapping[str, Any]) -> str:
    """One line for the foot of a page."""
    return (
        f"newtongs {about['newtongs']}, commit {about['commit']}, {about['date']}, "
        f"{about['machine']}, {about['device']}, torch {about['torch']}"
    )


@cache
def commit() -> str:
    """The commit of the checkout that this package lies in; "+" follows where files differ."""
    here = Path(__file__).parent
    found = _git(here, "rev-parse", "--short=12", "HEAD")
    if found is None:
        return "not a checkout"
    changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", str(here.parent))
    return found + ("+" if changed else "")


def _git(folder: Path, *words: str) -> str | None:
    """What git says of the package's own folder; None if it knows nothing of it."""
    try:
        if _asked(folder, "ls-files", "--error-unmatch", "files.py") is None:
            return None  # installed inside somebody else's checkout
        return _asked(folder, *words)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _asked(folder: Path, *words: str) -> str | None:
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        capture_output=True, text=True, check=False, timeout=GIT_PATIENCE,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else None


def machine() -> str:
    """The machine in a few words."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def _device(device: str) -> str:
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"

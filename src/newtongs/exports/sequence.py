"""A folder of ``.ply`` files, one per frame, as SuperSplat and most splat tools import.

Every frame repeats every Gaussian: 60 frames of 50,000 with full colour are 744 MB. The other
formats store the Gaussians once.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from ..base.errors import InputError
from ..formats.files import save
from ..scene.animation import Animation
from .parts import cut

NAME = re.compile(r"frame(\d{4,})\.ply")


def write_sequence(
    animation: Animation,
    folder: Path | str,
    *,
    sh_degree: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write ``frame0001.ply``, ``frame0002.ply`` ... one at a time, and return their paths.

    They appear in the folder once all are written. Frames of an earlier, longer sequence are
    removed.

    Args:
        animation: what moves.
        folder: created if necessary.
        sh_degree: highest degree of view-dependent colour, for smaller files.
        progress: called with the number of frames done, after each.
    """
    folder = Path(folder)
    frames, names = animation.frames(), [f"frame{t + 1:04d}.ply" for t in range(len(animation))]
    part = folder.with_name(f".{folder.name}.part")  # an interrupted sequence leaves nothing
    try:
        for t, name in enumerate(names):
            save(cut(frames[t], sh_degree), part / name)
            if progress:
                progress(t + 1)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            os.replace(part / name, folder / name)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    _remove_older(folder, len(animation))
    return [folder / name for name in names]


def _remove_older(folder: Path, last: int) -> None:
    """Remove frames after the last: they belong to another animation."""
    try:
        for path in folder.iterdir():
            found = NAME.fullmatch(path.name)
            if found and int(found[1]) > last:
                path.unlink()
    except OSError as error:
        raise InputError(f"cannot remove old frames in {folder}: {error.strerror}") from error

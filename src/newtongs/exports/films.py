"""Rendered frames of an animation, shared by all formats that need them."""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.files import reserve
from ..render import render_frames
from ..render.scenes import placed
from ..render.video import to_bytes
from ..scene.animation import Animation
from ..scene.cameras import Camera

SHEET = 8  # frames of a contact sheet
COLUMNS = 4

FilmFrames = npt.NDArray[np.uint8]  # (T, H, W, 3)


@contextmanager
def film(
    animation: Animation,
    camera: Camera | Sequence[Camera],
    *,
    backend: str,
    background: Sequence[float],
    progress: Callable[[int], None] | None = None,
) -> Iterator[FilmFrames]:
    """All pictures ``(T, H, W, 3)`` as bytes, in a temporary file instead of memory.

    ``camera`` is one for all frames, or one per frame.
    """
    first = camera if isinstance(camera, Camera) else camera[0]
    shape = (len(animation), first.height, first.width, 3)
    frames = placed(animation.frames(), backend)
    pictures = render_frames(
        frames, camera, backend=backend, background=background, progress=progress
    )
    with tempfile.TemporaryFile() as file:
        reserve(file, math.prod(shape), f"{len(animation)} pictures")
        out: Any = np.memmap(file, np.uint8, "w+", shape=shape)
        for t, picture in enumerate(pictures):
            out[t] = to_bytes(picture)
        yield out


def spread(frames: FilmFrames) -> list[FilmFrames]:
    """A few frames, evenly spaced from the first to the last, for a contact sheet."""
    chosen = np.linspace(0, len(frames) - 1, min(SHEET, len(frames))).round().astype(int)
    return [frames[t] for t in chosen]

"""Encode arrays as files: equal arrays give equal bytes."""

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..base.locks import scratch
from ..base.types import Array
from ..render.video import QUALITY, count_frames, film_library, write_h264
from .spec import Rgb

# The bytes would depend on the number of threads, and on the encoder's version if it were noted.
SAME_BYTES = [
    "-threads", "1", "-preset", "faster", "-fflags", "+bitexact", "-flags:v", "+bitexact",
    "-map_metadata", "-1",
]  # fmt: skip


# Colours at half resolution, which every player can show, or at full resolution with less loss.
PLAYED, FULL = ("yuv420p", QUALITY), ("yuv444p", "10")


def mp4(frames: Array, fps: float, kept: tuple[str, str] = PLAYED) -> bytes:
    """Frames ``(T, H, W, 3)`` uint8, of even size, as H.264.

    ``kept`` is the pixel format and the constant rate factor.
    """
    with scratch() as folder:
        path = folder / "film.mp4"
        write_h264(path, frames, frames.shape[1:3], fps, *kept, SAME_BYTES)
        found = count_frames(path)
        if found != len(frames):
            raise InputError(f"ffmpeg wrote {found} of {len(frames)} frames; run the command again")
        return path.read_bytes()


def webp(frames: Array, fps: float) -> bytes:
    """Frames as a lossless animated webp."""
    image = film_library("PIL.Image").fromarray
    out = io.BytesIO()
    first, *rest = (image(frame) for frame in frames)
    first.save(
        out, format="WEBP", save_all=True, append_images=rest, lossless=True, method=2,
        duration=round(1000 / fps), loop=0, minimize_size=False, allow_mixed=False,
    )  # fmt: skip
    return out.getvalue()


RGB: dict[Rgb, Callable[[Array, float], bytes]] = {
    "mp4": mp4, "mp4_full": partial(mp4, kept=FULL), "webp": webp,
}  # fmt: skip


def rgb(frames: Array, fps: float, kind: Rgb) -> tuple[str, bytes]:
    """File suffix and bytes of a film."""
    return kind.split("_")[0], RGB[kind](frames, fps)


def npz(arrays: Mapping[str, Array]) -> bytes:
    """Compressed arrays. Time, the first axis, varies fastest, so that what is constant is small.

    ``numpy.load`` gives the arrays back in their shapes.
    """
    out = io.BytesIO()
    stored: dict[str, Any] = {name: np.asfortranarray(x) for name, x in arrays.items()}
    np.savez_compressed(out, **stored)
    return out.getvalue()


def text(tree: Any) -> bytes:
    """Indented JSON."""
    return (json.dumps(tree, indent=1, sort_keys=True) + "\n").encode()

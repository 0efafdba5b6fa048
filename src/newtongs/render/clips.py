"""Frames of films that others made: a few of them, in one pass and without holding the others."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import existing_file, foreign
from .video import Bytes, film_library

ENDINGS = (".mp4", ".mov", ".webm", ".avi", ".mkv", ".gif")


def count_frames(path: Path | str) -> int:
    """How many frames a film has, by decoding it; a header may say anything."""
    path = existing_file(path, "a film")
    ffmpeg = film_library("imageio_ffmpeg")
    try:
        frames = int(ffmpeg.count_frames_and_secs(str(path))[0])
    except (RuntimeError, OSError, ValueError) as error:  # its words are ffmpeg's exit status
        raise InputError(f"{path} cannot be read as a film; it is damaged or no film") from error
    if frames < 1:
        raise InputError(f"{path} cannot be read as a film: it has no frame")
    return frames


def frames_at(path: Path | str, indices: Sequence[int]) -> list[Bytes]:
    """The frames ``(H, W, 3)`` with these indices, in the order asked for."""
    path, wanted = existing_file(path, "a film"), set(indices)
    found: dict[int, Bytes] = {}
    with foreign(path, "a film"):
        for i, frame in enumerate(_decoded(path)):
            if i in wanted:
                found[i] = frame
            if len(found) == len(wanted):
                break
    missing = sorted(wanted - found.keys())
    if missing:
        raise InputError(f"{path}: no frame {missing[0]}; the film ends before it")
    return [found[i] for i in indices]


def _decoded(path: Path) -> Iterator[Bytes]:
    """Frames as they come; the decoder ends with the loop over them."""
    reader: Any = film_library("imageio_ffmpeg").read_frames(str(path))
    try:
        width, height = next(reader)["size"]
        for data in reader:
            yield np.frombuffer(data, np.uint8).reshape(height, width, 3)
    finally:
        reader.close()

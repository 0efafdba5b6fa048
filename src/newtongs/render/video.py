"""Pictures to files, and frames from films.

A png needs the standard library alone, mp4 and gif an extra. A frame is a :class:`Rendering`, or
colours ``(H, W, 3)`` as floats in [0, 1] or bytes.
"""

import math
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ..base.errors import InputError
from ..base.extras import optional
from ..base.files import existing_file, foreign, write_atomically
from ..base.locks import scratch
from .splat import Rendering

Frame: TypeAlias = Rendering | Tensor | npt.NDArray[Any]
Bytes: TypeAlias = npt.NDArray[np.uint8]  # (H, W, 3)

FPS = 24.0
QUALITY = "18"  # x264's constant rate factor: visually lossless
UP_FILTER = 2  # png: each row is stored as its difference from the row above
ENDINGS = (".mp4", ".mov", ".webm", ".avi", ".mkv", ".gif")  # of films that can be read
GAP = 4  # pixels between the frames of a contact sheet


def to_bytes(frame: Frame) -> Bytes:
    """Colours as bytes ``(H, W, 3)``; floats are clamped to [0, 1], whole numbers to [0, 255]."""
    x = frame.color if isinstance(frame, Rendering) else frame
    array = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if array.ndim != 3 or array.shape[-1] != 3 or 0 in array.shape:
        raise InputError(f"a frame is a Rendering or has shape (H, W, 3), got {array.shape}")
    if np.issubdtype(array.dtype, np.integer):
        return np.clip(array, 0, 255).astype(np.uint8, copy=False)
    return np.rint(255 * np.clip(np.nan_to_num(array), 0, 1)).astype(np.uint8)


def write_png(path: Path | str, frame: Frame) -> None:
    """Write one picture."""
    path = _ending(path, {".png": None})[0]
    data = png_bytes(frame)
    write_atomically(path, lambda f: f.write(data))


def png_bytes(frame: Frame) -> bytes:
    """One picture as the contents of a png."""
    return _png(to_bytes(frame))


def contact_sheet(frames: Iterable[Frame], columns: int, path: Path | str) -> None:
    """Write all frames to one png, side by side on white, ``columns`` per row."""
    path = _ending(path, {".png": None})[0]
    if columns < 1:
        raise InputError(f"a contact sheet has at least one column, got {columns}")
    pictures = list(_same_size(frames))
    height, width, _ = pictures[0].shape
    rows, columns = -(-len(pictures) // columns), min(columns, len(pictures))
    size = rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3
    sheet = np.full(size, 255, np.uint8)
    for i, picture in enumerate(pictures):
        y, x = i // columns * (height + GAP), i % columns * (width + GAP)
        sheet[y : y + height, x : x + width] = picture
    write_png(path, sheet)


def write_video(path: Path | str, frames: Iterable[Frame], fps: float = FPS) -> None:
    """Write a film: ``.mp4`` (H.264, plays everywhere) or ``.gif`` (loops forever).

    A gif counts hundredths of a second, so its rate is the nearest of 100 / 1, 100 / 2, ... to
    ``fps``. An mp4 of odd width or height repeats its last column or row.
    """
    path, write = _ending(path, {".mp4": _mp4, ".gif": _gif})
    if not 0 < fps < math.inf:
        raise InputError(f"a film has a positive number of frames a second, got {fps}")
    write_atomically(path, lambda f: write(f, _same_size(frames), fps))


def _ending(path: Path | str, known: dict[str, Any]) -> tuple[Path, Any]:
    """The path, and the value for its suffix."""
    path = Path(path)
    if path.suffix.lower() not in known:
        raise InputError(f"cannot write {path}: the name must end in {' or '.join(known)}")
    return path, known[path.suffix.lower()]


def _same_size(frames: Iterable[Frame]) -> Iterator[Bytes]:
    """Frames as bytes: at least one, and all of the same size."""
    shape: tuple[int, ...] = ()
    for i, frame in enumerate(frames):
        x = to_bytes(frame)
        shape = shape or x.shape
        if x.shape != shape:
            sizes = [f"{s[1]}x{s[0]}" for s in (shape, x.shape)]
            raise InputError(f"frame {i} is {sizes[1]} pixels, those before it {sizes[0]}")
        yield x
    if not shape:
        raise InputError("there are no frames to write")


def _png(x: Bytes) -> bytes:
    rows = x.reshape(len(x), -1)
    lines = np.full((len(x), rows.shape[1] + 1), UP_FILTER, np.uint8)
    lines[:, 1:] = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))
    header = struct.pack(">IIBBBBB", x.shape[1], x.shape[0], 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _mp4(file: BinaryIO, frames: Iterator[Bytes], fps: float) -> None:
    """Through a temporary file: ffmpeg seeks back to the start when it finishes."""
    first = _even(next(frames))
    with scratch() as folder:
        part = folder / "film.mp4"
        write_h264(part, chain([first], map(_even, frames)), first.shape[:2], fps)
        with part.open("rb") as film:
            shutil.copyfileobj(film, file)


def write_h264(
    part: Path, frames: Iterable[Bytes], size: Sequence[int], fps: float,
    pixels: str = "yuv420p", quality: str = QUALITY, more: Sequence[str] = (),
) -> None:  # fmt: skip
    """Encode frames of an even ``size`` (H, W) with ffmpeg; an error where it did not finish.

    ``pixels`` and ``quality`` are ffmpeg's pixel format and x264's constant rate factor, ``more``
    further options.
    """
    rate = str(Fraction(fps).limit_denominator(1001))
    words = [
        film_library("imageio_ffmpeg").get_ffmpeg_exe(), "-y", "-v", "error",
        "-f", "rawvideo", "-vcodec", "rawvideo", "-s", f"{size[1]}x{size[0]}",
        "-pix_fmt", "rgb24", "-r", rate, "-i", "-", "-an", "-vcodec", "libx264",
        "-pix_fmt", pixels, *MP4_COLOR, "-crf", quality, *more, "-movflags", "+faststart",
        str(part),
    ]  # fmt: skip
    quiet = subprocess.DEVNULL
    # A process group of its own: Ctrl-C ends the command, which then ends ffmpeg.
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, process_group=0
    ) as ffmpeg:
        try:
            _feed(cast(IO[bytes], ffmpeg.stdin), frames)
        except BaseException:
            ffmpeg.kill()
            raise
    # ffmpeg's exit alone is not enough: some versions end with 0 on a full disk.
    if ffmpeg.returncode or not _is_whole(part):
        raise InputError(
            f"ffmpeg could not finish a film in {part.parent.parent}; is the disk full? Name "
            "another folder in TMPDIR"
        )


def _feed(pipe: IO[bytes], frames: Iterable[Bytes]) -> None:
    """Write frames until the reader is gone; its exit says why."""
    for frame in frames:
        try:
            pipe.write(np.ascontiguousarray(frame).data)
        except OSError:
            break
    with suppress(OSError):
        pipe.close()


def _is_whole(film: Path) -> bool:
    """Whether an mp4's boxes end at the end of the file, and its table of contents is there."""
    at, kinds = 0, set()
    with film.open("rb") as f:
        end = f.seek(0, os.SEEK_END)
        while at < end:
            f.seek(at)
            size, kind, large = struct.unpack(">I4sQ", f.read(16).ljust(16, b"\0"))
            at += large if size == 1 else size or end
            kinds.add(kind)
    return at == end and b"moov" in kinds


# Without these a player guesses the colour space from the picture's size.
MP4_COLOR = [
    "-vf", "scale=out_color_matrix=bt709:out_range=tv", "-colorspace", "bt709",
    "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv",
]  # fmt: skip


def _even(x: Bytes) -> Bytes:
    """H.264 halves the resolution of colour: sizes must be even."""
    padded = np.pad(x, ((0, x.shape[0] % 2), (0, x.shape[1] % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(padded)


def _gif(file: BinaryIO, frames: Iterator[Bytes], fps: float) -> None:
    image: Callable[[Bytes], Any] = film_library("PIL.Image").fromarray
    milliseconds = 10 * max(1, round(100 / fps))
    image(next(frames)).save(
        file,
        format="GIF",
        save_all=True,
        append_images=map(image, frames),
        duration=milliseconds,
        loop=0,
    )


def film_library(module: str) -> Any:
    """Import an optional library, or say what to install."""
    return optional(module, "films need imageio", "video")


# --- reading --------------------------------------------------------------------------------------


def count_frames(path: Path | str) -> int:
    """The number of frames of a film, by decoding it: headers cannot be trusted."""
    path = existing_file(path, "a film")
    ffmpeg = film_library("imageio_ffmpeg")
    try:
        frames = int(ffmpeg.count_frames_and_secs(str(path))[0])
    except (RuntimeError, OSError, ValueError) as error:  # its message is only ffmpeg's exit status
        raise InputError(f"{path} cannot be read as a film; it is damaged or not a film") from error
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
    """Decode frame by frame; the decoder is closed when the loop ends."""
    reader: Any = film_library("imageio_ffmpeg").read_frames(str(path))
    try:
        width, height = next(reader)["size"]
        for data in reader:
            yield np.frombuffer(data, np.uint8).reshape(height, width, 3)
    finally:
        reader.close()

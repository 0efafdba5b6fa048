"""The video proxies of Table 3: image statistics of one clip, from any method.

Appendix C, in the one reading that reproduces the paper's rows of released clips. Frames: all if 32
or fewer, else ``rint(linspace(0, n - 1, 32))``. RGB as float32 in [0, 1]; a long edge above 256 is
reduced to 256 by area interpolation, the other side truncated. With ``d_b`` the mean absolute
difference of consecutive frames in the outer 8 %, ``d_t`` that of the whole picture and ``d_a`` the
mean absolute second difference, each averaged over the clip before anything else::

    BC = exp(-12 d_b)    MS = exp(-10 d_a)    D = clip(d_t / 0.05, 0, 1)
    PIS = 0.35 MS + 0.25 BC + 0.20 D + 0.20 S

``S`` is the mean over later frames of one minus the Bhattacharyya distance between their
hue-saturation histogram and the first frame's, over the central 55 %.

They reward stillness: a frozen video has BC = MS = S = 1 and D = 0, so 0.80, above every row of the
paper's table.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.extras import optional
from ...base.files import existing_file, foreign

FRAMES = 32
LONG_EDGE = 256  # pixels
BORDER = 0.08  # of height and width
CROP = 0.55  # of height and width
BINS = (24, 16)  # of hue and saturation
HSV_RANGES = (0.0, 180.0, 0.0, 256.0)  # OpenCV's, upper ends excluded
MOTION_SCALE = 0.05
LEAST_FRAMES = 3  # needed for a second difference
CUT_SHORT = 0.9  # a clip with fewer of the frames that its header announces is damaged

Frame = npt.NDArray[np.float32]  # (H, W, 3), RGB in [0, 1]


@dataclass(frozen=True)
class Proxies:
    """Scores of one clip, and their components."""

    pis_p: float
    """Composite."""
    bc_p: float
    """Background consistency."""
    ms_p: float
    """Motion smoothness."""
    amount: float
    """``D``, amount of motion."""
    subject: float
    """``S``, subject consistency."""
    delta_b: float
    delta_t: float
    delta_a: float
    frames: int
    """Frames of the clip, before sampling."""
    width: int
    """Of the clip in pixels, before downscaling."""
    height: int


@cache
def opencv() -> Any:
    """Import OpenCV, or say what to install; its and FFmpeg's terminal output is silenced."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    cv2 = optional("cv2", "reading a video needs OpenCV", "videos")
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    return cv2


def video_proxies(path: Path | str) -> Proxies:
    """Scores of a clip, decoded frame by frame; three small frames are in memory at a time."""
    opencv()
    path = existing_file(path, "a video")
    with foreign(path, "a video"):
        announced = _announced(path)
        sums, decoded = _decoded(path, announced)
        _check_whole(path, decoded, announced)
        if decoded != announced:  # headers may be slightly wrong; the decoded frames count
            sums, _ = _decoded(path, decoded)
        return sums.scores(decoded)


def _announced(path: Path) -> int:
    """Number of frames according to the file's header."""
    with _opened(path) as capture:
        return int(capture.get(opencv().CAP_PROP_FRAME_COUNT))


def _decoded(path: Path, expected: int) -> tuple["FrameSums", int]:
    """Sums over the frames chosen from ``expected`` ones, and the actual number of frames."""
    chosen, sums = set(chosen_frames(expected)), FrameSums()
    with _opened(path) as capture:
        for i in count():
            if not capture.grab():
                return sums, i
            if i in chosen:
                good, picture = capture.retrieve()
                if not good:
                    return sums, i
                sums.add_picture(picture)
    raise AssertionError("a video has an end")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    cv2 = opencv()
    # FFmpeg only: another backend would read clip01.mp4 as the first of an image sequence.
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        if not capture.isOpened():
            raise InputError(f"{path} cannot be read as a video: damaged, truncated or not a video")
        yield capture
    finally:
        capture.release()


def _check_whole(path: Path, decoded: int, announced: int) -> None:
    if not decoded:
        raise InputError(f"{path} cannot be read as a video: no frame can be decoded")
    if decoded < CUT_SHORT * announced:
        raise InputError(
            f"{path} is damaged or truncated: {decoded} of {announced} frames can be decoded"
        )
    if decoded < LEAST_FRAMES:
        raise InputError(
            f"{path} has {decoded} frame{'s' * (decoded > 1)}; at least three are needed"
        )


def chosen_frames(n: int) -> list[int]:
    """Indices of the frames to use, out of ``n``."""
    if n <= FRAMES:
        return list(range(n))
    chosen: list[int] = np.rint(np.linspace(0, n - 1, FRAMES)).astype(int).tolist()
    return chosen


class FrameSums:
    """Components of a clip's scores, accumulated frame by frame."""

    def __init__(self) -> None:
        self._size = (0, 0)  # height and width before any change
        self._mask: npt.NDArray[np.bool_] = np.zeros((0, 0), bool)
        self._last: list[Frame] = []  # two at most
        self._first_colors: Any = None
        self._border: list[float] = []
        self._whole: list[float] = []
        self._second: list[float] = []
        self._likeness: list[float] = []

    def add_picture(self, picture: npt.NDArray[np.uint8]) -> None:
        """Add the next frame as decoded by OpenCV: BGR bytes ``(H, W, 3)``."""
        size = (picture.shape[0], picture.shape[1])
        self._size = self._size if self._last else size
        self.add(small_frame(picture))

    def add(self, frame: Frame) -> None:
        """Add the next frame, RGB ``(H, W, 3)`` in [0, 1], already downscaled."""
        colors = color_histogram(frame)
        if not self._last:
            self._first_colors, self._mask = colors, border_mask(*frame.shape[:2])
            self._size = self._size if any(self._size) else (frame.shape[0], frame.shape[1])
        else:
            step = np.abs(frame - self._last[-1])
            self._border.append(float(step[self._mask].mean(dtype=np.float64)))
            self._whole.append(float(step.mean(dtype=np.float64)))
            self._likeness.append(likeness(self._first_colors, colors))
        if len(self._last) == 2:
            second = np.abs(frame - 2 * self._last[1] + self._last[0])
            self._second.append(float(second.mean(dtype=np.float64)))
        self._last = [*self._last[-1:], frame]

    def scores(self, frames: int) -> Proxies:
        """Scores of at least three frames; ``frames`` is the length of the clip."""
        d_b, d_t, d_a = fmean(self._border), fmean(self._whole), fmean(self._second)
        bc, ms = math.exp(-12 * d_b), math.exp(-10 * d_a)
        d, s = min(1.0, max(0.0, d_t / MOTION_SCALE)), fmean(self._likeness)
        pis = 0.35 * ms + 0.25 * bc + 0.20 * d + 0.20 * s
        height, width = self._size
        return Proxies(pis, bc, ms, d, s, d_b, d_t, d_a, frames, width, height)


def small_frame(picture: npt.NDArray[np.uint8]) -> Frame:
    """BGR bytes as RGB in [0, 1], with a long edge of 256 pixels at most."""
    cv2 = opencv()
    frame: Frame = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB).astype(np.float32) / 255
    height, width = frame.shape[:2]
    long = max(height, width)
    if long <= LONG_EDGE:
        return frame
    size = max(1, width * LONG_EDGE // long), max(1, height * LONG_EDGE // long)
    return cv2.resize(frame, size, interpolation=cv2.INTER_AREA)


def border_mask(height: int, width: int) -> npt.NDArray[np.bool_]:
    """True in the outer 8 % of each side, ``(H, W)``."""
    rows, columns = round(BORDER * height), round(BORDER * width)
    mask = np.ones((height, width), bool)
    mask[rows : height - rows, columns : width - columns] = False
    if not mask.any():
        raise InputError(f"a picture of {width}x{height} pixels is too small for a border of 8 %")
    return mask


def color_histogram(frame: Frame) -> Any:
    """Hue and saturation of the central 55 %, 24 by 16 bins."""
    cv2 = opencv()
    (top, height), (left, width) = (_central(n) for n in frame.shape[:2])
    crop = frame[top : top + height, left : left + width]
    # Truncation to bytes lowers some values by one.
    hsv = cv2.cvtColor((crop * 255).astype(np.uint8), cv2.COLOR_RGB2HSV)
    return cv2.calcHist([hsv], [0, 1], None, BINS, HSV_RANGES)


def _central(n: int) -> tuple[int, int]:
    """Start and length of the central part of ``n`` pixels."""
    length = round(CROP * n)
    return (n - length) // 2, length


def likeness(a: Any, b: Any) -> float:
    """One minus the Bhattacharyya distance of two histograms."""
    cv2 = opencv()
    return 1 - float(cv2.compareHist(a, b, cv2.HISTCMP_BHATTACHARYYA))


@cache
def frozen_video() -> Proxies:
    """Scores of a clip that never changes, computed like any other."""
    picture = np.random.default_rng(0).random((64, 64, 3), np.float32)
    sums = FrameSums()
    for _ in range(FRAMES):
        sums.add(picture)
    return sums.scores(FRAMES)

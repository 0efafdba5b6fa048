"""Grids of pictures: choose frames, pad and border them, and lay them out with text.

The paper's panel construction: frame ``round(f (T - 1))`` of ``T``, the aspect ratio kept with
neutral padding, a blue border around NewtonGS, and no change of colour, exposure or content. A
border is therefore drawn around a picture and covers none of it.
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.files import write_atomically
from ...render.video import to_bytes
from .motions import import_pyplot

Pixels = npt.NDArray[np.uint8]  # (H, W, 3)

BLUE = (24, 92, 214)  # around NewtonGS
PAPER = (255, 255, 255)
NEUTRAL = (232, 232, 232)  # padding of a picture with another aspect ratio
BORDER = 3  # pixels around every picture, blue or white
DPI = 100
TEXT = 9.0  # points; a pixel is 0.72 of one
GLYPH = 0.53  # mean width of a letter relative to its height, to wrap a caption
HINTED = 1.08  # letters snapped to pixels are slightly wider than their outlines
LINE = 1.3  # height of a line relative to a letter's
FORMATS = (".png", ".svg")


@dataclass(frozen=True)
class DrawnFigure:
    """A figure that was written."""

    paths: tuple[Path, ...]
    """Its files, the .png first."""
    caption: str
    """Its caption, in full sentences."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The numbers and names behind it, JSON-serialisable."""


@dataclass(frozen=True)
class PictureGrid:
    """A grid of pictures of equal size, with its text."""

    cells: Sequence[Sequence[Pixels]]
    """Rows of pictures ``(H, W, 3)``."""
    title: str = ""
    columns: Sequence[str] = ()
    """Heading of each column."""
    rows: Sequence[str] = ()
    """Label at the left of each row."""
    ours: frozenset[tuple[int, int]] = frozenset()
    """Rows and columns of the pictures that get the blue border."""
    notes: Sequence[str] = ()
    """Text at the right of each row, if any."""


def frame_index(f: float, frames: int) -> int:
    """``round(f (T - 1))``: index of the frame at normalised time ``f``."""
    if not 0 <= f <= 1 or frames < 1:
        raise InputError(f"expected a time from 0 to 1 and at least one frame, got {f}, {frames}")
    return round(f * (frames - 1))


def padded(picture: Any, width: int, height: int) -> Pixels:
    """The whole picture, as large as fits into ``width`` x ``height``, padded with neutral grey."""
    from PIL import Image  # comes with matplotlib

    x = to_bytes(picture)
    ratio = min(width / x.shape[1], height / x.shape[0])
    w, h = max(1, round(x.shape[1] * ratio)), max(1, round(x.shape[0] * ratio))
    if (h, w) != x.shape[:2]:
        x = np.asarray(Image.fromarray(x).resize((w, h), Image.Resampling.LANCZOS))
    out = np.full((height, width, 3), NEUTRAL, np.uint8)
    top, left = (height - h) // 2, (width - w) // 2
    out[top : top + h, left : left + w] = x
    return out


def bordered(picture: Any, color: Sequence[int] = PAPER, width: int = BORDER) -> Pixels:
    """The picture with a border around it."""
    x = to_bytes(picture)
    out = np.empty((x.shape[0] + 2 * width, x.shape[1] + 2 * width, 3), np.uint8)
    out[:] = color
    out[width : width + x.shape[0], width : width + x.shape[1]] = x
    return out


def board(block: PictureGrid) -> Pixels:
    """All pictures of a grid as one, each with a border."""
    return np.concatenate(
        [
            np.concatenate(
                [
                    bordered(cell, BLUE if (i, j) in block.ours else PAPER)
                    for j, cell in enumerate(row)
                ],
                axis=1,
            )
            for i, row in enumerate(block.cells)
        ]
    )


def page(
    path: Path | str,
    blocks: Sequence[Sequence[PictureGrid]],
    *,
    caption: str = "",
    formats: Sequence[str] = FORMATS,
    text: float = TEXT,
) -> tuple[Path, ...]:
    """Write rows of grids as a figure, with one .png pixel per pixel of a picture.

    Args:
        path: where to write; its suffix is replaced by each of ``formats``.
        blocks: rows of grids.
        caption: written below, wrapped.
        formats: suffixes.
        text: font size in points.
    """
    import_pyplot()  # report a missing extra before anything else
    sheet = _Page(text)
    for row in blocks:
        sheet.add_row(row)
    sheet.add_caption(caption)
    return sheet.save(Path(path), formats)


class _Page:
    """Text and pictures placed in pixels from the top left; the size is known at the end."""

    def __init__(self, text: float) -> None:
        self.size = text
        self.letter = text * DPI / 72  # pixels
        self.gap = self.letter
        self.pictures: list[tuple[float, float, Pixels]] = []
        self.words: list[tuple[float, float, str, dict[str, Any]]] = []
        self.width, self.height = 0.0, 0.4 * self.gap

    def wide(self, lines: Sequence[str]) -> float:
        """Width of the longest line in pixels."""
        from matplotlib.textpath import TextPath

        words = [s for text in lines for s in text.split("\n") if s.strip()]
        ends = (TextPath((0, 0), s, size=self.letter).get_extents().x1 for s in words)
        return HINTED * float(max(ends, default=0.0))

    def add_row(self, row: Sequence[PictureGrid]) -> None:
        """Place grids side by side, below everything placed so far."""
        top, left = self.height, 0.4 * self.gap
        for block in row:
            right, bottom = self.add(block, left, top)
            left = right + self.gap
            self.height = max(self.height, bottom + self.gap)
        self.width = max(self.width, left - 0.6 * self.gap)

    def add(self, block: PictureGrid, left: float, top: float) -> tuple[float, float]:
        """Place one grid; returns its right and lower ends."""
        picture = board(block)
        high, wide = picture.shape[0] / len(block.cells), picture.shape[1] / len(block.cells[0])
        left += self.wide(block.rows) + 0.5 * self.letter if block.rows else 0
        line = LINE * self.letter
        if block.title:
            lines = block.title.count("\n") + 1
            self.write(left + picture.shape[1] / 2, top, block.title, ha="center", weight="bold")
            top += lines * line + 0.2 * self.letter
        if block.columns:
            for j, word in enumerate(block.columns):
                self.write(left + (j + 0.5) * wide, top, word, ha="center")
            top += line * max(word.count("\n") + 1 for word in block.columns)
        for i, word in enumerate(block.rows):
            self.write(left - 0.4 * self.letter, top + (i + 0.5) * high, word, ha="right", va="c")
        right = left + picture.shape[1]
        for i, word in enumerate(block.notes):
            self.write(right + 0.4 * self.letter, top + (i + 0.5) * high, word, va="c")
        self.pictures.append((left, top, picture))
        return right + self.wide(block.notes), top + picture.shape[0]

    def write(self, x: float, y: float, text: str, *, va: str = "top", **style: Any) -> None:
        """Place text at a pixel."""
        if text:
            style["va"] = "center" if va == "c" else va
            self.words.append((x, y, text, style))

    def add_caption(self, caption: str) -> None:
        """Place a caption, wrapped to the width of the pictures."""
        if not caption:
            return
        fits = max(24, int((self.width - 2 * self.gap) / (self.letter * GLYPH)))
        lines = textwrap.wrap(caption, fits)
        self.write(0.6 * self.gap, self.height, "\n".join(lines))
        self.height += len(lines) * LINE * self.letter + 0.6 * self.gap

    def save(self, path: Path, formats: Sequence[str]) -> tuple[Path, ...]:
        """Draw and write the files atomically."""
        if path.is_dir():
            raise InputError(f"cannot write picture {path}: it is a folder; name a file in it")
        pyplot = import_pyplot()
        w, h = int(np.ceil(self.width)), int(np.ceil(self.height))
        figure = pyplot.figure(figsize=(w / DPI, h / DPI), dpi=DPI, facecolor="white")
        for x, y, picture in self.pictures:
            high, wide = picture.shape[:2]
            x, y = round(x), round(y)
            ax = figure.add_axes((x / w, 1 - (y + high) / h, wide / w, high / h))
            ax.imshow(picture, interpolation="none", aspect="auto")
            ax.axis("off")
        for x, y, text, style in self.words:
            figure.text(x / w, 1 - y / h, text, fontsize=self.size, linespacing=LINE - 0.1, **style)
        paths = tuple(path.with_suffix(ending) for ending in formats)
        for one in paths:
            _write(figure, one)
        pyplot.close(figure)
        return paths


def _write(figure: Any, path: Path) -> None:
    """Write one format; text in an .svg stays text."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "newtongs"}):
        data = io.BytesIO()
        kind = path.suffix.lstrip(".")
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(data, dpi=DPI, format=kind, metadata=metadata)
    write_atomically(path, lambda f: f.write(data.getvalue()), what="picture")

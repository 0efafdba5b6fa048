"""Numbers on the things in a picture: beside each, on free ground, none over another."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..base.types import Array
from .annotate import WHITE, WIDE, Plate, draw_line, text_size, write_text

OTHERS, ITSELF, AWAY = 4.0, 1.0, 0.4  # cost of covering others, the thing, and of each ring
RINGS = (1.0, 2.0, 3.5)  # plates from the thing at which there may be a place
DIRECTIONS = 12
APART = 1  # pixels between plates
CROWD = 20  # things from which the numbers are smaller


class Sign(NamedTuple):
    """The number of a thing, and where it is drawn."""

    text: str
    plate: Plate
    on: tuple[int, int]
    """A pixel (x, y) of the thing, well inside of what is visible of it."""
    size: int
    """Pixels of a dot of a glyph."""
    led: bool
    """Whether a line leads from the plate to the thing."""

    @property
    def middle(self) -> tuple[float, float]:
        """Of the plate."""
        left, top, right, bottom = self.plate
        return (left + right) / 2, (top + bottom) / 2


class _Place(NamedTuple):
    plate: Plate
    ring: float
    """Distance from the thing, in plates; less than the first of RINGS right beside or on it."""


def placed(
    texts: Sequence[str], shown: Array, least: float, taken: Sequence[Plate] = ()
) -> list[Sign]:
    """Places for the texts of all things that are visible and have room for a number.

    Args:
        texts: one per thing, the most important first.
        shown: the thing ``(H, W)`` that each pixel shows; others are background.
        least: pixels of which a thing must show more.
        taken: where nothing may be written.
    """
    free = np.ones(shown.shape, bool)
    for left, top, right, bottom in taken:
        free[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = False
    thing = (shown >= 0) & (shown < len(texts))
    size, out = _dots(shown.shape[1], len(texts)), []
    for i, text in enumerate(texts):
        own = shown == i
        if own.sum() <= least:
            continue
        on = _inmost(own)
        places = [p for p in _places(own, on, text_size(text, size)) if _is_free(free, p.plate)]
        if not places:
            continue
        plate, ring = min(places, key=lambda place: _cost(place, own, thing))
        left, top, right, bottom = plate
        free[max(top - APART, 0) : bottom + APART, max(left - APART, 0) : right + APART] = False
        out.append(Sign(text, plate, on, size, ring >= min(RINGS)))
    return out


def write_signs(picture: Tensor, signs: Sequence[Sign]) -> None:
    """Draw the numbers, and lines to things from numbers that are not beside them."""
    for sign in signs:
        if sign.led:
            draw_line(picture, sign.middle, sign.on, WHITE, strength=0.8)
    for sign in signs:
        write_text(picture, sign.text, sign.middle, size=sign.size)


def _dots(width: int, count: int) -> int:
    """Pixels of a dot of a glyph in a picture that wide with so many numbers."""
    if width < WIDE:
        return 1
    return 2 if width < 1.5 * WIDE or count > CROWD else 3


def _inmost(own: Array) -> tuple[int, int]:
    """The pixel (x, y) of a region that is farthest from its edge."""
    from scipy import ndimage

    rows, columns = np.flatnonzero(own.any(1)), np.flatnonzero(own.any(0))
    part = own[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    depth = ndimage.distance_transform_edt(np.pad(part, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(depth.argmax(), depth.shape)
    return int(x + columns[0]), int(y + rows[0])


def _places(own: Array, on: tuple[int, int], size: tuple[int, int]) -> Iterator[_Place]:
    """Plates above, on, below and around a thing, in order of preference."""
    (x, y), (w, h) = on, size
    column, top = np.flatnonzero(own[:, x]), int(own.any(1).argmax())
    yield _Place(_plate(np.flatnonzero(own[top]).mean(), top - 1 - h / 2, size), 0.0)
    for v, ring in ((column[0] - 1 - h / 2, 0.0), (y, 0.0), (column[-1] + 2 + h / 2, 0.5)):
        yield _Place(_plate(x, v, size), ring)
    for angle in np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS:
        way = np.array([np.cos(angle), np.sin(angle)])
        end = _end(own, on, way)
        for ring in RINGS:
            u, v = on + (end + 0.5 * (abs(way) @ (w, h)) + (ring - 0.5) * h) * way
            yield _Place(_plate(u, v, size), ring)


def _end(own: Array, on: tuple[int, int], way: Array) -> int:
    """Pixels from ``on`` to the last one of a region in a direction."""
    x, y = (np.rint(np.array(on)[:, None] + way[:, None] * np.arange(sum(own.shape)))).astype(int)
    there = (x >= 0) & (y >= 0) & (x < own.shape[1]) & (y < own.shape[0])
    return int(np.flatnonzero(own[y[there], x[there]])[-1])


def _plate(x: float, y: float, size: tuple[int, int]) -> Plate:
    left, top = round(x - size[0] / 2), round(y - size[1] / 2)
    return left, top, left + size[0], top + size[1]


def _is_free(free: Array, plate: Plate) -> bool:
    """Whether a plate is inside of the picture, and nothing is written there."""
    left, top, right, bottom = plate
    height, width = free.shape
    inside = left >= 0 and top >= 0 and right <= width and bottom <= height
    return inside and bool(free[top:bottom, left:right].all())


def _cost(place: _Place, own: Array, thing: Array) -> float:
    """How much a plate covers, and how far it is from its thing."""
    left, top, right, bottom = place.plate
    under = slice(top, bottom), slice(left, right)
    area, mine = (right - left) * (bottom - top), own[under].sum()
    covered = OTHERS * (thing[under].sum() - mine) + ITSELF * mine
    return float(covered / area + AWAY * place.ring)

"""Selections as typed values: ``Cluster(0)`` is the word ``"cluster:0"``.

>>> Grown(0.05, Cluster(0, 2))
'grown:0.05:cluster:0+2'
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self


def word_of(selector: str) -> str:
    """The word a selector starts with, such as cluster, through any ``grown:`` and ``shrunk:``."""
    return re.sub(r"^(?:(?:grown|shrunk):[^:]*:)+", "", selector.strip()).partition(":")[0]


class Selector(str):
    """One way to name Gaussians: the word that the command line takes."""

    __slots__ = ()


def _numbers(*values: float) -> str:
    """In full, so that the same bits come back."""
    return ",".join(repr(float(x)) for x in values)


class Cluster(Selector):
    """A cluster as `newtongs inspect` numbers them, 0 is the best; or several as one object."""

    def __new__(cls, *ids: int) -> Self:
        return super().__new__(cls, "cluster:" + "+".join(str(int(i)) for i in ids))


class Id(Selector):
    """An object of a file that has object ids; or several as one."""

    def __new__(cls, *ids: int) -> Self:
        return super().__new__(cls, "id:" + "+".join(str(int(i)) for i in ids))


class Box(Selector):
    """Gaussians whose means lie between two corners, scene coordinates."""

    def __new__(cls, low: Sequence[float], high: Sequence[float]) -> Self:
        return super().__new__(cls, f"box:{_numbers(*low, *high)}")


class Sphere(Selector):
    """Gaussians whose means lie in a ball, scene coordinates."""

    def __new__(cls, center: Sequence[float], radius: float) -> Self:
        return super().__new__(cls, f"sphere:{_numbers(*center, radius)}")


class Circle(Selector):
    """Pixels of the first camera; without depths the nearest object there."""

    def __new__(cls, center: Sequence[float], radius: float, depths: Sequence[float] = ()) -> Self:
        return super().__new__(cls, f"circle:{_numbers(*center, radius, *depths)}")


class Masks(Selector):
    """A folder with one mask picture per camera."""

    def __new__(cls, folder: Path | str) -> Self:
        return super().__new__(cls, f"masks:{folder}")


class Grown(Selector):
    """Another selection with all above the floor that is nearer to it than ``distance``."""

    def __new__(cls, distance: float, inner: Selector | str) -> Self:
        return super().__new__(cls, f"grown:{distance!r}:{inner}")


class Shrunk(Selector):
    """Another selection without what is nearer than ``distance`` to anything else."""

    def __new__(cls, distance: float, inner: Selector | str) -> Self:
        return super().__new__(cls, f"shrunk:{distance!r}:{inner}")

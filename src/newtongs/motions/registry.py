"""The 32 families by name, in the paper's order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from ..errors import InputError, unknown_name
from .operators import Path
from .sampling import Draw

Generator = Callable[[Draw, Tensor], Path]


@dataclass(frozen=True)
class Family:
    """One motion family of State-32."""

    name: str
    index: int  # position in the paper's list, 0 to 31
    category: str
    height: float | None  # class height of an airborne family, None on the floor
    generate: Generator

    @property
    def summary(self) -> str:
        """First line of the generator's docstring."""
        return (self.generate.__doc__ or "").strip().splitlines()[0]


_FAMILIES: dict[str, Family] = {}


def family(
    index: int, name: str, category: str, height: float | None = None
) -> Callable[[Generator], Generator]:
    """Register the decorated function as the family ``name``."""

    def register(generate: Generator) -> Generator:
        _FAMILIES[name] = Family(name, index, category, height, generate)
        return generate

    return register


def get(name: str) -> Family:
    """The family called ``name``."""
    if name not in _FAMILIES:
        raise unknown_name("motion", name, names())
    return _FAMILIES[name]


def families() -> Iterator[Family]:
    """All families in the paper's order."""
    return iter(sorted(_FAMILIES.values(), key=lambda f: f.index))


def names() -> tuple[str, ...]:
    """All family names in the paper's order."""
    return tuple(f.name for f in families())


def select(wanted: tuple[str, ...] | None) -> list[Family]:
    """The families named, all of them for None."""
    if wanted is not None and not wanted:
        raise InputError("no motion named; give at least one, or leave the option out for all 32")
    return list(families()) if wanted is None else [get(name) for name in wanted]

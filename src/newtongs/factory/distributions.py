"""Numbers that are drawn anew for every film, as a spec writes them."""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..errors import InputError, unknown_name

Kind: TypeAlias = Literal["fixed", "uniform", "log", "normal", "choice"]

HOW = "a number, [low, high], {log = [low, high]}, {normal = [mean, deviation]} or {choice = [...]}"


@dataclass(frozen=True)
class Numbers:
    """A distribution: ``2.0``, ``[1.0, 3.0]`` (uniform), or a table with one word.

    ``{log = [0.1, 10.0]}`` is uniform in the logarithm, ``{normal = [0.0, 2.0]}`` has mean and
    standard deviation, ``{choice = [1, 2, 5]}`` takes one of them.
    """

    kind: Kind
    values: tuple[float, ...]

    @classmethod
    def fixed(cls, value: float) -> "Numbers":
        """Always the same."""
        return cls("fixed", (float(value),))

    @classmethod
    def between(cls, low: float, high: float) -> "Numbers":
        """All equally likely."""
        return cls("uniform", (float(low), float(high)))

    @classmethod
    def parse(cls, given: Any, where: str) -> "Numbers":
        """From what a TOML file has; ``where`` names the key in an error."""
        if isinstance(given, Numbers):
            return given
        if is_number(given):
            return cls.fixed(given)
        if isinstance(given, list | tuple):
            return cls("uniform", _checked(given, where, 2)).ordered(where)
        if not isinstance(given, dict) or len(given) != 1:
            raise InputError(f"{where}: expected {HOW}, got {given!r}")
        ((word, numbers),) = given.items()
        if word not in get_args(Kind)[1:]:
            raise unknown_name(f"distribution in {where}", word, get_args(Kind)[1:])
        made = cls(word, _checked(numbers, where, None if word == "choice" else 2))
        return made.ordered(where) if word in ("uniform", "log") else made

    def ordered(self, where: str) -> "Numbers":
        """Itself, if the low end is not above the high one, and a logarithm exists."""
        low, high = self.values
        if low > high or (self.kind == "log" and low <= 0):
            raise InputError(f"{where}: expected [low, high]{' above 0' * (self.kind == 'log')}, "
                             f"got [{low:g}, {high:g}]")  # fmt: skip
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest that can come; infinite for ``normal``."""
        if self.kind == "normal":
            return -math.inf, math.inf
        return min(self.values), max(self.values)

    def draw(self, rng: np.random.Generator) -> float:
        """One number; every kind takes the same count of random numbers from the stream."""
        u, g = float(rng.random()), float(rng.standard_normal())
        a, b = self.values[0], self.values[-1]
        match self.kind:
            case "uniform":
                return a + u * (b - a)
            case "log":
                return math.exp(math.log(a) + u * (math.log(b) - math.log(a)))
            case "normal":
                return a + g * b
            case "choice":
                return self.values[int(u * len(self.values))]
            case _:
                return a

    def to_json(self) -> Any:
        """As a spec writes it."""
        if self.kind == "fixed":
            return self.values[0]
        return list(self.values) if self.kind == "uniform" else {self.kind: list(self.values)}


def is_number(x: Any) -> bool:
    """Whether TOML means a finite number by it."""
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def _checked(numbers: Any, where: str, count: int | None) -> tuple[float, ...]:
    fits = isinstance(numbers, list | tuple) and len(numbers) > 0 and all(map(is_number, numbers))
    if not fits or (count is not None and len(numbers) != count):
        raise InputError(f"{where}: expected {HOW}, got {numbers!r}")
    return tuple(float(x) for x in numbers)

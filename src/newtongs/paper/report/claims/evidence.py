"""What formulas of the ledger may ask: the finished sections and the measurements of a report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from ..content import Section
from ..report_run import ReportRun

Fact = Callable[..., Any]
FACTS: dict[str, Fact] = {}
F = TypeVar("F", bound=Fact)


class NotMeasuredError(Exception):
    """A section or a measurement that this report does not have."""


def fact(function: F) -> F:
    """Let formulas call a function; they do not write its first argument, the evidence."""
    FACTS[function.__name__] = function
    return function


def constant(function: F) -> F:
    """The same for a function of the program alone, which is asked once and without evidence."""
    known = cache(function)
    FACTS[function.__name__] = lambda _, *words: known(*words)
    return function


@dataclass
class Evidence:
    """A report as far as it is finished."""

    report: ReportRun
    sections: Mapping[str, Section]
    _known: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def section(self, name: str) -> Section:
        """A finished section with its content."""
        found = self.sections.get(name)
        if found is None or not (found.tables or found.figures):
            raise NotMeasuredError(f"section {name}")
        return found

    def numbers(self, name: str) -> Mapping[str, Any]:
        """A section's numbers."""
        return self.section(name).numbers

    def measured(self, method: str, split: str) -> Mapping[str, Any]:
        """The measurement of a method on a split, without making it."""
        if (method, split) not in self._known:
            found = self.report.record(method, split)
            if found is None:
                raise NotMeasuredError(f"{method} on {split}")
            self._known[method, split] = found
        return self._known[method, split]

    def names(self) -> dict[str, Any]:
        """Every fact as a function of what a formula writes."""
        return {name: partial(function, self) for name, function in FACTS.items()}

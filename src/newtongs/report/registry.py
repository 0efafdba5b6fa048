"""The sections in the paper's order. A new one is a decorated function in ``sections/``."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from ..errors import unknown_name
from .content import Section
from .context import Context

# The paper's order; a module holds one section or a few that stand together.
MODULES = (
    "table1", "table2", "table3", "main_figure", "initialisation", "branches", "ablations",
    "motions", "trajectories", "response", "pis3d", "pictures",
)  # fmt: skip

Make = Callable[[Context], Section]
Pairs = Callable[[Context], Iterable[tuple[str, str]]]
Inputs = Callable[[Context], Mapping[str, Path]]


@dataclass(frozen=True)
class Spec:
    """A section that can be made."""

    name: str
    title: str
    paper: str
    """Where it stands in the paper."""
    make: Make
    measures: Pairs
    """Methods and splits it needs measured, ``(method, split)``."""
    inputs: Inputs
    """Files and folders it reads: made anew when one of them changes."""
    seconds: float
    """How long the rest takes on two cores, beyond what is measured."""
    quick: str = ""
    """What a quick run makes smaller; empty for the measured splits, or nothing."""

    def note(self, context: Context) -> str:
        """What stands in every caption: how a quick run differs here."""
        if not context.note:
            return ""
        if self.quick and context.quick:
            return f"Quick run: {self.quick}."
        same = "Quick run: this section is the same in a full run."
        return context.note if [*self.measures(context)] else same


_SPECS: dict[str, Spec] = {}


def section(
    name: str,
    title: str,
    paper: str,
    *,
    measures: Pairs = lambda context: (),
    inputs: Inputs = lambda context: {},
    seconds: float = 2.0,
    quick: str = "",
) -> Callable[[Make], Make]:
    """Register a function as a section."""

    def register(make: Make) -> Make:
        _SPECS[name] = Spec(name, title, paper, make, measures, inputs, seconds, quick)
        return make

    return register


@cache
def specs() -> dict[str, Spec]:
    """All sections by name, in the paper's order."""
    for module in MODULES:
        import_module(f"{__package__}.sections.{module}")
    return _SPECS


def chosen(names: Iterable[str]) -> list[Spec]:
    """The sections named, in the paper's order; all if none is named."""
    wanted = list(names)
    for name in wanted:
        if name not in specs():
            raise unknown_name("section", name, specs())
    return [spec for name, spec in specs().items() if name in wanted or not wanted]

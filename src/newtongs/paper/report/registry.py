"""The sections in the paper's order. A new one is a decorated function in ``sections/``."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from pkgutil import iter_modules

from ...base.errors import unknown_name
from . import sections
from .content import Section
from .report_run import SPLITS, ReportRun

# The paper's order; each is registered by a module of ``sections/``.
ORDER = (
    "overview", "table1", "table2", "table3", "main_figure", "initialisation", "branches",
    "ablations", "motions", "trajectories", "response", "pis3d", "strips", "panels", "first_frame",
    "gallery",
)  # fmt: skip

Make = Callable[[ReportRun], Section]
Pairs = Callable[[ReportRun], Iterable[tuple[str, str]]]
Inputs = Callable[[ReportRun], Mapping[str, Path]]


@dataclass(frozen=True)
class SectionSpec:
    """A section that can be made."""

    name: str
    title: str
    paper: str
    """Its place in the paper."""
    make: Make
    measures: Pairs
    """Measurements that it needs, ``(method, split)``."""
    inputs: Inputs
    """Files and folders that it reads; the section is made again when one of them changes."""
    seconds: float
    """Time on two cores beyond the measurements."""
    quick: str = ""
    """What a quick run makes smaller besides the measured splits, if anything."""

    def note(self, report: ReportRun) -> str:
        """Note for every caption: how a quick run differs here."""
        if not report.note:
            return ""
        if self.quick and report.quick:
            return f"Quick run: {self.quick}."
        same = "Quick run: this section is the same in a full run."
        return report.note if [*self.measures(report)] else same


def on_both_splits(*methods: str) -> Pairs:
    """The measurements of some methods on both validation splits."""
    return lambda report: product(methods, SPLITS)


_SPECS: dict[str, SectionSpec] = {}


def section(
    name: str,
    title: str,
    paper: str,
    *,
    measures: Pairs = lambda report: (),
    inputs: Inputs = lambda report: {},
    seconds: float = 2.0,
    quick: str = "",
) -> Callable[[Make], Make]:
    """Register a function as a section."""

    def register(make: Make) -> Make:
        _SPECS[name] = SectionSpec(name, title, paper, make, measures, inputs, seconds, quick)
        return make

    return register


@cache
def specs() -> dict[str, SectionSpec]:
    """All sections by name, in the paper's order; others come last."""
    for module in iter_modules(sections.__path__):
        import_module(f"{sections.__name__}.{module.name}")
    return {name: _SPECS[name] for name in (*ORDER, *(_SPECS.keys() - set(ORDER)))}


def chosen(names: Iterable[str]) -> list[SectionSpec]:
    """The requested sections in the paper's order; all by default."""
    wanted = list(names)
    for name in wanted:
        if name not in specs():
            raise unknown_name("section", name, specs())
    return [spec for name, spec in specs().items() if name in wanted or not wanted]

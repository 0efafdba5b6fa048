"""The content of a section of the report, as plain data for a JSON file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..evaluation.table import CLEAR, Table, Value


@dataclass(frozen=True)
class Figure:
    """A picture in the report's folder ``figures``."""

    name: str
    """File name without its suffix."""
    caption: str
    endings: Sequence[str] = ("png", "svg")
    """Formats that were written; the page shows the last."""


def drawn_figure(drawn: Any) -> Figure:
    """A picture drawn by a function of ``newtongs.paper.figures``; the page shows its pixels."""
    endings = sorted((path.suffix.lstrip(".") for path in drawn.paths), key=lambda e: e == "png")
    return Figure(drawn.paths[0].stem, drawn.caption, endings)


@dataclass(frozen=True)
class Section:
    """The content of one section."""

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    sentences: Sequence[str] = ()
    """What the figures show, and where and why they differ from the paper."""
    missing: Sequence[str] = ()
    """Missing external inputs: which file to put where."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers for the JSON file: curves, draws."""

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        return asdict(self)


def section_from_json(content: Mapping[str, Any]) -> Section:
    """The section that :meth:`Section.as_json` was made of."""
    return Section(
        tables=[_table(x) for x in content["tables"]],
        figures=[Figure(**x) for x in content["figures"]],
        sentences=content["sentences"],
        missing=content["missing"],
        numbers=content["numbers"],
    )


def _table(content: Mapping[str, Any]) -> Table:
    rows = [[x if isinstance(x, str) else Value(**x) for x in row] for row in content["rows"]]
    return Table(content["title"], content["columns"], rows, content["note"], content["prose"])


# --- sentences about figures: how near they are to the paper's, and which are not -----------------

NEAR_PERCENT = 0.5

Named = tuple[str, Value]


def within(values: Iterable[Named], what: str, near: float = NEAR_PERCENT) -> str:
    """How many figures are within ``near`` percent of the paper's, and which is farthest."""
    known = [(name, x, x.percent) for name, x in values if x.percent is not None]
    inside = sum(abs(p) <= near for _, _, p in known)
    name, _, worst = max(known, key=lambda row: abs(row[2]))
    return (
        f"{inside} of {len(known)} {what} lie within {near:g} % of the paper's; "
        f"the farthest is {name} with {worst:+.2f} %."
    )


def unexplained(values: Iterable[Named], why: str) -> list[str]:
    """A sentence on figures that differ by more than the two draws explain, if there are any."""
    known = [(name, x) for name, x in values if x.errors is not None]
    if not known:
        return []
    far = [(name, x) for name, x in known if (x.errors or 0) > CLEAR]
    if not far:
        return [
            f"All {len(known)} differences are within {CLEAR:g} standard errors: the paper's draw "
            "and ours are different random draws of the same families, and that explains them."
        ]
    return [
        f"{len(known) - len(far)} of {len(known)} differences are within {CLEAR:g} standard "
        f"errors of two random draws. The others: {_listed(far)}. {why}"
    ]


def _listed(far: Sequence[Named], most: int = 8) -> str:
    far = sorted(far, key=lambda row: -(row[1].errors or 0))
    parts = [f"{name} ({_signed(x)}, {x.errors:.1f} standard errors)" for name, x in far[:most]]
    rest = len(far) - most
    return "; ".join(parts) + (f"; and {rest} more in the table" if rest > 0 else "")


def _signed(x: Value) -> str:
    assert x.paper is not None
    if x.unit == "%":  # a percentage of percentages would mislead
        return f"{x.ours - x.paper:+.2f} points"
    return f"{x.percent:+.2f} %"

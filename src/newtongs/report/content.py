"""What a section of the report holds, as plain data that a JSON file can keep."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Value:
    """A figure of ours beside the paper's."""

    ours: float
    paper: float | None = None
    """None where the paper prints none."""
    digits: int = 4
    """Decimals that are printed, as the paper does."""
    spread: float | None = None
    """Standard deviation over runs, where there are several."""
    error: float | None = None
    """Standard error of ``ours - paper`` that the two random draws alone would cause."""
    paper_spread: float | None = None
    """The paper's standard deviation, where it prints one beside this figure."""
    best: bool = False
    """Whether it is the best of its column."""
    unit: str = ""

    @property
    def percent(self) -> float | None:
        """Deviation from the paper in percent of its figure; None where that says nothing."""
        return 100 * (self.ours / self.paper - 1) if self.paper else None

    @property
    def errors(self) -> float | None:
        """Deviation in standard errors, after allowing for the paper's rounding."""
        if self.paper is None or not self.error:
            return None
        rounding = 0.5 * 10.0**-self.digits
        return max(0.0, abs(self.ours - self.paper) - rounding) / self.error


Cell: TypeAlias = Value | str


@dataclass(frozen=True)
class Table:
    """Rows of text and figures under headings."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def values(self) -> list[tuple[str, Value]]:
        """Every figure with a name made of its row and column."""
        return [
            (" ".join([*(c for c in row if isinstance(c, str) and c), heading]), cell)
            for row in self.rows
            for heading, cell in zip(self.columns, row, strict=True)
            if isinstance(cell, Value)
        ]


@dataclass(frozen=True)
class Figure:
    """A picture in the report's folder ``figures``."""

    name: str
    """File name without its ending."""
    caption: str
    endings: Sequence[str] = ("png", "svg")
    """Formats that are there; the page shows the last."""


def drawn_figure(drawn: Any) -> Figure:
    """A picture that a function of ``newtongs.figures`` has drawn; the page shows its pixels."""
    endings = sorted((path.suffix.lstrip(".") for path in drawn.paths), key=lambda e: e == "png")
    return Figure(drawn.paths[0].stem, drawn.caption, endings)


@dataclass(frozen=True)
class Section:
    """Everything one section shows."""

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    sentences: Sequence[str] = ()
    """What is seen, and where and why it differs from the paper."""
    missing: Sequence[str] = ()
    """Inputs from outside that are not there: what to put where."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Further figures for the JSON file: curves, draws."""

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
    return Table(content["title"], content["columns"], rows, content["note"])

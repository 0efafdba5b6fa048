"""Tables of our figures beside the paper's, for the terminal and for a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as html_escape
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.table import Table as RichTable

CLEAR = 3.0  # standard errors beyond which two draws do not explain a difference
WIDEST_NAME = 48  # characters of a row's name before it is broken into lines


@dataclass(frozen=True)
class Value:
    """A figure of ours beside the paper's."""

    ours: float
    paper: float | None = None
    """None where the paper prints none."""
    digits: int = 4
    """Number of printed decimals, as in the paper."""
    spread: float | None = None
    """Standard deviation over runs, where there are several."""
    error: float | None = None
    """Standard error of ``ours - paper`` due to the two random draws alone."""
    paper_spread: float | None = None
    """The paper's standard deviation, where it prints one."""
    best: bool = False
    """Whether it is the best of its column."""
    unit: str = ""

    @property
    def percent(self) -> float | None:
        """Deviation from the paper in percent of its figure; None where that is undefined."""
        return 100 * (self.ours / self.paper - 1) if self.paper else None

    @property
    def errors(self) -> float | None:
        """Deviation in standard errors, after allowing for the paper's rounding."""
        if self.paper is None or not self.error:
            return None
        rounding = 0.5 * 10.0**-self.digits
        return max(0.0, abs(self.ours - self.paper) - rounding) / self.error

    def terminal(self, star: bool = False) -> str:
        """Ours, bold where best, and on a second line the paper's with our deviation from it.

        With ``star`` the best is starred too, and the others leave room for the star.
        """
        mark = ("*" if self.best else " ") * star
        text = f"{self.ours:.{self.digits}f}{mark}"
        text = f"[bold]{text}[/]" if self.best else text
        if self.spread is not None:
            text += f" ±{self.spread:.{self.digits}f}"
        if self.paper is None:
            return text
        second = f"{self.paper:.{self.digits}f}"
        if self.paper_spread is not None:
            second += f" ±{self.paper_spread:.{self.digits}f}"
        if self.unit == "%":  # a percentage of percentages would mislead
            second += f" {self.ours - self.paper:+.{self.digits}f} points"
        elif self.percent is not None:
            second += f" {self.percent:+.2f}%"
        return f"{text}\n[dim]{second}[/]{' ' * star}"

    def html(self) -> str:
        """The same as an HTML cell; coloured where two draws do not explain the deviation."""
        far = (self.errors or 0) > CLEAR
        spread = ""
        if self.spread is not None:
            spread = f' <span class="spread">±{number(self.spread, self.digits)}</span>'
        ours = f"{number(self.ours, self.digits)}{spread}"
        cell = f'<span class="ours{" best" if self.best else ""}">{ours}</span>'
        if self.paper is not None:
            cell += self._html_paper(self.paper)
        return f'<td class="{"far" if far else "near"}">{cell}</td>'

    def _html_paper(self, paper: float) -> str:
        if self.unit == "%":
            gap = f"{number(self.ours - paper, self.digits, '+')} points"
        else:
            gap = "" if self.percent is None else f"{number(self.percent, 2, '+')} %"
        error = f' title="{self.errors:.1f} standard errors"' if self.errors is not None else ""
        spread = "" if self.paper_spread is None else f" ±{number(self.paper_spread, self.digits)}"
        return f'<span class="theirs"{error}>{number(paper, self.digits)}{spread} {gap}</span>'


def number(x: float, digits: int, sign: str = "-") -> str:
    """A figure as a page prints it, with a true minus sign."""
    return f"{x:{sign}.{digits}f}".replace("-", "−")


Cell: TypeAlias = Value | str


@dataclass(frozen=True)
class Table:
    """Rows of text and figures under headings; a row without a name continues the one above."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    prose: bool = False
    """Whether cells hold sentences, which a page breaks into lines."""

    def values(self) -> list[tuple[str, Value]]:
        """Every figure, named by its row and column."""
        return [
            (" ".join([*(c for c in row if isinstance(c, str) and c), heading]), cell)
            for row in self.rows
            for heading, cell in zip(self.columns, row, strict=True)
            if isinstance(cell, Value)
        ]

    def terminal(self, *, title: str = "", lines: bool = False) -> "RichTable":
        """The table for a terminal.

        Args:
            title: to print in place of the table's own.
            lines: draw a rule between rows that have names.
        """
        from rich.markup import escape
        from rich.table import Table as RichTable

        shown = RichTable(title=escape(title or self.title), title_justify="left")
        shown.caption, shown.caption_justify = escape(self.note), "left"
        for i, heading in enumerate(self.columns):
            numbers = all(_numeric(row[i]) for row in self.rows)
            shown.add_column(
                escape(heading), justify="right" if numbers else "left",
                no_wrap=i > 0, max_width=None if i else WIDEST_NAME,
            )  # fmt: skip
        star = any(x.best for _, x in self.values())
        for row, following in zip(self.rows, [*self.rows[1:], ["end"]], strict=True):
            cells = [escape(c) if isinstance(c, str) else c.terminal(star) for c in row]
            shown.add_row(
                *cells, style=None if row[0] else "dim", end_section=lines and bool(following[0])
            )
        return shown

    def html(self, note: str = "") -> str:
        """The table for a page; ``note`` follows the title."""
        text = [all(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]
        heads = "".join(
            f"<th{TEXT if word else ''}>{html_escape(heading)}</th>"
            for heading, word in zip(self.columns, text, strict=True)
        )
        rows = "".join(
            f"<tr>{''.join(c.html() if isinstance(c, Value) else text_cell(c) for c in row)}</tr>"
            for row in self.rows
        )
        title = " ".join(filter(None, [f"{self.title}.", note]))
        below = f'<p class="note">{html_escape(self.note)}</p>' if self.note else ""
        caption = f"<caption>{html_escape(title)}</caption>"
        return (
            f'<div class="scroll"><table{PROSE * self.prose}>{caption}<thead><tr>{heads}'
            f"</tr></thead><tbody>{rows}</tbody></table></div>{below}"
        )


TEXT, PROSE = ' class="text"', ' class="prose"'


def text_cell(text: str) -> str:
    """A cell of a page that holds no figure."""
    return f"<td{TEXT}>{html_escape(text)}</td>"


def _numeric(cell: Cell) -> bool:
    """Whether a cell is a figure, a text that starts with one, or a placeholder for one."""
    return isinstance(cell, Value) or cell in ("", "failed") or cell[0] in "+-0123456789"

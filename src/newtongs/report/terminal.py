"""The report's tables for a terminal."""

from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape
from rich.table import Table as RichTable

from .content import Cell, Table, Value, section_from_json
from .context import read_json


def kept_tables(out: Path, name: str) -> Iterator[RichTable]:
    """Tables of a section that is in the report's folder."""
    record = read_json(out / "json" / f"{name}.json")
    for table in section_from_json(record["section"]).tables if record else ():
        yield rich_table(table, record["note"] if record else "")


def rich_table(table: Table, note: str = "") -> RichTable:
    """Ours, under it the paper's figure and our deviation from it."""
    title = escape(" ".join(filter(None, [f"{table.title}.", note])))
    shown = RichTable(title=title, title_justify="left", caption_justify="left")
    shown.caption = escape(table.note)
    for i, heading in enumerate(table.columns):
        words = all(isinstance(row[i], str) for row in table.rows)
        shown.add_column(heading, justify="left" if words else "right", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(_lines(cell) for cell in row))
    return shown


def _lines(cell: Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text = f"{cell.ours:.{cell.digits}f}"
    if cell.spread is not None:
        text += f" ±{cell.spread:.{cell.digits}f}"
    return (f"[bold]{text}[/]" if cell.best else text) + _second(cell)


def _second(x: Value) -> str:
    if x.paper is None:
        return ""
    gap = "" if x.percent is None else f" {x.percent:+.2f}%"
    gap = f" {x.ours - x.paper:+.{x.digits}f} points" if x.unit == "%" else gap
    spread = "" if x.paper_spread is None else f" ±{x.paper_spread:.{x.digits}f}"
    return f"\n[dim]{x.paper:.{x.digits}f}{spread}{gap}[/]"

"""The PLY container: header, the rows of one element as columns by name, and writing.

Nothing here depends on Gaussians. Headers are untrusted: every count is checked against the size of
the file before memory is allocated, and inconsistencies are InputErrors.
"""

import io
import math
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..base.errors import InputError
from ..base.process import sharing

HEADER_LIMIT = 1 << 18  # bytes; the longest splat header is under 3 kB
BLOCK_BYTES = 1 << 19  # of rows read and split at a time, so that they stay in the cache
LIST_ROWS_LIMIT = 1_000_000  # rows of varying length, skipped one by one, in all elements
TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
INTEGERS = {"i1", "u1", "i2", "u2", "i4", "u4"}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass(frozen=True)
class Property:
    """One column of an element, or one list per row."""

    name: str
    type: str
    """numpy code without byte order, such as ``f4``."""
    length: str | None = None
    """Code of the number in front of a list; None for a plain column."""


@dataclass(frozen=True)
class Element:
    """A table of the file."""

    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def names(self) -> list[str]:
        """Column names in the order of the file."""
        return [p.name for p in self.properties]

    @property
    def has_lists(self) -> bool:
        """Whether rows differ in length."""
        return any(p.length for p in self.properties)

    @property
    def row_bytes(self) -> int:
        """Bytes of a binary row, or of the shortest with lists."""
        return sum(int((p.length or p.type)[1]) for p in self.properties)


@dataclass(frozen=True)
class Header:
    """The header of a file."""

    path: Path
    order: str
    """Byte order ``<`` or ``>``; empty for text."""
    elements: tuple[Element, ...]
    comments: tuple[str, ...]
    size: int
    """Bytes of the header, after which the rows begin."""

    def element(self, name: str) -> Element | None:
        """The element of that name, if there is one."""
        return next((e for e in self.elements if e.name == name), None)


def read_header(path: Path) -> Header:
    """Parse the header of a PLY file."""
    with path.open("rb") as f:
        head = f.read(HEADER_LIMIT)
    if not is_ply(head):
        raise InputError(f"{path} is not a PLY file: it does not begin with a line 'ply'")
    order: str | None = None
    elements, comments = list[Element](), list[str]()
    for number, (line, end) in enumerate(_lines(head)):
        try:
            match line.split():
                case ["format", kind, _]:
                    order = ORDERS[kind]
                case ["comment" | "obj_info", *_]:
                    comments.append(line.strip())
                case ["element", name, count]:
                    elements.append(Element(name, _count(count), ()))
                case ["property", *words]:
                    elements[-1] = _with_property(elements[-1], words)
                case ["end_header"] if order is not None:
                    return Header(path, order, tuple(elements), tuple(comments), end)
                case [] | ["ply"]:
                    pass
                case _:
                    raise ValueError(line)
        except (ValueError, KeyError, IndexError) as error:
            raise InputError(
                f"{path}: line {number + 1} of the PLY header cannot be understood: {line[:60]!r}"
            ) from error
    raise InputError(f"{path}: the PLY header does not end; the file is cut off or damaged")


def is_ply(head: bytes) -> bool:
    """Whether ``head`` is the beginning of a PLY file."""
    return head[:3] == b"ply" and head[3:4] in (b"\n", b"\r")


def read_columns(
    header: Header,
    name: str,
    groups: Mapping[str, Sequence[str]],
    dtype: npt.DTypeLike = np.float32,
) -> dict[str, np.ndarray]:
    """Columns of an element, as one contiguous array ``(N, len(columns))`` per group.

    A file shorter than its header says is an error.
    """
    element = _checked_element(header, name)
    with header.path.open("rb") as f:
        f.seek(header.size)
        before = header.elements[: header.elements.index(element)]
        _refuse_long_walk(header, before)
        for other in before:
            _skip(f, header, other)
        _check_size(f, header, element)
        out = {key: np.empty((element.count, len(x)), dtype) for key, x in groups.items()}
        layout = _layout(header, element)
        gathers = [g for key, x in out.items() for g in _gathers(layout, groups[key], x)]
        if header.order:
            _fill_from_binary(gathers, f, header, element)
        else:
            _fill(gathers, 0, _text_rows(f, header, element))
    return out


def header_bytes(count: int, properties: Mapping[str, str], comments: Sequence[str] = ()) -> bytes:
    """Header of a little-endian file with one ``vertex`` element."""
    lines = ["ply", "format binary_little_endian 1.0"]
    lines += [f"comment {text}" for text in comments]
    lines += [f"element vertex {count}"]
    lines += [f"property {kind} {name}" for name, kind in properties.items()]
    return ("\n".join([*lines, "end_header"]) + "\n").encode("ascii")


def _lines(head: bytes) -> Iterator[tuple[str, int]]:
    """Header lines and where each ends; the first one determines the line ending."""
    newline = b"\r\n" if head[3:5] == b"\r\n" else head[3:4]
    start = 0
    while (end := head.find(newline, start)) >= 0:
        yield head[start:end].decode("latin-1"), end + len(newline)
        start = end + len(newline)


def _checked_element(header: Header, name: str) -> Element:
    element = header.element(name)
    if element is None:
        there = ", ".join(e.name for e in header.elements) or "none"
        raise InputError(f"{header.path}: no element {name!r} in this PLY; elements: {there}")
    if element.has_lists or not element.properties:
        raise InputError(f"{header.path}: expected columns of plain numbers in element {name!r}")
    if len(set(element.names)) < len(element.names):
        raise InputError(f"{header.path}: a property of element {name!r} is named twice")
    return element


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(text)
    return int(text)


def _with_property(element: Element, words: list[str]) -> Element:
    match words:
        case ["list", length, kind, name] if TYPES[length] in INTEGERS:
            new = Property(name, TYPES[kind], TYPES[length])
        case [kind, name]:
            new = Property(name, TYPES[kind])
        case _:
            raise ValueError(words)
    return Element(element.name, element.count, (*element.properties, new))


def _check_size(f: BinaryIO, header: Header, element: Element) -> None:
    """Reject a count that exceeds the rest of the file, before memory is allocated."""
    left = os.fstat(f.fileno()).st_size - f.tell()
    # A row of text has at least a digit and a separator per column.
    row = element.row_bytes if header.order else 2 * len(element.properties)
    if element.count * row > left + (not header.order):  # the last line may have no end
        raise InputError(
            f"{header.path}: the header declares {element.count:,} rows of {element.name!r}, "
            f"the file has room for {left // max(row, 1):,}; it is cut off or damaged"
        )


def _refuse_long_walk(header: Header, before: Sequence[Element]) -> None:
    """Rows of lists in a binary file can only be skipped one after the other."""
    rows = sum(element.count for element in before if element.has_lists)
    if header.order and rows > LIST_ROWS_LIMIT:
        raise InputError(
            f"{header.path}: {rows:,} rows of lists precede the Gaussians; "
            "write the vertex element first"
        )


def _skip(f: BinaryIO, header: Header, element: Element) -> None:
    """Skip an element in front of the requested one."""
    _check_size(f, header, element)
    if not element.properties:
        return
    if not header.order:
        for _ in islice(f, element.count):
            pass
    elif not element.has_lists:
        f.seek(element.count * element.row_bytes, os.SEEK_CUR)
    else:
        for _ in range(element.count):
            _skip_row(f, header.order, element)


def _skip_row(f: BinaryIO, order: str, element: Element) -> None:
    for p in element.properties:
        items = 1
        if p.length:
            raw = f.read(int(p.length[1]))
            signed = p.length[0] == "i"
            items = int.from_bytes(raw, "little" if order == "<" else "big", signed=signed)
        f.seek(max(items, 0) * int(p.type[1]), os.SEEK_CUR)


class _Layout(NamedTuple):
    """Rows divided into the largest units at whose boundaries all columns begin and end.

    One gather of units reads any columns of one type, several times faster than numpy's
    structured arrays.
    """

    unit: np.dtype
    width: int
    """Units in a row."""
    columns: dict[str, tuple[int, np.dtype]]
    """First unit and type of each column."""


def _layout(header: Header, element: Element) -> _Layout:
    if not header.order:
        kind = np.dtype(np.float64)
        columns = {name: (i, kind) for i, name in enumerate(element.names)}
        return _Layout(kind, len(columns), columns)
    kinds = [np.dtype(header.order + p.type) for p in element.properties]
    starts = [0, *accumulate(kind.itemsize for kind in kinds)]
    unit = math.gcd(*starts)
    places = [start // unit for start in starts]
    columns = dict(zip(element.names, zip(places, kinds, strict=False), strict=True))
    return _Layout(np.dtype(f"u{unit}"), places[-1], columns)


@dataclass(frozen=True)
class _Gather:
    """Copies columns of one type into ``out[:, to]``."""

    out: np.ndarray
    to: list[int]
    kind: np.dtype
    units: np.ndarray

    def fill(self, start: int, rows: np.ndarray) -> None:
        """Copy a block of rows, without an intermediate copy if types agree."""
        part = self.out[start : start + len(rows)]
        if self.kind == self.out.dtype and len(self.to) == self.out.shape[1]:
            np.take(rows, self.units, axis=1, out=part.view(rows.dtype), mode="clip")
        else:
            part[:, self.to] = np.take(rows, self.units, axis=1).view(self.kind)


def _gathers(layout: _Layout, names: Sequence[str], out: np.ndarray) -> Iterator[_Gather]:
    for kind in {layout.columns[name][1] for name in names}:
        to = [i for i, name in enumerate(names) if layout.columns[name][1] == kind]
        first = np.array([layout.columns[names[i]][0] for i in to])
        within = np.arange(kind.itemsize // layout.unit.itemsize)
        yield _Gather(out, to, kind, (first[:, None] + within).ravel())


def _fill_from_binary(
    gathers: Sequence[_Gather], f: BinaryIO, header: Header, element: Element
) -> None:
    """Blocks of rows that fit the cache: threads read them in turn, and copy in parallel."""
    layout = _layout(header, element)
    step = max(1, min(element.count, BLOCK_BYTES // element.row_bytes))
    starts, turn = iter(range(0, element.count, step)), threading.Lock()

    def work(_: int) -> None:
        buffer = np.empty((step, layout.width), layout.unit)
        while True:
            with turn:
                start = next(starts, None)
                if start is None:
                    return
                rows = buffer[: element.count - start]
                _read_into(rows, f, header)
            _fill(gathers, start, rows)

    with sharing() as share:
        share(work, range(torch.get_num_threads()))


def _read_into(rows: np.ndarray, f: BinaryIO, header: Header) -> None:
    if f.readinto(rows.data.cast("B")) != rows.nbytes:  # type: ignore[attr-defined]
        raise InputError(f"{header.path}: the file became shorter while it was read")


def _fill(gathers: Sequence[_Gather], start: int, rows: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):  # too large for float32: infinite
        for gather in gathers:
            gather.fill(start, rows)


def _text_rows(f: BinaryIO, header: Header, element: Element) -> np.ndarray:
    columns = len(element.properties)
    if not element.count:
        return np.empty((0, columns))
    text = io.TextIOWrapper(f, "latin-1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an empty body; the count below is clearer
            rows = np.loadtxt(text, max_rows=element.count, ndmin=2, comments=None)
    except ValueError as error:
        raise InputError(
            f"{header.path}: the rows of this text PLY are not {columns} numbers each"
        ) from error
    finally:
        text.detach()
    if rows.shape != (element.count, columns):
        raise InputError(
            f"{header.path}: expected {element.count:,} rows of {columns} numbers, "
            f"found {rows.shape[0]:,} of {rows.shape[1]}"
        )
    return rows

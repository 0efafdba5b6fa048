"""How long the functions are and how much is commented, package by package.

A function's lines run from its ``def`` to its last, less its docstring; one inside another counts
in both. Comment lines hold a comment, alone or behind code; directives to tools are none. Code
lines are neither blank nor docstring nor comment alone.

Run with: python benchmarks/style.py [FOLDER]
"""

import argparse
import ast
import io
import math
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).parent.parent / "src" / "newtongs"
DIRECTIVE = re.compile(r"#\s*(noqa|fmt:|type:|pragma|ruff:|!)")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef | ast.Module
BESIDE_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


@dataclass
class Style:
    """What is counted of one package."""

    functions: list[int] = field(default_factory=list)  # lines of each
    code: int = 0
    comments: int = 0

    def add(self, text: str) -> None:
        """Count one file in."""
        tree = ast.parse(text)
        self.functions += [
            lines_of(node) - len(docstring_lines(node))
            for node in ast.walk(tree)
            if isinstance(node, Function)
        ]
        code, comments = lines_of_kinds(text)
        documented = (node for node in ast.walk(tree) if isinstance(node, Documented))
        self.code += len(code.difference(*map(docstring_lines, documented)))
        self.comments += len(comments)

    def cells(self) -> tuple[str, ...]:
        """The numbers of a row of the table."""
        lengths = sorted(self.functions)
        share = f"{self.comments / self.code:.3f}" if self.code else "-"
        if not lengths:
            return "0", "-", "-", "-", share
        ninth = lengths[math.ceil(0.9 * len(lengths)) - 1]  # nine tenths are no longer than this
        return str(len(lengths)), f"{median(lengths):g}", str(ninth), str(lengths[-1]), share


def lines_of(node: ast.stmt) -> int:
    """Lines from first to last."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def docstring_lines(node: Documented) -> range:
    """Numbers of the lines of a docstring; none without."""
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    first = node.body[0]
    return range(first.lineno, first.lineno + lines_of(first))


def lines_of_kinds(text: str) -> tuple[set[int], set[int]]:
    """Numbers of the lines that hold code (or a docstring), and of those that hold a comment."""
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            comments.add(token.start[0])
        elif token.type not in BESIDE_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return code, comments


def packages(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file with the top-level package it belongs to; modules beside those are one."""
    for path in sorted(folder.rglob("*.py")):
        first, *rest = path.relative_to(folder).parts
        yield (first if rest else "(modules)"), path


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCE, help="a package's folder")
    styles: defaultdict[str, Style] = defaultdict(Style)
    total = Style()
    for name, path in packages(parser.parse_args().folder):
        for style in (styles[name], total):
            style.add(path.read_text(encoding="utf-8"))
    heading = ("functions", "median", "90 %", "longest", "comments per code line")
    rows = {"package": heading} | {name: styles[name].cells() for name in sorted(styles)}
    for name, cells in (rows | {"all": total.cells()}).items():
        numbers = (f"{x:>{len(h)}}" for x, h in zip(cells, heading, strict=True))
        print(f"{name:12}", *numbers, sep="  ")


if __name__ == "__main__":
    main()

"""Draw the packages and their imports into CONTRIBUTING.md: ``python docs/house.py``.

An arrow points to what is imported. Arrows that follow from others are left out: where a imports b
and b imports c, an arrow from a to c adds nothing to the order.
"""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "newtongs"
PAGE = ROOT / "CONTRIBUTING.md"
START, END = "<!-- house: drawn by docs/house.py -->\n", "<!-- end of house -->\n"


def package_of(parts: tuple[str, ...]) -> str | None:
    """The package of a module's path below newtongs; the paper's packages stand for themselves."""
    if not (SOURCE / parts[0]).is_dir():
        return None
    if parts[0] != "paper":
        return parts[0]
    return (
        f"paper.{parts[1]}" if len(parts) > 1 and (SOURCE / "paper" / parts[1]).is_dir() else None
    )


def imports() -> Iterator[tuple[str, str]]:
    """Pairs of packages, the importing one first."""
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE)
        here = package_of(file.with_suffix("").parts)
        package = ".".join(("newtongs", *file.parts[:-1]))
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                parts = tuple(f"{base}.{alias.name}".split(".")[1:])
                there = package_of(parts)
                if here and there and here != there:
                    yield here, there


def reduced(pairs: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs that do not follow from others."""
    below: dict[str, set[str]] = {}
    for a, b in pairs:
        below.setdefault(a, set()).add(b)

    def reach(a: str) -> set[str]:
        return below.get(a, set()).union(*(reach(b) for b in below.get(a, ())))

    return sorted((a, b) for a, b in pairs if not any(b in reach(c) for c in below[a] - {b}))


def drawing() -> str:
    """The mermaid block."""
    arrows = "".join(f"  {a} --> {b}\n" for a, b in reduced(set(imports())))
    return f"{START}```mermaid\ngraph TD\n{arrows}```\n{END}"


def main() -> None:
    """Replace what stands between the marks."""
    page = PAGE.read_text()
    before, rest = page.split(START)
    after = rest.split(END)[1]
    PAGE.write_text(before + drawing() + after)


if __name__ == "__main__":
    main()

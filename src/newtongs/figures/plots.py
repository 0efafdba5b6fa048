"""What the report's plots share: colours, names of axes, and writing png and svg."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..files import write_atomically
from .motions import import_pyplot

# Okabe and Ito's colours, which readers with any colour vision can tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY, BLACK = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#7f7f7f", "#222222"
)  # fmt: skip
SETTINGS = {
    "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "legend.fontsize": 8.5,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e6ea",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "svg.hashsalt": "newtongs",
    "legend.frameon": False,
}  # fmt: skip


@contextmanager
def drawing() -> Iterator[Any]:
    """Pyplot with the report's settings; figures left open are closed."""
    pyplot = import_pyplot()
    with pyplot.rc_context(SETTINGS):
        yield pyplot
        pyplot.close("all")


def save_both(figure: Any, stem: Path) -> str:
    """Write ``stem.png`` and ``stem.svg``, the same bytes for the same figure; returns the name."""
    for ending, more in (("png", {"dpi": 170}), ("svg", {"dpi": 170, "metadata": {"Date": None}})):
        path = stem.with_name(f"{stem.name}.{ending}")
        write_atomically(
            path,
            lambda f, ending=ending, more=more: figure.savefig(  # type: ignore[misc]
                f, format=ending, bbox_inches="tight", facecolor="white", **more
            ),
            what="picture",
        )
    return stem.name

"""Pictures of State-32."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import motions
from ...base.errors import InputError
from ...base.extras import optional
from ...base.files import write_atomically
from ...base.state import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 8
AZIMUTH, ELEVATION = math.radians(-32), math.radians(20)
COLOURS = {
    "translation": "#4c78a8", "ballistic": "#f58518", "flight": "#54a24b", "orbit": "#b279a2",
    "rotation": "#9d755d", "deformation": "#e45756", "oscillation": "#72b7b2",
    "friction": "#8c8c30", "collision": "#d6616b", "force field": "#3b6fb6",
    "switching": "#7f7f7f",
}  # fmt: skip


def import_pyplot() -> Any:
    """Import matplotlib without a window, or say what to install."""
    matplotlib = optional("matplotlib", "pictures need matplotlib", "figures")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def screen(p: np.ndarray) -> np.ndarray:
    """Orthographic view of points ``(..., 3)`` from slightly above: ``(..., 2)``, up is up."""
    x, y, z = np.moveaxis(p, -1, 0)
    right = math.cos(AZIMUTH) * x + math.sin(AZIMUTH) * z
    away = -math.sin(AZIMUTH) * x + math.cos(AZIMUTH) * z
    return np.stack([right, math.cos(ELEVATION) * y - math.sin(ELEVATION) * away], -1)


def draw_motion(ax: "Axes", family: motions.Family, paths: int, seed: int) -> None:
    """A few sequences of one family above their floor: start dots, fading lines, contacts."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    sequences = motions.generate(family.name, paths, seed=seed)
    p = State(sequences.states).p.numpy()
    xy = screen(p)
    colour = COLOURS.get(family.category, "black")
    _draw_floor(ax, p)
    segments = np.stack([xy[:, :-1], xy[:, 1:]], axis=2).reshape(-1, 2, 2)
    fade = np.tile(np.linspace(0.25, 0.95, xy.shape[1] - 1), paths)
    rgba = np.tile(to_rgba(colour), (len(segments), 1))
    rgba[:, 3] = fade
    ax.add_collection(LineCollection(list(segments), colors=rgba, linewidths=1.1))
    ax.scatter(xy[:, 0, 0], xy[:, 0, 1], s=7, color=colour, zorder=3)
    hits = xy[sequences.collision.numpy()]
    ax.scatter(hits[:, 0], hits[:, 1], s=3, color="black", linewidths=0, alpha=0.4, zorder=4)
    ax.set_title(family.name.replace("_", " "), fontsize=7.5, pad=3)
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale_view()
    ax.margins(0.08)
    ax.axis("off")


def _draw_floor(ax: "Axes", p: np.ndarray) -> None:
    """The plane y = 0 under the paths as a grid of unit squares."""
    low, high = np.floor(p[..., (0, 2)].min((0, 1))), np.ceil(p[..., (0, 2)].max((0, 1)))
    for axis in (0, 1):
        for line in np.arange(low[axis], high[axis] + 0.5):
            ends = np.zeros((2, 3))
            ends[:, 2 * axis] = line
            ends[:, 2 - 2 * axis] = low[1 - axis], high[1 - axis]
            ax.plot(*screen(ends).T, color="#c9cdd2", linewidth=0.5, zorder=0)


def motion_gallery(path: Path | str, *, paths: int = 4, seed: int = 7301) -> Path:
    """Draw all 32 families in one picture; returns its path."""
    pyplot = import_pyplot()
    families = [motions.get(name) for name in motions.STATE32]
    rows = math.ceil(len(families) / COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(2 * COLUMNS, 2.05 * rows))
    for ax, family in zip(axes.flat, families, strict=True):
        draw_motion(ax, family, paths, seed)
    figure.suptitle(
        f"State-32: {paths} sequences of each of the 32 motion families, 64 frames at 24 Hz "
        "(large dots: start, small dots: contact, grid: unit squares of the floor)",
        fontsize=10,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    save_figure(figure, Path(path))
    pyplot.close(figure)
    return Path(path)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of its suffix."""
    if path.is_dir():  # the empty name, too
        raise InputError(f"cannot write picture {path}: it is a folder; name a file in it")
    kind = path.suffix.lstrip(".") or "png"
    write_atomically(path, lambda f: figure.savefig(f, dpi=110, format=kind), what="picture")

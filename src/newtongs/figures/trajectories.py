"""Paths of single sequences in space: the labelled one, NewtonGS, and the prior."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .plots import BLACK, BLUE, GREY, drawing, save_both

Array = np.ndarray
FLATTEST = 0.5  # of a panel's longest side: a straight path is not drawn in a slit


@dataclass(frozen=True)
class Paths:
    """One panel: positions ``(T, 3)`` in generator units."""

    title: str
    target: Array
    ours: Array
    prior: Array


STYLES = {
    "target": ("ground truth", BLACK, "-", 1.6),
    "ours": ("NewtonGS", BLUE, "-", 1.8),
    "prior": ("Physics-Prior-SE(3)", GREY, "--", 1.1),
}


def trajectory_panels(stem: Path, panels: Sequence[Paths]) -> str:
    """Six panels of all frames: a dot at the start, a cross at the end."""
    with drawing() as pyplot:
        figure = pyplot.figure(figsize=(11.0, 7.0))
        for k, panel in enumerate(panels):
            ax = figure.add_subplot(2, 3, k + 1, projection="3d", computed_zorder=False)
            _draw(ax, panel)
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=5, bbox_to_anchor=(0.5, -0.035))
        figure.subplots_adjust(
            left=0.0, right=0.96, top=0.97, bottom=0.05, wspace=0.16, hspace=0.16
        )
        return save_both(figure, stem)


def _draw(ax: Any, panel: Paths) -> None:
    for name in ("prior", "target", "ours"):
        label, colour, line, width = STYLES[name]
        x, y, z = getattr(panel, name).T
        ax.plot(x, z, y, line, color=colour, linewidth=width, label=label)
        ax.plot(x[-1:], z[-1:], y[-1:], "x", color=colour, markersize=7, markeredgewidth=1.8)
    x, y, z = panel.target[0]
    ax.plot([x], [z], [y], "o", color=BLACK, markersize=5.5, label="start (dot)")
    ax.plot([], [], "x", color=BLACK, markersize=6, linestyle="none", label="end (cross)")
    _frame(ax, panel)


def _frame(ax: Any, panel: Paths) -> None:
    """Equal units on all axes, y upwards, few ticks."""
    points = np.concatenate([panel.target, panel.ours, panel.prior])
    middle = (points.min(0) + points.max(0)) / 2
    extent = np.ptp(points, axis=0)
    reach = 0.54 * extent.clip(FLATTEST * extent.max() + 1e-3)
    reach[[0, 2]] = reach[[0, 2]].clip(0.8 * reach[1])  # nor a bounce in a chimney
    for axis, k in (("x", 0), ("y", 2), ("z", 1)):  # matplotlib's z points upwards, ours is y
        getattr(ax, f"set_{axis}lim")(middle[k] - reach[k], middle[k] + reach[k])
        getattr(ax, f"{axis}axis").set_major_locator(_few_ticks(reach[k] / reach.max()))
    ax.set_box_aspect(reach[[0, 2, 1]] / reach.max(), zoom=0.8 if reach[1] == reach.max() else 0.98)
    ax.set_xlabel("x (units)", labelpad=-2)
    ax.set_ylabel("z (units)", labelpad=-2)
    ax.set_zlabel("y, up (units)", labelpad=-4)
    ax.tick_params(pad=-2, labelsize=7)
    ax.set_title(panel.title, y=1.0, pad=2)
    ax.view_init(elev=18, azim=-58)
    ax.patch.set_visible(False)  # it would cover the neighbour's labels


def _few_ticks(share: float) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4 if share > 0.85 else 3)

"""PIS-3D against trajectory error, each method with the spread over draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .plots import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, drawing, save_both

ENLARGED = 3
COLOURS = (GREY, ORANGE, RED, GREEN, PURPLE, BLUE)


@dataclass(frozen=True)
class Cloud:
    """A method: its figures, and those of resampled splits ``(R,)``."""

    traj: float
    pis3d: float
    traj_draws: Sequence[float]
    pis3d_draws: Sequence[float]


def pis3d_scatter(
    stem: Path,
    clouds: Mapping[str, Mapping[str, Cloud]],
    correlations: Mapping[str, Sequence[float]],
) -> str:
    """A row for each split: all methods, the lowest three enlarged, correlations over draws."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(
            len(clouds), 3, figsize=(10.8, 6.4), width_ratios=(1.25, 1.25, 1), squeeze=False
        )
        for row, (split, methods) in zip(axes, clouds.items(), strict=True):
            colours = dict(zip(methods, COLOURS, strict=True))
            lowest = sorted(methods, key=lambda name: methods[name].pis3d)[:ENLARGED]
            _scatter(row[0], methods, colours)
            _scatter(row[1], {name: methods[name] for name in lowest}, colours)
            row[0].set_title(f"{split}: all methods")
            row[1].set_title(f"{split}: the {ENLARGED} lowest, enlarged")
            _bars(row[2], split, correlations[split])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=6, bbox_to_anchor=(0.5, -0.04))
        figure.tight_layout(h_pad=1.8, w_pad=1.6)
        return save_both(figure, stem)


def _scatter(ax: Any, methods: Mapping[str, Cloud], colours: Mapping[str, str]) -> None:
    for name, cloud in methods.items():
        dots = cloud.traj_draws, cloud.pis3d_draws
        ax.scatter(*dots, s=5, color=colours[name], alpha=0.18, linewidths=0, rasterized=True)
    for name, cloud in methods.items():
        ax.scatter(
            [cloud.traj], [cloud.pis3d], s=52, color=colours[name], edgecolors="white",
            linewidths=0.9, label=name,
        )  # fmt: skip
    ax.set(xlabel="trajectory RMSE (generator units)", ylabel="PIS-3D (0 to 1)")


def _bars(ax: Any, split: str, correlations: Sequence[float]) -> None:
    values, counts = np.unique(np.round(correlations, 3), return_counts=True)
    share = 100 * counts / counts.sum()
    ax.bar([f"{v:+.3f}" for v in values], share, color=BLACK, width=0.55)
    ax.set(
        title=f"{split}: over resampled draws", xlabel="Spearman's rank correlation",
        ylabel="percent of draws", ylim=(0, 112),
    )  # fmt: skip
    for k, x in enumerate(share):
        ax.text(k, x + 2, f"{x:.0f}", ha="center", va="bottom", fontsize=8)
    ax.grid(axis="x", visible=False)

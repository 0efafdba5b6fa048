"""PIS-3D against trajectory error, each method with the spread over draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .plots import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, drawing, save_both

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
    """A panel for each split; below them how often each rank correlation occurs over draws."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(
            2, len(clouds), figsize=(10.2, 6.0), height_ratios=(3, 1.15), squeeze=False
        )
        for k, (split, methods) in enumerate(clouds.items()):
            _scatter(axes[0, k], split, methods)
            _bars(axes[1, k], split, correlations[split])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=6, bbox_to_anchor=(0.5, -0.045))
        figure.tight_layout(h_pad=1.6, w_pad=2.4)
        return save_both(figure, stem)


def _scatter(ax: Any, split: str, methods: Mapping[str, Cloud]) -> None:
    for colour, (name, cloud) in zip(COLOURS, methods.items(), strict=True):
        ax.scatter(cloud.traj_draws, cloud.pis3d_draws, s=5, color=colour, alpha=0.18, linewidths=0)
        ax.scatter(
            [cloud.traj], [cloud.pis3d], s=52, color=colour, edgecolors="white", linewidths=0.9,
            label=name, zorder=3,
        )  # fmt: skip
    ax.set(title=split, xlabel="trajectory RMSE (generator units)", ylabel="PIS-3D (0 to 1)")


def _bars(ax: Any, split: str, correlations: Sequence[float]) -> None:
    values, counts = np.unique(np.round(correlations, 3), return_counts=True)
    share = 100 * counts / counts.sum()
    ax.bar([f"{v:+.3f}" for v in values], share, color=BLACK, width=0.55)
    ax.set(xlabel=f"Spearman's rank correlation, {split}", ylabel="percent of draws", ylim=(0, 112))
    for k, x in enumerate(share):
        ax.text(k, x + 2, f"{x:.0f}", ha="center", va="bottom", fontsize=8)
    ax.grid(axis="x", visible=False)

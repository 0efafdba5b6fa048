"""The heat map of Appendix E: gain of every motion over the prior, ours beside the paper's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .plots import drawing, save_both

CLIP = 30.0  # percent at which the colours end; the printed values do not

Gains = Mapping[str, Mapping[str, float]]  # [split][motion], percent


def gain_heat_map(
    stem: Path, *, names: Sequence[str], ours: Gains, paper: Gains, titles: Mapping[str, str]
) -> str:
    """A row for each motion, for each split a column of ours and one of the paper's."""
    columns = [(s, who) for s in titles for who in ("ours", "paper")]
    source = {"ours": ours, "paper": paper}
    values = np.array([[source[who][split][n] for split, who in columns] for n in names])
    with drawing() as pyplot:
        figure, ax = pyplot.subplots(figsize=(6.4, 0.245 * len(names) + 1.1))
        image = ax.imshow(values, cmap="RdBu", vmin=-CLIP, vmax=CLIP, aspect="auto")
        for (i, j), x in np.ndenumerate(values):
            colour = "white" if abs(x) > 0.5 * CLIP else "#222222"
            ax.text(j, i, f"{x:+.1f}", ha="center", va="center", fontsize=8, color=colour)
        ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        ax.set_xticks(range(len(columns)), [f"{titles[s]}\n{who}" for s, who in columns])
        ax.xaxis.tick_top()
        ax.grid(False)
        ax.tick_params(length=0)
        ax.axvline(1.5, color="white", linewidth=4)
        ax.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=ax, extend="both", fraction=0.045, pad=0.03)
        bar.set_label("gain over Physics-Prior-SE(3), percent (colours clipped)")
        return save_both(figure, stem)

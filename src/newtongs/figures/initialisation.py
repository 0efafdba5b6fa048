"""Zero-all against zero-last initialisation: objectives while training, errors afterwards."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .plots import BLUE, GREY, ORANGE, drawing, save_both

Curve = tuple[Sequence[int], Sequence[float]]  # epochs, objective
STYLES = {"zero-all": ORANGE, "zero-last": BLUE}


def objective_curves(
    stem: Path, curves: Mapping[str, Mapping[str, Curve]], finals: Mapping[str, float]
) -> str:
    """A panel for each objective; dotted: the paper's final values on the full ID split."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(1, len(curves), figsize=(10.2, 3.6), sharey=True)
        for ax, (title, runs) in zip(axes, curves.items(), strict=True):
            for name, (epochs, values) in runs.items():
                ax.plot(epochs, values, color=STYLES[name], linewidth=1.8, label=name)
            ax.set(title=title, xlabel="epoch", ylabel="objective (no unit)")
            ax.yaxis.set_tick_params(labelleft=True)
        for name, value in finals.items():
            axes[-1].axhline(
                value, color=STYLES[name], linestyle=":", linewidth=1.4,
                label=f"{name}, paper's final value",
            )  # fmt: skip
        for ax in axes:
            ax.legend(loc="center right")
        figure.tight_layout(w_pad=2)
        return save_both(figure, stem)


def reduction_bars(
    stem: Path,
    ours: Mapping[str, Mapping[str, float | None]],
    paper: Mapping[str, Mapping[str, float]],
    labels: Mapping[str, str],
) -> str:
    """Five bars a split: percent by which zero-last lowers each error."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(1, len(ours), figsize=(10.2, 3.4), sharey=True)
        for ax, (split, values) in zip(axes, ours.items(), strict=True):
            at = np.arange(len(labels))
            for shift, source, colour, who in (
                (-0.2, values, BLUE, "ours"), (0.2, paper[split], GREY, "paper"),
            ):  # fmt: skip
                shown = [_number(source.get(m)) for m in labels]
                label = f"{who}: not measured" if np.isnan(shown).all() else who
                bars = ax.bar(at + shift, shown, 0.38, color=colour, label=label)
                ax.bar_label(bars, [_text(x) for x in shown], fontsize=7.5, padding=2)
            ax.set_xticks(at, list(labels.values()))
            ax.set(title=split, ylabel="lower error with zero-last, percent")
            ax.yaxis.set_tick_params(labelleft=True)
            ax.grid(axis="x", visible=False)
            ax.margins(y=0.12)
            ax.legend(loc="upper left")
        figure.tight_layout(w_pad=2)
        return save_both(figure, stem)


def _text(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.2f}"


def _number(x: float | None) -> float:
    return np.nan if x is None else x

"""The report's plots: each is a function of plain numbers that writes a png and an svg."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.files import write_atomically
from ...base.types import Array
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


# --- gain of every motion over the prior (Appendix E) ---------------------------------------------

CLIP = 30.0  # percent at which the colours end; the printed values do not
Gains = Mapping[str, Mapping[str, float]]  # [split][motion], percent


def gain_heat_map(
    stem: Path, *, names: Sequence[str], ours: Gains, paper: Gains, titles: Mapping[str, str]
) -> str:
    """One row per motion; for each split one column of ours and one of the paper's."""
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


# --- response to a material parameter (Appendix E) ------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """One panel: a parameter's values and the ratio measured at each."""

    title: str
    parameter: str
    measured: str
    values: Sequence[float]
    full: Sequence[float]
    structured: Sequence[float]
    target: Sequence[float] | None
    """The analytic answer, where there is one."""


def response_panels(stem: Path, sweeps: Sequence[Sweep]) -> str:
    """The full model and the structured one, with dotted targets."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(1, len(sweeps), figsize=(10.6, 3.5))
        for ax, sweep in zip(axes, sweeps, strict=True):
            x = sweep.values
            ax.plot(x, sweep.full, "o-", color=BLUE, markersize=4.5, label="full model")
            ax.plot(
                x, sweep.structured, "s--", color=ORANGE, markersize=4, label="structured model"
            )
            if sweep.target is not None:
                ax.plot(x, sweep.target, ":", color=BLACK, linewidth=1.6, label="analytic target")
            ax.set(title=sweep.title, xlabel=sweep.parameter, ylabel=sweep.measured)
            ax.legend(loc="best")
        figure.tight_layout(w_pad=2.2)
        return save_both(figure, stem)


# --- initialisation: objectives while training, errors afterwards (Appendix D) --------------------

Curve = tuple[Sequence[int], Sequence[float]]  # epochs, objective
INITIALISATIONS = {"zero-all": ORANGE, "zero-last": BLUE}


def objective_curves(
    stem: Path, curves: Mapping[str, Mapping[str, Curve]], finals: Mapping[str, float]
) -> str:
    """One panel per objective; dotted: the paper's final values on the full ID split."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(1, len(curves), figsize=(10.2, 3.6), sharey=True)
        for ax, (title, runs) in zip(axes, curves.items(), strict=True):
            for name, (epochs, values) in runs.items():
                ax.plot(epochs, values, color=INITIALISATIONS[name], linewidth=1.8, label=name)
            ax.set(title=title, xlabel="epoch", ylabel="objective (no unit)")
            ax.yaxis.set_tick_params(labelleft=True)
        for name, value in finals.items():
            axes[-1].axhline(
                value, color=INITIALISATIONS[name], linestyle=":", linewidth=1.4,
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
    """Five bars per split: the percentage by which zero-last lowers each error."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(1, len(ours), figsize=(10.2, 3.4), sharey=True)
        for ax, (split, values) in zip(axes, ours.items(), strict=True):
            at = np.arange(len(labels))
            for shift, source, colour, who in (
                (-0.2, values, BLUE, "ours"), (0.2, paper[split], GREY, "paper"),
            ):  # fmt: skip
                known = [source.get(m) for m in labels]
                shown = [np.nan if x is None else x for x in known]
                label = f"{who}: not measured" if np.isnan(shown).all() else who
                bars = ax.bar(at + shift, shown, 0.38, color=colour, label=label)
                ax.bar_label(
                    bars,
                    ["" if np.isnan(x) else f"{x:.2f}" for x in shown],
                    fontsize=7.5,
                    padding=2,
                )
            ax.set_xticks(at, list(labels.values()))
            ax.set(title=split, ylabel="lower error with zero-last, percent")
            ax.yaxis.set_tick_params(labelleft=True)
            ax.grid(axis="x", visible=False)
            ax.margins(y=0.12)
            ax.legend(loc="upper left")
        figure.tight_layout(w_pad=2)
        return save_both(figure, stem)


# --- PIS-3D against trajectory error, with the spread over draws (Appendix E) ---------------------

ENLARGED = 3
METHOD_COLOURS = (GREY, ORANGE, RED, GREEN, PURPLE, BLUE)


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
    """One row per split: all methods, the lowest three enlarged, correlations over draws."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(
            len(clouds), 3, figsize=(10.8, 6.4), width_ratios=(1.25, 1.25, 1), squeeze=False
        )
        for row, (split, methods) in zip(axes, clouds.items(), strict=True):
            colours = dict(zip(methods, METHOD_COLOURS, strict=True))
            lowest = sorted(methods, key=lambda name: methods[name].pis3d)[:ENLARGED]
            _methods(row[0], methods, colours)
            _methods(row[1], {name: methods[name] for name in lowest}, colours)
            row[0].set_title(f"{split}: all methods")
            row[1].set_title(f"{split}: the {ENLARGED} lowest, enlarged")
            _correlations(row[2], split, correlations[split])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=6, bbox_to_anchor=(0.5, -0.04))
        figure.tight_layout(h_pad=1.8, w_pad=1.6)
        return save_both(figure, stem)


def _methods(ax: Any, methods: Mapping[str, Cloud], colours: Mapping[str, str]) -> None:
    for name, cloud in methods.items():
        dots = cloud.traj_draws, cloud.pis3d_draws
        ax.scatter(*dots, s=5, color=colours[name], alpha=0.18, linewidths=0, rasterized=True)
    for name, cloud in methods.items():
        ax.scatter(
            [cloud.traj], [cloud.pis3d], s=52, color=colours[name], edgecolors="white",
            linewidths=0.9, label=name,
        )  # fmt: skip
    ax.set(xlabel="trajectory RMSE (generator units)", ylabel="PIS-3D (0 to 1)")


def _correlations(ax: Any, split: str, correlations: Sequence[float]) -> None:
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


# --- paths of single sequences in space (Appendix E) ----------------------------------------------

FLATTEST = 0.5  # fraction of a panel's longest side, so that a straight path has room


@dataclass(frozen=True)
class Paths:
    """One panel: positions ``(T, 3)`` in generator units."""

    title: str
    target: Array
    ours: Array
    prior: Array


PATH_STYLES = {
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
            _draw_paths(ax, panel)
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=5, bbox_to_anchor=(0.5, -0.035))
        figure.subplots_adjust(
            left=0.0, right=0.96, top=0.97, bottom=0.05, wspace=0.16, hspace=0.16
        )
        return save_both(figure, stem)


def _draw_paths(ax: Any, panel: Paths) -> None:
    for name in ("prior", "target", "ours"):
        label, colour, line, width = PATH_STYLES[name]
        x, y, z = getattr(panel, name).T
        ax.plot(x, z, y, line, color=colour, linewidth=width, label=label)
        ax.plot(x[-1:], z[-1:], y[-1:], "x", color=colour, markersize=7, markeredgewidth=1.8)
    x, y, z = panel.target[0]
    ax.plot([x], [z], [y], "o", color=BLACK, markersize=5.5, label="start (dot)")
    ax.plot([], [], "x", color=BLACK, markersize=6, linestyle="none", label="end (cross)")
    _frame_paths(ax, panel)


def _frame_paths(ax: Any, panel: Paths) -> None:
    """Equal units on all axes, y upwards, few ticks."""
    points = np.concatenate([panel.target, panel.ours, panel.prior])
    middle = (points.min(0) + points.max(0)) / 2
    extent = np.ptp(points, axis=0)
    reach = 0.54 * extent.clip(FLATTEST * extent.max() + 1e-3)
    reach[[0, 2]] = reach[[0, 2]].clip(0.8 * reach[1])  # nor is a tall bounce squeezed
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
    ax.patch.set_visible(False)  # it would cover the neighbouring panel's labels


def _few_ticks(share: float) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4 if share > 0.85 else 3)

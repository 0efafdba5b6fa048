"""Figures of ContextNND: error against states seen, every motion, control, calibration."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ... import motions
from ...base import state
from ...base.state import State
from ...base.types import Progress, StateTensor, X, Y, Z
from ...forecast import ContextNND
from ...motions.generate import from_uniforms
from ..evaluation.metrics import MetricSums
from ..evaluation.seen_predictors import context_methods
from .plots import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, drawing, save_both

Errors = Mapping[str, Mapping[int, float]]  # by the name of a curve, by the states seen

TIMES = torch.arange(motions.FRAMES) * motions.DT
PAPER = {"val_id": 3.167, "val_ood": 3.738}  # traj of the paper's model
SPLITS = {"val_id": "in distribution", "val_ood": "velocities shifted"}
COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE)
COUNTS = (1, 2, 4, 8, 16)  # of states seen
NOISE = 0.01
SHIFTED = {"ID": False, "OOD": True}


def context_figures(
    model: ContextNND, out: Path, per_motion: int, *, progress: Progress
) -> list[str]:
    """Draw all figures from new sequences, and return their names."""
    curves: dict[str, dict[int, float]] = {}
    columns: dict[str, dict[str, float]] = {}
    reliable = {}
    steps = 2 * len(SHIFTED) * len(COUNTS)
    for split, ood in SHIFTED.items():
        truth = sequences(per_motion, ood=ood)
        for noise, word in ((0.0, "exact"), (NOISE, "1 % noise")):
            for k in COUNTS:
                sums = _measured(model, truth, k, noise)
                curves.setdefault(f"{split}, {word}", {})[k] = sums.total()["traj"]
                if not noise:
                    columns[f"{split}\n{k} seen"] = {
                        name: sums.motion(i)["traj"] for i, name in enumerate(motions.STATE32)
                    }
                progress("predict", sum(map(len, curves.values())), steps)
        reliable[f"{split}, $Z_0$ alone"] = reliability(model, truth, 1)
    return [
        error_against_seen(out / "seen", curves, {}),
        motion_heat_map(out / "motions", columns),
        response(out / "response", model),
        changed_velocity(out / "velocity", model),
        calibration(out / "calibration", reliable),
    ]


@torch.no_grad()
def _measured(model: ContextNND, truth: torch.Tensor, seen: int, noise: float) -> MetricSums:
    """Errors on sequences ``(32 n, 64, 22)`` ordered by motion."""
    reader = context_methods(model, (seen,), noise=noise)["context"]
    sums, count = MetricSums(len(motions.STATE32)), len(truth) // len(motions.STATE32)
    index = torch.arange(len(motions.STATE32)).repeat_interleave(count)
    sums.add(reader(truth, TIMES, 0), truth, index)
    return sums


def error_against_seen(stem: Path, curves: Errors, limit: Errors) -> str:
    """Trajectory error against the number of states seen, on logarithmic scales."""
    with drawing() as pyplot:
        figure, ax = pyplot.subplots(figsize=(6.4, 4.2))
        for (name, errors), color in zip(curves.items(), COLORS, strict=False):
            ax.plot(*_points(errors), "o-", color=color, markersize=4, label=name)
        for (name, errors), color in zip(limit.items(), COLORS, strict=False):
            known = {k: x for k, x in errors.items() if x > 1e-3}
            ax.plot(*_points(known), "_", color=color, markersize=22, mew=2, label=name)
        for (split, error), va in zip(PAPER.items(), ("top", "bottom"), strict=True):
            ax.axhline(error, color=GREY, linewidth=1)
            ax.text(16, error, f"the paper's model, {SPLITS[split]}", ha="right", va=va, fontsize=8)
        ax.set(xlabel="states seen (24 a second; 1 is $Z_0$ alone)", ylabel="traj (RMSE)")
        ax.set(xscale="log", yscale="log", xticks=[1, 2, 4, 8, 16])
        ax.set_xticklabels(["1", "2", "4", "8", "16"])
        ax.legend(loc="center right")
        return save_both(figure, stem)


def _points(errors: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(errors), list(errors.values())


def motion_heat_map(stem: Path, columns: Mapping[str, Mapping[str, float]]) -> str:
    """Trajectory error of every motion (rows) in several settings (columns)."""
    names = list(motions.STATE32)
    values = torch.tensor([[columns[c][name] for c in columns] for name in names])
    with drawing() as pyplot:
        figure, ax = pyplot.subplots(figsize=(1.6 + 0.78 * len(columns), 8.2))
        ax.imshow(values.clamp_min(1e-3).log10(), aspect="auto", cmap="YlOrRd", vmin=-2.5, vmax=0.7)
        for i, row in enumerate(values.tolist()):
            for j, x in enumerate(row):
                dark = "white" if x > 1.0 else BLACK
                ax.text(j, i, f"{x:.3f}", ha="center", va="center", fontsize=6.5, color=dark)
        ax.set_xticks(range(len(columns)), list(columns), fontsize=7.5)
        ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], fontsize=7)
        ax.xaxis.tick_top()
        ax.grid(visible=False)
        return save_both(figure, stem)


class Probe:
    """One panel: sweep one number of the draw, measure one number of the motion."""

    def __init__(
        self, title: str, motion: str, index: int, label: str,
        measured: str, measure: Callable[[StateTensor], Tensor],
    ) -> None:  # fmt: skip
        self.title, self.motion, self.index = title, motion, index
        self.label, self.measured, self.measure = label, measured, measure

    def truth(self, ranges: motions.Ranges, count: int) -> tuple[Tensor, StateTensor]:
        """Values of the swept number, and the sequences ``(N, T, 22)``."""
        draws = torch.full((count, 16), 0.62)
        draws[:, self.index] = torch.linspace(0.02, 0.98, count)
        return draws[:, self.index], from_uniforms(self.motion, draws, ranges).states


V_X, V_Y, RESTITUTION, ATTENUATION = 3, 4, 13, 14  # numbers of a draw
PROBES = (
    Probe("launch, projectile", "projectile_motion", V_X, "$v_x$ at the start", "x at 2.6 s",
          lambda z: State(z[:, -1]).p[:, X]),
    Probe("launch, throw and land", "throw_and_land", V_Y, "$v_y$ at the start", "highest point",
          lambda z: State(z).p[..., Y].amax(1)),
    Probe("restitution, bouncing", "bouncing_on_plane", RESTITUTION, "e", "mean y, last second",
          lambda z: State(z[:, -24:]).p[..., Y].mean(1)),
    Probe("friction, rolling", "rolling_with_friction", ATTENUATION, r"$\mu$", "farthest x",
          lambda z: State(z).p[..., X].amax(1)),
)  # fmt: skip
SWEPT = {
    V_X: lambda z: State(z[:, 0]).v[:, X], V_Y: lambda z: State(z[:, 0]).v[:, Y],
    RESTITUTION: lambda z: State(z[:, 0]).e[:, 0], ATTENUATION: lambda z: State(z[:, 0]).mu[:, 0],
}  # fmt: skip


POINTS = 33  # of a response
BINS = 8  # of probabilities


@torch.no_grad()
def response(stem: Path, model: ContextNND) -> str:
    """Effect of speed, restitution and friction; the shaded part is beyond the training speeds."""
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(1, len(PROBES), figsize=(13.2, 3.4))
        for ax, probe in zip(axes, PROBES, strict=True):
            _, truth = probe.truth(motions.VELOCITY_SHIFT, POINTS)
            values = SWEPT[probe.index](truth)
            ax.plot(values, probe.measure(truth), ":", color=BLACK, linewidth=1.8, label="truth")
            for k, color in ((1, BLUE), (4, ORANGE)):
                found = probe.measure(model(truth[:, :k], TIMES).mean())
                ax.plot(values, found, "-", color=color, linewidth=1.3, label=f"{k} seen")
            if probe.index in (V_X, V_Y):
                _, inside = probe.truth(motions.IN_DISTRIBUTION, POINTS)
                low, high = SWEPT[probe.index](inside).aminmax()
                for a, b in ((float(values.min()), float(low)), (float(high), float(values.max()))):
                    if b - a > 0.2:
                        ax.axvspan(a, b, color="#f0f0f0", zorder=0)
            ax.set(title=probe.title, xlabel=probe.label, ylabel=probe.measured)
            ax.legend(loc="best")
        figure.tight_layout(w_pad=1.6)
        return save_both(figure, stem)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "as drawn": lambda v: v,
    "doubled": lambda v: 2 * v,
    "turned by 90°": lambda v: torch.stack([v[:, Z], v[:, Y], -v[:, X]], -1),
    "zero": lambda v: 0 * v,
}


@torch.no_grad()
def changed_velocity(stem: Path, model: ContextNND) -> str:
    """Paths of three objects with their initial velocity doubled, rotated and set to zero.

    The observed states are changed consistently: each later one is moved by the change of velocity
    times its time, as before any contact.
    """
    names = ("projectile_motion", "3d_uniform_motion", "bouncing_on_plane")
    with drawing() as pyplot:
        figure, axes = pyplot.subplots(2, len(names), figsize=(11.4, 6.4))
        for column, name in zip(axes.T, names, strict=True):
            truth = from_uniforms(name, torch.full((1, 16), 0.7), motions.IN_DISTRIBUTION).states
            for (word, change), color in zip(CHANGES.items(), COLORS, strict=False):
                path = State(model(_with_velocity(truth[:, :4], change), TIMES).mean()[0]).p
                for ax, other in zip(column, (Y, Z), strict=True):
                    ax.plot(path[:, X], path[:, other], color=color, label=word, linewidth=1.4)
            for ax, other, word in zip(column, (Y, Z), ("y", "z"), strict=True):
                p = State(truth[0]).p
                ax.plot(p[:, X], p[:, other], ":", color=BLACK, label="truth, as drawn")
                ax.set(xlabel="x", ylabel=word)
            column[0].set_title(name.replace("_", " "))
        axes[0, 0].legend(loc="best", fontsize=7.5)
        figure.tight_layout()
        return save_both(figure, stem)


def _with_velocity(observed: StateTensor, change: Callable[[Tensor], Tensor]) -> StateTensor:
    x = State(observed)
    by = change(x.v[:, 0]) - x.v[:, 0]
    t = TIMES[: observed.shape[1], None]
    return state.replace(observed, p=x.p + by[:, None] * t, v=x.v + by[:, None])


@torch.no_grad()
def reliability(model: ContextNND, states: StateTensor, seen: int) -> tuple[Tensor, Tensor, Tensor]:
    """Probability of the likeliest future, how often it was the nearest, and the counts, by bin.

    Takes sequences ``(N, T, 22)``; returns three tensors ``(BINS,)``, NaN where a bin is empty.
    """
    claimed, right = [], []
    for part in states.split(256):
        mixture = model(part[:, :seen], TIMES)
        error = (State(mixture.states).p - State(part[:, None]).p).square().sum(-1).mean(-1)
        claimed.append(mixture.probability.amax(1))
        right.append(mixture.probability.argmax(1) == error.argmin(1))
    p, hit = torch.cat(claimed), torch.cat(right).float()
    edges = torch.linspace(1 / model.config.hypotheses, 1.0, BINS + 1)
    where = torch.bucketize(p, edges[1:-1])
    count = torch.bincount(where, minlength=BINS)
    mean = torch.stack([torch.bincount(where, x, BINS) / count for x in (p, hit)])
    return mean[0], mean[1], count


def calibration(stem: Path, curves: Mapping[str, tuple[Tensor, Tensor, Tensor]]) -> str:
    """Reliability of the probabilities; a well calibrated model lies on the diagonal."""
    with drawing() as pyplot:
        figure, ax = pyplot.subplots(figsize=(4.6, 4.2))
        ax.plot([0.3, 1], [0.3, 1], color=GREY, linewidth=1)
        for (name, (claimed, right, count)), color in zip(curves.items(), COLORS, strict=False):
            some = count >= 10
            size = 8 + 22 * (count[some].float() / count.max()).sqrt()
            ax.plot(claimed[some], right[some], "-", color=color, linewidth=1)
            ax.scatter(claimed[some], right[some], s=size, color=color, label=name)
        ax.set(xlabel="probability of the likeliest future", ylabel="how often it was the nearest")
        ax.legend(loc="upper left")
        return save_both(figure, stem)


def sequences(per_motion: int, *, ood: bool, seed: int = 11) -> StateTensor:
    """New sequences of all motions ``(32 n, 64, 22)`` for the figures."""
    made: Sequence[StateTensor] = [
        motions.generate(name, per_motion, seed=seed, stream=8, ood=ood).states
        for name in motions.STATE32
    ]
    return torch.cat(list(made))

"""Three probes of Appendix E: what one material parameter does to the motion."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .plots import BLACK, BLUE, ORANGE, drawing, save_both


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
    """The full model against the structured one, dotted targets."""
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

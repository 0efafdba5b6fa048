"""The main figure: fourteen motions in five frames, every method, NewtonGS in blue."""

from ...figures.rollouts import main_figure
from ..content import Section, drawn_figure
from ..context import Context, weights_file
from ..registry import section


@section(
    "main_figure", "Visualization of different methods", "Main figure, 14 motions in five frames",
    inputs=lambda context: {"weights": weights_file("newtongs_7301") or context.out},
    seconds=60,
)  # fmt: skip
def make(context: Context) -> Section:
    """The figure, and in how many of its motions NewtonGS has the lowest error."""
    drawn = main_figure(context.figures / "main.png", captioned=False, progress=context.progress)
    errors = drawn.facts["traj"]
    rivals = {m: {k: x for k, x in row.items() if x > 0} for m, row in errors.items()}
    first = [m for m, row in rivals.items() if min(row, key=row.__getitem__) == "NewtonGS"]
    said = (
        f"NewtonGS has the lowest trajectory RMSE of the six methods in {len(first)} of "
        f"{len(errors)} of these sequences: {', '.join(m.replace('_', ' ') for m in first)}."
    )
    return Section(figures=[drawn_figure(drawn)], sentences=[said], numbers=dict(drawn.facts))

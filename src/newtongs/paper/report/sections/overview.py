"""The paper's Figure 1, drawn by code."""

from ...figures.overview import overview
from ..content import Figure, Section
from ..registry import section
from ..report_run import ReportRun


@section("overview", "Overview of the method", "Figure 1", seconds=1)
def make(report: ReportRun) -> Section:
    """Boxes and arrows; its sizes are read off the model."""
    name = overview(report.figures / "overview")
    return Section(
        figures=[
            Figure(
                name,
                "A state per object is advanced by analytic terms and a learned residual; hits on "
                "the floor have a response and a residual of their own; the predicted pose and "
                "scale move all Gaussians of the object. Blue: analytic. Orange: learned.",
            )
        ]
    )

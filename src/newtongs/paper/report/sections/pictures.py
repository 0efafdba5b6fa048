"""The main figure, and Appendix F: strips, panels, the first-frame path, the gallery."""

import json
import shutil
from pathlib import Path
from typing import Any

from ....base.errors import InputError
from ....dynamics.search import CANDIDATES
from ....formats.files import load
from ...figures import first_frame as appendix_f
from ...figures.rollouts import main_figure, six_frame_panels
from ...figures.stress import stress_gallery
from ...figures.strips import common12_strip
from ..content import Figure, Section, drawn_figure
from ..registry import section
from ..report_run import ReportRun, weights_file

LGM_MISSING = (
    "The paper's LGM asset is not public; a built-in scene takes its place. For your own "
    "file: newtongs figure first-frame FILE --circle U V R --depth NEAR FAR --out DIR, then "
    "newtongs reproduce --first-frame DIR."
)
CLIPS_MISSING = (
    "Strips of other methods need their clips: put them into a folder as "
    "Parabolic_Motion_with_Rotation/<Method>.mp4 and give it with --videos DIR."
)


def _weights(report: ReportRun) -> dict[str, Path]:
    """What a picture of our model alone depends on."""
    return {"weights": weights_file("newtongs_7301") or report.out}


def _inputs(report: ReportRun) -> dict[str, Path]:
    found = {
        "weights": weights_file("newtongs_7301"), "videos": report.videos,
        "first_frame": report.first_frame,
    }  # fmt: skip
    return {name: path for name, path in found.items() if path}


@section(
    "main_figure", "Visualization of different methods", "Main figure, 14 motions in five frames",
    inputs=_weights, seconds=60,
)  # fmt: skip
def main(report: ReportRun) -> Section:
    """The figure, and in how many of its motions NewtonGS has the lowest error."""
    drawn = main_figure(report.figures / "main.png", captioned=False, progress=report.progress)
    errors = drawn.facts["traj"]
    rivals = {m: {k: x for k, x in row.items() if x > 0} for m, row in errors.items()}
    first = [m for m, row in rivals.items() if min(row, key=row.__getitem__) == "NewtonGS"]
    said = (
        f"NewtonGS has the lowest trajectory RMSE of the six methods in {len(first)} of "
        f"{len(errors)} of these sequences: {', '.join(m.replace('_', ' ') for m in first)}."
    )
    return Section(figures=[drawn_figure(drawn)], sentences=[said], numbers=dict(drawn.facts))


@section(
    "strips", "Four-frame strips of Common-12", "Appendix F, parabolic motion with rotation",
    inputs=_inputs, seconds=10,
)  # fmt: skip
def strips(report: ReportRun) -> Section:
    """NewtonGS, and the clips given."""
    drawn = common12_strip(report.figures / "strip.png", clips=report.videos, captioned=False)
    missing = [CLIPS_MISSING] if drawn.facts["missing"] else []
    return Section(figures=[drawn_figure(drawn)], missing=missing, numbers=dict(drawn.facts))


@section(
    "panels", "Six-frame panels", "Appendix F, six-frame State-32 comparisons",
    inputs=_weights, seconds=15,
)  # fmt: skip
def panels(report: ReportRun) -> Section:
    """Ground truth beside NewtonGS in the paper's three motions."""
    drawn = six_frame_panels(
        report.figures / "panels.png", captioned=False, progress=report.progress
    )
    said = [f"Trajectory RMSE of {m.replace('_', ' ')}: {x:.4f}." for m, x in _traj(drawn)]
    return Section(figures=[drawn_figure(drawn)], sentences=said, numbers=dict(drawn.facts))


def _traj(drawn: Any) -> list[tuple[str, float]]:
    return list(drawn.facts["traj"].items())


@section(
    "first_frame", "First-frame 3DGS followed by Gaussian-NND",
    "Appendix F, pretrained first-frame 3DGS", inputs=_inputs, seconds=90,
    quick="4,096 first states are tried instead of 65,536",
)  # fmt: skip
def first_frame(report: ReportRun) -> Section:
    """The user's own figure, or the stand-in's."""
    if report.first_frame is not None:
        return _given(report, report.first_frame)
    path = report.out / "bowling_lgm.npy"
    region = appendix_f.write_stand_in(path)
    scene = load(path)
    tried = 4096 if report.quick else CANDIDATES
    moving = appendix_f.first_frame(scene, region, progress=report.progress, candidates=tried)
    drawn = appendix_f.juxtaposed_figure(
        report.figures / "first_frame.png", moving, clips=report.videos,
        background=appendix_f.STAND_IN_COLOR,
        source="made by code, in place of the paper's LGM asset",
        captioned=False,
    )  # fmt: skip
    return Section(figures=[drawn_figure(drawn)], missing=[LGM_MISSING], numbers=dict(drawn.facts))


def _given(report: ReportRun, folder: Path) -> Section:
    """What ``newtongs figure first-frame`` wrote."""
    endings = [e for e in ("svg", "png") if (folder / f"first_frame.{e}").is_file()]
    try:
        facts = json.loads((folder / "first_frame.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} has no first_frame.json; {LGM_MISSING}") from error
    if "png" not in endings:
        raise InputError(f"{folder} has no first_frame.png; {LGM_MISSING}")
    report.figures.mkdir(parents=True, exist_ok=True)
    for ending in endings:
        shutil.copyfile(folder / f"first_frame.{ending}", report.figures / f"first_frame.{ending}")
    caption = f"First-frame Gaussians of {facts.get('source')} followed by Gaussian-NND."
    return Section(figures=[Figure("first_frame", caption, endings)], numbers=facts)


@section(
    "gallery", "Background stress tests", "Appendix F, procedural scene-aware stress tests",
    inputs=_weights, seconds=40,
)  # fmt: skip
def gallery(report: ReportRun) -> Section:
    """The paper's protocol, and a second version whose camera follows the object."""
    found = {
        framing: stress_gallery(
            report.figures / f"gallery_{framing}.png", framing=framing, captioned=False,
            progress=report.progress,
        )
        for framing in ("paper", "fit")
    }  # fmt: skip
    reasons = found["paper"].facts["reasons"]
    return Section(
        figures=[drawn_figure(drawn) for drawn in found.values()],
        sentences=[f"{name}: {why}" for name, why in reasons.items()],
        numbers={framing: dict(drawn.facts) for framing, drawn in found.items()},
    )

"""Rendered comparisons of the methods: the main figure, the six-frame panels, our own clip.

A picture shows Same-32's construction floor and cone with true covariances. All methods of a motion
start from the same first state and are seen by the same camera, the fixed view 0, which is aimed at
the mean of the *labelled* path.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from ... import motions
from ...base.errors import InputError
from ...base.state import State
from ...base.types import Progress, StateTensor
from ...dynamics.backends import predictor
from ...dynamics.baselines import BASELINES, Predictor
from ...dynamics.weights import load_pretrained
from ...render.video import to_bytes
from ...samples import Template, template
from ...scene.cameras import Camera
from ...views.framing import fit_camera
from ..datasets import gaussian32, same32, state32
from . import MAIN_MOTIONS, PANEL_MOTIONS
from .gallery import enlarged, ewa_frames
from .panels import FORMATS, DrawnFigure, PictureGrid, Pixels, frame_index, page

MAIN_TIMES = (0.0, 0.25, 0.5, 0.75, 1.0)
PANEL_TIMES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
OURS = "NewtonGS"
TRUTH = "ground truth"
NAMES = {
    "hold_z0": "Hold-Z0",
    "const_vel_se3": "Const-Vel",
    "damped_vel_se3": "Damped-Vel",
    "gravity_bounce_se3": "Gravity-Bounce",
    "physics_prior_se3": "Physics-Prior",
}


def methods(seed: int = 7301) -> dict[str, Predictor]:
    """The five analytic baselines and the trained model of a seed, by display name."""
    rows = {NAMES[name]: predict for name, predict in BASELINES.items()}
    return rows | {OURS: predictor(load_pretrained(seed))}


def same32_states(motion: str) -> StateTensor:
    """Labelled states ``(49, 22)`` of Same-32's sample of a motion."""
    item = gaussian32.items([same32.SCENE], [motion])[0]
    return gaussian32.sequence(item).states[item.repeat]


def same32_camera(labelled: StateTensor, size: int) -> Camera:
    """View 0 of a sample with ``size`` pixels per side."""
    return enlarged(gaussian32.cameras_for(labelled, template(same32.SCENE))[0], size)


def predictions(labelled: StateTensor, rows: Mapping[str, Predictor]) -> dict[str, StateTensor]:
    """The labelled states ``(T, 22)`` and each method's prediction from the first of them."""
    times = torch.arange(len(labelled)) * gaussian32.DT
    return {TRUTH: labelled} | {
        name: predict(labelled[:1], times)[0] for name, predict in rows.items()
    }


def traj_error(z: StateTensor, labelled: StateTensor) -> float:
    """Root mean square distance between two paths ``(T, 22)``."""
    away = State(z).p.double() - State(labelled).p.double()
    return float(away.square().sum(-1).mean().sqrt())


def drawn_frames(
    states: StateTensor, camera: Camera, times: Sequence[float], chosen: Template
) -> list[Pixels]:
    """Pictures of states ``(T, 22)`` at normalised times."""
    shown = torch.tensor([frame_index(f, len(states)) for f in times])
    return [to_bytes(x) for x in ewa_frames(chosen, states[shown], [camera] * len(shown))]


def main_figure(
    path: Path | str,
    *,
    chosen: Sequence[str] = MAIN_MOTIONS,
    seed: int = 7301,
    size: int = 96,
    across: int = 5,
    captioned: bool = True,
    progress: Progress | None = None,
) -> DrawnFigure:
    """Motions of Same-32 in five frames: ground truth, five baselines, NewtonGS in blue.

    Args:
        path: where to write; the suffix is replaced by .png and by .svg.
        chosen: names of motions; by default 14, as many as the paper shows.
        seed: which trained model.
        size: pixels per side of one picture.
        across: grids side by side.
        captioned: whether the caption is written into the picture.
        progress: called with ("main", motions done, number of motions).
    """
    _check_motions(chosen)
    rows = methods(seed)
    blocks, errors = [], {}
    for done, motion in enumerate(chosen):
        _tell(progress, "main", done, len(chosen))
        labelled = same32_states(motion)
        paths = predictions(labelled, rows)
        errors[motion] = {name: traj_error(z, labelled) for name, z in paths.items()}
        blocks.append(_methods_block(motion, labelled, paths, size, label=done % across == 0))
    _tell(progress, "main", len(chosen), len(chosen))
    caption = _main_caption(len(chosen), seed)
    rows_of_blocks = [blocks[i : i + across] for i in range(0, len(blocks), across)]
    written = page(
        path, rows_of_blocks, caption=caption if captioned else "", formats=FORMATS, text=13
    )
    return DrawnFigure(written, caption, {"motions": list(chosen), "seed": seed, "traj": errors})


def _methods_block(
    motion: str, labelled: StateTensor, paths: Mapping[str, StateTensor], size: int, label: bool
) -> PictureGrid:
    """One motion: one row per method, one column per frame."""
    place, camera = template(same32.SCENE), same32_camera(labelled, size)
    cells = [drawn_frames(z, camera, MAIN_TIMES, place) for z in paths.values()]
    ours = list(paths).index(OURS)
    return PictureGrid(
        cells, title=motion.replace("_", " "), columns=[f"t = {f:g}" for f in MAIN_TIMES],
        rows=list(paths) if label else (),
        ours=frozenset((ours, j) for j in range(len(MAIN_TIMES))),
    )  # fmt: skip


def _main_caption(count: int, seed: int) -> str:
    return (
        f"{count} motions of Same-32 in five frames, t in normalised time. Rows: ground truth, the "
        f"five analytic baselines, and NewtonGS (seed {seed}) with a blue border; all are given "
        "the first labelled state. The paper does not name its 14 motions; these were chosen from "
        "the kinds its text speaks of: ballistic, bouncing, rolling and sliding, oscillating, "
        "orbiting. View 0 does not move: an object can leave it, and no frame is replaced."
    )


def _check_motions(names: Sequence[str]) -> None:
    for name in names:
        gaussian32.items([same32.SCENE], [name])  # raises with a suggestion
    if not names:
        raise InputError("no motion given; name at least one")


def _tell(progress: Progress | None, what: str, done: int, total: int) -> None:
    if progress:
        progress(what, done, total)


# --- six-frame panels ----------------------------------------------------------------------------


def state32_states(motion: str, sample: int = 0) -> StateTensor:
    """Sequence ``sample`` of a family in State-32's ID split, ``(64, 22)``.

    Counted within the split's first shard, which is the same for every size of the data set.
    """
    split = state32.get_split("val_id")
    seed = state32.shard_seed(split, 0)
    return motions.generate(motion, sample + 1, seed=seed, stream=split.stream).states[sample]


def six_frame_panels(
    path: Path | str,
    *,
    chosen: Sequence[str] = PANEL_MOTIONS,
    seed: int = 7301,
    sample: int = 0,
    size: int = 150,
    captioned: bool = True,
    formats: Sequence[str] = FORMATS,
    progress: Progress | None = None,
) -> DrawnFigure:
    """State-32 sequences, ground truth beside NewtonGS, t = 0, 0.2 .. 1 from top to bottom.

    Args:
        path: where to write; the suffix is replaced by each of ``formats``.
        chosen: names of motions; by default the paper's three.
        seed: which trained model.
        sample: which sequence of each family in the ID split.
        size: pixels per side of one picture.
        captioned: whether the caption is written into the picture.
        formats: suffixes of the files.
        progress: called with ("panels", motions done, number of motions).
    """
    _check_motions(chosen)
    ours = {OURS: predictor(load_pretrained(seed))}
    blocks, errors = [], {}
    for done, motion in enumerate(chosen):
        _tell(progress, "panels", done, len(chosen))
        paths = predictions(state32_states(motion, sample), ours)
        errors[motion] = traj_error(paths[OURS], paths[TRUTH])
        blocks.append(_panel(motion, paths, size, label=done == 0))
    _tell(progress, "panels", len(chosen), len(chosen))
    caption = _panels_caption(errors, seed, sample)
    written = page(path, [blocks], caption=caption if captioned else "", formats=formats)
    return DrawnFigure(written, caption, {"seed": seed, "sample": sample, "traj": errors})


def _panel(motion: str, paths: Mapping[str, StateTensor], size: int, label: bool) -> PictureGrid:
    """Two columns, from a camera that sees both paths."""
    place = template(same32.SCENE)
    camera = path_camera(torch.cat(list(paths.values())), size)
    columns = [drawn_frames(z, camera, PANEL_TIMES, place) for z in paths.values()]
    return PictureGrid(
        list(zip(*columns, strict=True)), title=motion.replace("_", " "), columns=list(paths),
        rows=[f"t = {f:g}" for f in PANEL_TIMES] if label else (),
        ours=frozenset((i, 1) for i in range(len(PANEL_TIMES))),
    )  # fmt: skip


def path_camera(states: StateTensor, size: int) -> Camera:
    """The nearest camera from the front that sees objects of unit shape at ``states (N, 22)``."""
    x = State(states)
    ends = torch.tensor([[-1.0], [1.0]]).to(states)
    reach = 0.6 * x.s.amax(-1, keepdim=True)  # half the thing's diagonal, about
    points = torch.cat([x.p + sign * reach * e for sign in ends for e in torch.eye(3).to(states)])
    up = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    return fit_camera(points, up, width=size, height=size, elevation=8.0)


def _panels_caption(errors: Mapping[str, float], seed: int, sample: int) -> str:
    said = ", ".join(f"{name.replace('_', ' ')} {e:.3f}" for name, e in errors.items())
    return (
        f"Six-frame State-32 comparisons: ground truth left, NewtonGS (seed {seed}, blue border) "
        f"right, t in normalised time from top to bottom. Each is sequence {sample} of its family "
        "in the ID split, not chosen for its result as the paper's are; State-32 has no "
        f"appearance, so the cone of Same-32 shows it. Trajectory RMSE: {said}."
    )


# --- our own clip --------------------------------------------------------------------------------


def own_clip(
    motion: str, times: Sequence[float] | None = None, *, seed: int = 7301, size: int = 240
) -> tuple[StateTensor, list[Pixels]]:
    """NewtonGS on Same-32's sample of a motion, view 0: its states, and pictures at ``times``.

    The times are normalised; by default all 49 frames are drawn.
    """
    labelled = same32_states(motion)
    z = predictions(labelled, {OURS: predictor(load_pretrained(seed))})[OURS]
    camera = same32_camera(labelled, size)
    shown = [i / (len(z) - 1) for i in range(len(z))] if times is None else times
    return z, drawn_frames(z, camera, shown, template(same32.SCENE))

"""Strips of clips: the same few frames of each method's clip, side by side.

The Common-12 strip is "parabolic motion with rotation", for which NewtonGS uses tumbling_fall; the
clips of the other methods come from a folder given by the user.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...base.errors import InputError
from ...render.video import ENDINGS, count_frames, frames_at
from .panels import FORMATS, DrawnFigure, PictureGrid, Pixels, frame_index, padded, page
from .rollouts import OURS, own_clip

STRIP_TIMES = (0.0, 1 / 3, 2 / 3, 1.0)
STRIP_MOTION = "tumbling_fall"
STRIP_FOLDER = "Parabolic_Motion_with_Rotation"
ENDS = (0.0, 1.0)
# Names of released files, and the paper's names of the methods, in its order.
RELEASED = {
    "CogVideoX": "CogVideoX",
    "PhysT2V": "PhyT2V",
    "Sora": "Sora",
    "Veo3": "Veo 3",
    "Wan": "Wan",
    "our": "NewtonGen",
}


def strip(frames: Sequence[Pixels], times: Sequence[float] = STRIP_TIMES) -> list[Pixels]:
    """The frames ``round(f (T - 1))`` of a clip in memory."""
    return [frames[frame_index(f, len(frames))] for f in times]


def film_strip(path: Path | str, times: Sequence[float] = STRIP_TIMES) -> list[Pixels]:
    """The same for a clip on disk, read in one pass."""
    frames = count_frames(path)
    return frames_at(path, [frame_index(f, frames) for f in times])


def clips_in(folder: Path | str, motion: str = STRIP_FOLDER) -> dict[str, Path]:
    """Clips of a folder by method: the released ones in the paper's order, then all others.

    ``folder`` contains the clips, or a folder called ``motion`` that does.
    """
    home = Path(folder)
    if not home.is_dir():
        raise InputError(
            f"{home} is not a folder; give one that contains {motion}/Sora.mp4 and others"
        )
    home = home / motion if (home / motion).is_dir() else home
    films = {p.stem: p for p in sorted(home.iterdir()) if p.suffix.lower() in ENDINGS}
    if not films:
        raise InputError(
            f"no clip in {home}; expected {', '.join(f'{name}.mp4' for name in RELEASED)}, some "
            f"of them, there or in {motion}/"
        )
    known = {shown: films.pop(stem) for stem, shown in RELEASED.items() if stem in films}
    return known | films


def strips_figure(
    path: Path | str,
    strips: Mapping[str, Sequence[Pixels]],
    *,
    title: str = "",
    caption: str = "",
    formats: Sequence[str] = FORMATS,
) -> tuple[Path, ...]:
    """One column per method and one row per time, as in the paper; a single method becomes a row.

    ``strips`` has one picture per time for each method; the one called NewtonGS gets blue borders.
    Every picture is fitted into 180 x 120 pixels.
    """
    rows = [[padded(x, 180, 120) for x in pictures] for pictures in strips.values()]
    names, moments = list(strips), [f"t = {time_text(f)}" for f in STRIP_TIMES]
    lying = len(names) == 1
    cells = rows if lying else [list(row) for row in zip(*rows, strict=True)]
    i = names.index(OURS) if OURS in names else -1
    blue = frozenset((i, j) if lying else (j, i) for j in range(len(STRIP_TIMES)))
    block = PictureGrid(
        cells, title=title, ours=blue, columns=moments if lying else names,
        rows=names if lying else moments,
    )  # fmt: skip
    return page(path, [[block]], caption=caption, formats=formats)


def time_text(f: float) -> str:
    """A normalised time as text."""
    thirds = {1 / 3: "1/3", 2 / 3: "2/3"}
    return thirds.get(f, f"{f:g}")


def common12_strip(
    path: Path | str,
    *,
    clips: Path | str | None = None,
    seed: int = 7301,
    captioned: bool = True,
    formats: Sequence[str] = FORMATS,
) -> DrawnFigure:
    """Parabolic motion with rotation at t = 0, 1/3, 2/3, 1: NewtonGS, and the clips of a folder.

    Args:
        path: where to write; the suffix is replaced by each of ``formats``.
        clips: folder of other methods' clips, see :func:`clips_in`.
        seed: which trained model.
        captioned: whether the caption is written into the picture.
        formats: suffixes of the files.
    """
    films = {} if clips is None else clips_in(clips)
    strips: dict[str, Sequence[Pixels]] = {n: film_strip(film) for n, film in films.items()}
    strips[OURS] = own_clip(STRIP_MOTION, STRIP_TIMES, seed=seed)[1]
    missing = [name for name in RELEASED.values() if name not in strips]
    caption = _caption(seed, missing)
    written = strips_figure(
        path, strips, title="parabolic motion with rotation",
        caption=caption if captioned else "", formats=formats,
    )  # fmt: skip
    return DrawnFigure(
        written, caption, {"seed": seed, "methods": list(strips), "missing": missing}
    )


def _caption(seed: int, missing: Sequence[str]) -> str:
    text = (
        "Parabolic motion with rotation, frame round(f (T - 1)) of each clip. NewtonGS (seed "
        f"{seed}, blue border) is {STRIP_MOTION} of Same-32 in view 0, which does not move. Shapes "
        "of pictures are kept with neutral padding; nothing else is done to them."
    )
    if missing:
        files = {shown: stem for stem, shown in RELEASED.items()}
        wanted = ", ".join(f"{files[name]}.mp4 ({name})" for name in missing)
        text += f" Not shown, since these clips were not given in {STRIP_FOLDER}/: {wanted}."
    return text

"""Folders of clips: find the clips, score them, and save the scores as they are computed.

Three layouts are supported: clips side by side, one row each; ``<Motion>/<Method>.mp4`` as in the
public release and as ``newtongs generate`` writes them, one row per method; and a Common-12
manifest that refers to clips of both kinds.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ...base.errors import InputError, unknown_name
from ...base.types import Progress
from ..datasets.common12 import (
    MANIFEST,
    METHODS,
    MOTIONS,
    folder_of_motions,
    method_of,
    read_manifest,
)
from .videos import Proxies, opencv, video_proxies

ENDINGS = (".mp4", ".avi", ".gif", ".m4v", ".mkv", ".mov", ".webm")
COLUMNS = ("pis_p", "bc_p", "ms_p")
EVALUATOR = "newtongs video proxies v2"  # scores of another version are recomputed

Record = dict[str, Any]


@dataclass(frozen=True)
class Clip:
    """One video; method and motion are empty in a folder without layout."""

    name: str
    """Name in tables and files."""
    path: Path
    method: str = ""
    motion: str = ""


@dataclass(frozen=True)
class FoundClips:
    """The clips of a folder, and which of a method's twelve are missing."""

    clips: list[Clip]
    by_method: bool
    missing: list[str]
    """One line for each incomplete method."""


def find_clips(folder: Path | str) -> FoundClips:
    """The clips of a folder in any of the three layouts, or of the one folder below it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; name one that holds clips, such as ball.mp4")
    folder = folder if _clips_in(folder) else folder_of_motions(folder)
    if (folder / MANIFEST).exists():
        return _by_method(*_listed(folder), folder)
    inside = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    known = {m: inside[m.lower()] for m in MOTIONS if m.lower() in inside}
    loose = _clips_in(folder)
    if known:
        _check_names(folder, [p for p in inside.values() if p not in known.values()], known)
        if loose:
            warnings.warn(f"{loose[0].name} beside the motions' folders is ignored", stacklevel=2)
        return _by_method(_in_folders(known), [], folder)
    if loose:
        return FoundClips([Clip(path.name, path) for path in loose], False, [])
    raise _no_clips(folder, list(inside.values()))


def _clips_in(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in ENDINGS
    )


def _listed(folder: Path) -> tuple[list[Clip], list[str]]:
    """Existing clips of a manifest, and a line for each missing released one.

    A clip in the manifest's folder takes precedence over a released one.
    """
    found, gone = [], []
    for row in read_manifest(folder):
        places = [row["clip"], row.get("released_clip")]
        there = [folder / place for place in places if place and (folder / place).is_file()]
        if there:
            method, motion = str(row["method"]), str(row["motion"])
            found.append(Clip(f"{motion}/{there[0].name}", there[0], method, motion))
        elif places[1]:
            gone.append(f"{folder / MANIFEST} refers to {places[1]}, which does not exist")
    return found, gone


def _in_folders(folders: Mapping[str, Path]) -> list[Clip]:
    """Clips of motions' folders; two files for one method and motion are an error."""
    found: dict[tuple[str, str], Clip] = {}
    for motion, folder in folders.items():
        for path in _clips_in(folder):
            key = (method_of(path.stem), motion)
            if key in found:
                raise InputError(
                    f"{folder} has two clips of {_title(key[0])}: {found[key].path.name} and "
                    f"{path.name}; leave one"
                )
            found[key] = Clip(f"{motion}/{path.name}", path, *key)
    return list(found.values())


def _check_names(folder: Path, others: Iterable[Path], known: Mapping[str, Path]) -> None:
    """Check other folders: while a motion is missing, they count as misspelt."""
    left = [m for m in MOTIONS if m not in known]
    strange = [path for path in others if _clips_in(path)]
    if strange and left:
        raise unknown_name(f"motion folder in {folder}:", strange[0].name, left)
    for path in strange:
        warnings.warn(f"{path.name} is not one of the twelve motions and is ignored", stacklevel=3)


def _by_method(clips: list[Clip], gone: list[str], folder: Path) -> FoundClips:
    if not clips:
        raise InputError(gone[0] if gone else f"{folder} has no clips yet; {LAYOUT}")
    lines = list(gone)
    for method in dict.fromkeys(clip.method for clip in clips):
        have = {clip.motion for clip in clips if clip.method == method}
        lack = [motion for motion in MOTIONS if motion not in have]
        if lack:
            stem = METHODS[method].stem if method in METHODS else method
            lines.append(
                f"{folder} lacks {len(lack)} of 12 clips of {_title(method)}, "
                f"first {lack[0]}/{stem}.mp4"
            )
    return FoundClips(sorted(clips, key=_order), True, lines)


def _order(clip: Clip) -> tuple[int, str, int]:
    """Methods and motions in the paper's order, others after them."""
    names, motions = list(METHODS), list(MOTIONS)
    rank = names.index(clip.method) if clip.method in names else len(names)
    return rank, clip.method, motions.index(clip.motion)


def _title(method: str) -> str:
    return METHODS[method].title if method in METHODS else method


LAYOUT = (
    "expected clips (.mp4, .mkv, ...) side by side, or the folders "
    "3D_Motion, Acceleration, ... with METHOD.mp4 in them"
)


def _no_clips(folder: Path, inside: list[Path]) -> InputError:
    """The error for a folder without clips, with what it contains instead."""
    found = ", ".join(f"{p.name}/" for p in inside[:3]) or "no folder and no clip"
    return InputError(f"no clips in {folder}: {LAYOUT}; found {found}")


def evaluate_clips(
    clips: Iterable[Clip],
    *,
    kept: Mapping[str, Record] | None = None,
    save: Callable[[dict[str, Record]], None] | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, Record], list[str]]:
    """Scores by clip, and one line for each unreadable clip.

    Args:
        clips: as :func:`find_clips` gives them.
        kept: scores of an earlier run; those of unchanged files are reused.
        save: called with all scores so far after each clip, so that none is lost.
        progress: called with ("clips", done, total).
    """
    opencv()  # report a missing library once, not for every clip
    clips, records, problems = list(clips), {}, []
    for done, clip in enumerate(clips):
        if progress:
            progress("clips", done, len(clips))
        try:
            records[clip.name] = _record(clip, (kept or {}).get(clip.name))
        except InputError as error:
            problems.append(str(error))
            continue
        if save:
            save(records)
    if progress and clips:
        progress("clips", len(clips), len(clips))
    return records, problems


def _record(clip: Clip, kept: Any) -> Record:
    """A clip's scores; earlier ones are reused if the file has not changed."""
    try:
        file = clip.path.stat()
    except OSError as error:
        raise InputError(f"cannot read {clip.path}: {error.strerror}") from error
    mark = {"evaluator": EVALUATOR, "bytes": file.st_size, "modified": file.st_mtime_ns}
    whole = {*mark, *Proxies.__dataclass_fields__}
    if isinstance(kept, dict) and whole <= kept.keys() and mark.items() <= kept.items():
        return kept
    scores = asdict(video_proxies(clip.path))
    return {"method": clip.method, "motion": clip.motion, **scores, **mark}


def summary(records: Iterable[Record]) -> dict[str, Any]:
    """Number of clips, and mean and sample standard deviation of each score."""
    records = list(records)
    result: dict[str, Any] = {"n": len(records)}
    for column in COLUMNS:
        values = [record[column] for record in records]
        std = stdev(values) if len(values) > 1 else None
        result[column] = {"mean": fmean(values), "std": std}
    return result

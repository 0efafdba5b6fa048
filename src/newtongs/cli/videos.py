"""Clips of any method on the command line: scored for ``newtongs evaluate --videos``."""

from pathlib import Path
from typing import Any

from ..errors import InputError
from .console import progress_bar, wide_console, write_json


def evaluate_videos(folder: Path, *, json: Path | None, per_clip: bool) -> None:
    """Score a folder of clips and print it; what is done is kept when a clip cannot be read.

    With ``json`` every clip's scores are on disk as soon as they are known, and a second run takes
    those of unchanged files from there.
    """
    from ..evaluation.common12 import evaluate_folder, kept_clips

    def save(report: dict[str, Any]) -> None:
        if json is not None:
            write_json(json, {"videos": report})

    with progress_bar("clips") as advance:
        kept = {} if json is None else kept_clips(json)
        report = evaluate_folder(folder, kept=kept, save=save, progress=advance)
    save(report)
    print_videos(report, per_clip=per_clip)
    if json is not None:
        print(f"figures written to {json}")
    raise_problems(report["problems"])


def print_videos(report: dict[str, Any], *, per_clip: bool) -> None:
    """Rows by method, or by clip in a folder without layout."""
    from ..evaluation.common12 import clips_table, rows_table

    flat = "mean" in report["rows"] or not any(r["method"] for r in report["clips"].values())
    if (per_clip or flat) and report["clips"]:
        wide_console().print(clips_table(report))
    if report["rows"] and not flat:
        wide_console().print(rows_table(report))


def raise_problems(problems: list[str]) -> None:
    """All that went wrong, as one line about the first."""
    if problems:
        more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; the other clips are scored")

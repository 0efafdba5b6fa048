"""Table 3: the proxies of each method's twelve clips, beside the paper's figures."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..datasets.common12 import METHODS, MOTIONS
from ..datasets.common12 import rows as manifest_rows
from ..errors import InputError
from ..locks import scratch
from ..render.video import to_bytes
from .clips import COLUMNS, Found, Progress, Record, evaluate_clips, find_clips, summary
from .generation import OwnClips, make_clips
from .tables import paper
from .videos import FrameSums, chosen_frames, frozen_video

OWN = "newtongs"
HEADINGS = {"pis_p": "PIS_p", "bc_p": "BC_p", "ms_p": "MS_p"}
WARNING = (
    "These are image statistics that reward stillness: a frozen video, scored like the others, "
    "comes out above every row of the paper's table."
)
RELEASED_ELSEWHERE = ("wan", "cogvideox", "newtongen")  # the paper made these clips itself

Report = dict[str, Any]


def evaluate_folder(
    folder: Path | str,
    *,
    kept: Mapping[str, Record] | None = None,
    save: Callable[[Report], None] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Scores of every clip of a folder, rows of what is complete, and what went wrong.

    Args:
        folder: in any layout of :mod:`newtongs.evaluation.clips`.
        kept: ``clips`` of an earlier report; those of unchanged files are taken over.
        save: called with the report so far after each clip.
        progress: called with ("clips", done, in all).

    Returns:
        ``clips`` by name, ``rows`` by method (``mean`` alone for a folder without layout),
        ``paper`` and ``deviation_percent`` for the methods of Table 3, ``frozen_video``, ``notes``,
        ``problems``.
    """
    found = find_clips(folder)

    def keep(records: dict[str, Record]) -> None:
        if save:
            save(report(found, records, []))

    records, problems = evaluate_clips(found.clips, kept=kept, save=keep, progress=progress)
    return report(found, records, [*problems, *found.missing])


def report(found: Found, records: Mapping[str, Record], problems: Sequence[str]) -> Report:
    """Everything known of a folder's clips, as data."""
    rows = _rows(found, records)
    published = {name: paper()["common12"][name] for name in rows if name in paper()["common12"]}
    frozen = frozen_video()
    return {
        "clips": dict(records),
        "rows": rows,
        "paper": published,
        "deviation_percent": {name: _deviation(rows[name], published[name]) for name in published},
        "frozen_video": {column: getattr(frozen, column) for column in COLUMNS},
        "notes": _notes(found, rows),
        "problems": list(problems),
    }


def _rows(found: Found, records: Mapping[str, Record]) -> dict[str, Any]:
    """Mean and deviation by method; a method with fewer than twelve scores has no row."""
    if not found.by_method:
        return {"mean": summary(records.values())} if records else {}
    groups: dict[str, list[Record]] = {}
    for clip in found.clips:
        if clip.name in records:
            groups.setdefault(clip.method, []).append(records[clip.name])
    return {m: summary(group) for m, group in groups.items() if len(group) == len(MOTIONS)}


def _deviation(row: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, float]:
    """Our mean over the paper's, in percent."""
    return {c: 100 * (row[c]["mean"] / published[c]["mean"] - 1) for c in COLUMNS}


def _notes(found: Found, rows: Mapping[str, Any]) -> list[str]:
    """Where a row is not made of what the paper's row was made of."""
    notes = []
    for method in (m for m in RELEASED_ELSEWHERE if m in rows):
        clips = [clip for clip in found.clips if clip.method == method]
        if not all(clip.path.with_suffix(".json").is_file() for clip in clips):
            notes.append(
                f"{METHODS[method].title}: clips without a record of how they were made; "
                "the paper generated its own and did not use released ones"
            )
    return notes


def table3(
    videos: Path | str | None = None,
    same32: Path | str | None = None,
    *,
    progress: Progress | None = None,
) -> Report:
    """Table 3 as data: our rows, the paper's, and the deviations.

    Args:
        videos: folder with clips of other methods, and of ours if they were made already; None for
            our row alone.
        same32: Same-32 folder for our row; None computes its samples, the same ones.
        progress: called with ("clips", done, in all).

    Returns:
        What :func:`evaluate_folder` returns, with the paper's rows for all of its methods, and as
        ``unencoded`` our row scored on the pictures as they were drawn, before they became films.
        ``problems`` says which methods have no row, and why; nothing is raised for them.
    """
    found = Found([], True, []) if videos is None else find_clips(videos)
    if not found.by_method:
        raise InputError(f"{videos}: Table 3 needs clips by method, as <Motion>/<Method>.mp4")
    with scratch() as folder:
        if not any(clip.method == OWN for clip in found.clips):
            make_clips(folder, OwnClips(same32), progress=progress)
            own = find_clips(folder)
            found = Found([*own.clips, *found.clips], True, found.missing)
        records, problems = evaluate_clips(found.clips, progress=progress)
        result = report(found, records, [*problems, *found.missing])
    result["paper"] = dict(paper()["common12"])
    result["unencoded"] = unencoded_row(OwnClips(same32))
    return result


def unencoded_row(maker: OwnClips) -> dict[str, Any]:
    """Our row without the losses of a film: scores of the pictures as bytes."""
    maker.load()
    return summary([_drawn(maker, row) for row in manifest_rows((OWN,))])


def _drawn(maker: OwnClips, row: Any) -> Record:
    pictures, sums = [to_bytes(x) for x in maker.frames(row)], FrameSums()
    for i in chosen_frames(len(pictures)):
        sums.add_picture(pictures[i][..., ::-1].copy())
    return vars(sums.scores(len(pictures)))


def kept_clips(path: Path) -> dict[str, Record]:
    """Scores that an earlier report on disk has; none if it is no such report."""
    try:
        clips = json.loads(path.read_text(encoding="utf-8"))["videos"]["clips"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return clips if isinstance(clips, dict) else {}


def rows_table(result: Report) -> Table:
    """A row a method, under it the paper's figures and our deviation; last a frozen video."""
    table = _table("Common-12 video proxies (Table 3)", "Method")
    table.caption = "\n".join(
        [WARNING, "second line: the paper's figures and our deviation from its mean"]
        + [f"note: {note}" for note in result["notes"]]
    )
    for name, row in result["rows"].items():
        title = METHODS[name].title if name in METHODS else escape(name)
        published = result["paper"].get(name)
        table.add_row(title, str(row["n"]), *_cells(row), end_section=published is None)
        if published:
            deviation = result["deviation_percent"][name]
            cells = [f"[dim]{_mean(published[c])} {deviation[c]:+.2f}%[/]" for c in COLUMNS]
            table.add_row("[dim]paper[/]", "[dim]12[/]", *cells, end_section=True)
    table.add_row("frozen video", "1", *_frozen(result))
    return table


def clips_table(result: Report) -> Table:
    """A row a clip; in a folder without layout their mean too, and last a frozen video."""
    table = _table("Video proxies", "Clip", "D", "S")
    table.caption = WARNING
    for name, record in result["clips"].items():
        numbers = [f"{record[c]:.4f}" for c in (*COLUMNS, "motion", "subject")]
        table.add_row(escape(name), str(record["frames"]), *numbers)
    table.add_section()
    if "mean" in result["rows"]:
        row = result["rows"]["mean"]
        table.add_row("mean", f"{row['n']} clips", *_cells(row), "", "", end_section=True)
    still = frozen_video()
    parts = f"{still.motion:.4f}", f"{still.subject:.4f}"
    table.add_row("frozen video", "", *_frozen(result), *parts)
    return table


def _table(title: str, first: str, *more: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column(first, no_wrap=True)
    table.add_column("Frames" if more else "N", justify="right", no_wrap=True)
    for heading in (*HEADINGS.values(), *more):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [_mean(row[c]) for c in COLUMNS]


def _mean(figure: Mapping[str, float | None]) -> str:
    mean, std = figure["mean"], figure["std"]
    return f"{mean:.4f}" if std is None else f"{mean:.4f} ±{std:.4f}"


def _frozen(result: Report) -> list[str]:
    return [f"{result['frozen_video'][c]:.4f}" for c in COLUMNS]

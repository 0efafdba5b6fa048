"""Table 3: the video proxies of each method's twelve clips, beside the paper's figures."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from ...base.locks import scratch
from ...base.types import Progress
from ...render.video import to_bytes
from ..datasets.common12 import METHODS, MOTIONS
from ..datasets.common12 import rows as manifest_rows
from .clips import COLUMNS, FoundClips, Record, evaluate_clips, find_clips, summary
from .generation import OwnClips, make_clips
from .table import Cell, Table, Value
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
    """Scores of every clip of a folder, rows of complete methods, and problems.

    Args:
        folder: in any layout of :mod:`newtongs.paper.evaluation.clips`.
        kept: ``clips`` of an earlier report; those of unchanged files are reused.
        save: called with the report so far after each clip.
        progress: called with ("clips", done, total).

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


def report(found: FoundClips, records: Mapping[str, Record], problems: Sequence[str]) -> Report:
    """The report on a folder's clips, as data."""
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


def _rows(found: FoundClips, records: Mapping[str, Record]) -> dict[str, Any]:
    """Mean and deviation by method; a method with fewer than twelve scores has no row."""
    if not found.by_method:
        return {"mean": summary(records.values())} if records else {}
    groups: dict[str, list[Record]] = {}
    for clip in found.clips:
        if clip.name in records:
            groups.setdefault(clip.method, []).append(records[clip.name])
    return {m: summary(group) for m, group in groups.items() if len(group) == len(MOTIONS)}


def _deviation(row: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, float]:
    """Deviation of our mean from the paper's, in percent."""
    return {c: 100 * (row[c]["mean"] / published[c]["mean"] - 1) for c in COLUMNS}


def _notes(found: FoundClips, rows: Mapping[str, Any]) -> list[str]:
    """Notes on rows whose clips differ in origin from the paper's."""
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
        videos: folder with clips of other methods, and of ours if they exist; None for our row
            alone.
        same32: Same-32 folder for our row; None computes the same samples.
        progress: called with ("clips", done, total).

    Returns:
        What :func:`evaluate_folder` returns, with the paper's rows for all of its methods, and as
        ``unencoded`` our row scored on the rendered pictures before video encoding. ``problems``
        says which methods have no row, and why; they raise nothing.
    """
    found = FoundClips([], True, []) if videos is None else find_clips(videos)
    if not found.by_method:
        raise InputError(f"{videos}: Table 3 needs clips by method, as <Motion>/<Method>.mp4")
    with scratch() as folder:
        if not any(clip.method == OWN for clip in found.clips):
            make_clips(folder, OwnClips(same32), progress=progress)
            own = find_clips(folder)
            found = FoundClips([*own.clips, *found.clips], True, found.missing)
        records, problems = evaluate_clips(found.clips, progress=progress)
        result = report(found, records, [*problems, *found.missing])
    result["paper"] = dict(paper()["common12"])
    result["unencoded"] = unencoded_row(OwnClips(same32))
    return result


def unencoded_row(maker: OwnClips) -> dict[str, Any]:
    """Our row without encoding losses: scores of the 8-bit pictures."""
    maker.load()
    return summary([_drawn(maker, row) for row in manifest_rows((OWN,))])


def _drawn(maker: OwnClips, row: Any) -> Record:
    pictures, sums = [to_bytes(x) for x in maker.frames(row)], FrameSums()
    for i in chosen_frames(len(pictures)):
        sums.add_picture(pictures[i][..., ::-1].copy())
    return vars(sums.scores(len(pictures)))


def kept_clips(path: Path) -> dict[str, Record]:
    """Scores of an earlier report on disk; empty if the file is not such a report."""
    try:
        clips = json.loads(path.read_text(encoding="utf-8"))["videos"]["clips"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return clips if isinstance(clips, dict) else {}


def rows_table(result: Report) -> Table:
    """One row per method beside the paper's; last a frozen video."""
    rows: list[list[Cell]] = []
    for name, row in result["rows"].items():
        title = METHODS[name].title if name in METHODS else name
        rows.append([title, str(row["n"]), *_values(row, result["paper"].get(name))])
    rows.append(["frozen video", "1", *(Value(result["frozen_video"][c]) for c in COLUMNS)])
    notes = [WARNING, "second line: the paper's figures and our deviation from its mean"]
    notes += [f"note: {note}" for note in result["notes"]]
    headings = ["Method", "N", *HEADINGS.values()]
    return Table("Common-12 video proxies (Table 3)", headings, rows, "\n".join(notes))


def clips_table(result: Report) -> Table:
    """One row per clip; in a folder without layout their mean too, and last a frozen video."""
    measured = (*COLUMNS, "amount", "subject")
    rows: list[list[Cell]] = [
        [name, str(record["frames"]), *(Value(record[c]) for c in measured)]
        for name, record in result["clips"].items()
    ]
    if "mean" in result["rows"]:
        row = result["rows"]["mean"]
        rows.append(["mean", f"{row['n']} clips", *_values(row), "", ""])
    still = frozen_video()
    rows.append(["frozen video", "", *(Value(getattr(still, c)) for c in measured)])
    return Table("Video proxies", ["Clip", "Frames", *HEADINGS.values(), "D", "S"], rows, WARNING)


def _values(row: Mapping[str, Any], published: Mapping[str, Any] | None = None) -> list[Value]:
    theirs = published or {c: {"mean": None, "std": None} for c in COLUMNS}
    return [
        Value(
            row[c]["mean"], theirs[c]["mean"], spread=row[c]["std"], paper_spread=theirs[c]["std"]
        )
        for c in COLUMNS
    ]

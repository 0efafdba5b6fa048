"""Table 3: the video proxies of Common-12, our row and those of clips that were given."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...datasets.common12 import METHODS
from ...evaluation import common12
from ...evaluation.table import Cell, Table, Value
from ...evaluation.tables import RECORDS
from ..content import Section
from ..registry import section
from ..report_run import ReportRun, weights_file

RELEASED = RECORDS / "common12_released.json"
COLUMNS = {"pis_p": "PIS_p", "bc_p": "BC_p", "ms_p": "MS_p"}
NO_OPENCV = "Table 3 reads videos with OpenCV: pip install 'newtongs[videos]'."
NO_CLIPS = (
    "Rows of other methods need their clips: give a copy of NewtonGen's repository, whose folder "
    "static/videos/motions holds <Motion>/<Method>.mp4 (Sora, PhysT2V, Veo3, Wan, ...), or any "
    "folder of that layout, with --videos DIR. Clips can be made with "
    "newtongs generate."
)


def _inputs(report: ReportRun) -> dict[str, Path]:
    found = {"weights": weights_file("newtongs_7301"), "videos": report.videos}
    return {name: path for name, path in found.items() if path}


@section("table3", "Video proxies on Common-12", "Table 3", inputs=_inputs, seconds=90)
def make(report: ReportRun) -> Section:
    """Our row from Same-32, the rows of the clips given, the paper's beside both."""
    if find_spec("cv2") is None:
        return Section(missing=[NO_OPENCV])
    found = common12.table3(report.videos, progress=report.progress)
    names = {k: m.title for k, m in METHODS.items()}
    missing = [NO_CLIPS] if report.videos is None else []
    released = json.loads(RELEASED.read_text())
    return Section(
        tables=[_table(found, names, released["methods"])],
        sentences=[_own(found), *_earlier(released, names), common12.WARNING, *found["notes"]],
        missing=[*missing, *found["problems"]],
        numbers={key: found[key] for key in ("rows", "clips", "frozen_video", "unencoded")},
    )


def _earlier(released: dict[str, Any], names: dict[str, str]) -> list[str]:
    """What is on record about the released clips."""
    agreed, methods = released["agreement"], [names[m] for m in released["methods"]]
    absent = [names[m] for m in released["missing"]]
    return [
        f"The released clips of {', '.join(methods)} were scored when the evaluator's details were "
        f"settled: {agreed['alike']} of {agreed['figures']} figures are the paper's to "
        f"{agreed['decimals']} decimals. The clips carry no licence and are not shipped.",
        f"The release also has clips of {', '.join(absent)}, which are not the paper's: it made "
        "its own. No record of their figures is kept; with --videos they have rows.",
    ]


def _table(found: dict[str, Any], names: dict[str, str], agreed: list[str]) -> Table:
    rows = []
    for method in dict.fromkeys([*found["paper"], *found["rows"]]):
        cells = [_cell(found, method, column, method in agreed) for column in COLUMNS]
        rows.append([names.get(method, method), *cells])
    frozen = [Value(found["frozen_video"][c]) for c in COLUMNS]
    return Table(
        "Table 3: Common-12 proxies, higher is better",
        ["Method", *COLUMNS.values()],
        [*rows, ["a frozen video", *frozen]],
        "Mean and sample standard deviation over the clips of twelve motions. Rows "
        "marked paper are the paper's own: clips of that method were not given. Rows marked "
        "reproduced were measured earlier and agree to four decimals.",
    )


def _cell(found: dict[str, Any], method: str, column: str, agreed: bool) -> Cell:
    ours, theirs = found["rows"].get(method), found["paper"].get(method)
    if ours is None:
        assert theirs is not None
        whose = "reproduced" if agreed else "paper"
        return f"{whose} {theirs[column]['mean']:.4f} ±{theirs[column]['std']:.4f}"
    published = theirs[column] if theirs else {"mean": None, "std": None}
    return Value(
        ours[column]["mean"], published["mean"], spread=ours[column]["std"],
        paper_spread=published["std"],
    )  # fmt: skip


def _own(found: dict[str, Any]) -> str:
    own, drawn = found["rows"].get("newtongs"), found["unencoded"]
    if own is None:
        return "Our own row could not be made; see the reason above the table."
    return (
        "The paper does not say how its frames looked (size, background, renderer); ours are the "
        "128-pixel frames of Same-32, view 0, and nothing was tuned to meet its row. Scored before "
        f"they became films, our PIS_p is {drawn['pis_p']['mean']:.4f} instead of "
        f"{own['pis_p']['mean']:.4f}."
    )

"""Evaluation reports as tables for people, beside the paper's figures where asked."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from rich.markup import escape
from rich.table import Table

from .evaluate import ORACLE, READERS, UNSEEN, MethodReport, Report

# Ranked columns first, as the paper prints them; the rest are diagnostics.
RANKED = ("traj", "fde", "vel", "quat", "scale")
DIAGNOSTIC = ("plane_violation", "ang_vel", "penetration_mse", "pis3d")
LABELS = {
    "hold_z0": "Hold-Z0",
    "const_vel_se3": "Const-Vel-SE(3)",
    "damped_vel_se3": "Damped-Vel-SE(3)",
    "gravity_bounce_se3": "Gravity-Bounce-SE(3)",
    "physics_prior_se3": "Physics-Prior-SE(3)",
    "l4gm": "L4GM video-to-4DGS",
    "newtongs": "NewtonGS",
    "oracle": "oracle",
    "context": "ContextNND",
    "limit": "limit",
}
OURS = "newtongs"
BRANCH_ROWS = {  # what the paper calls the removal of residual networks
    frozenset({"continuous"}): "no_continuous_residual",
    frozenset({"contact"}): "no_contact_residual",
    frozenset({"continuous", "contact"}): "no_residual_branches",
}
HEADINGS = {
    "traj": "Traj", "fde": "FDE", "vel": "Vel", "quat": "Quat", "scale": "Scale",
    "plane_violation": "Plane viol.", "ang_vel": "AngVel", "penetration_mse": "Pen. MSE",
    "pis3d": "PIS-3D",
}  # fmt: skip


@cache
def paper() -> dict[str, Any]:
    """The paper's figures as data."""
    return json.loads(files(__package__).joinpath("paper.json").read_text())


def split_table(
    report: Report, split: str, *, compare: bool = False, removed: Sequence[str] = ()
) -> Table:
    """One row a method; the lowest value of each ranked metric is bold and starred.

    With ``compare`` every figure the paper prints stands under ours with our deviation from it.
    ``removed`` names what was taken from NewtonGS: its row is then that of the branch table.
    """
    methods = report[split]
    columns = (*RANKED, "plane_violation") if compare else (*RANKED, *DIAGNOSTIC)
    table = Table(title=f"State-32 {split}", title_justify="left", caption_justify="left")
    table.caption = "* lowest of the ranked metrics; the columns after Scale are diagnostics"
    if any(name.endswith(UNSEEN) for name in methods):
        table.caption += "\n(rest): over the frames that the method was not shown"
    if removed and OURS in methods:
        table.caption += f"\nablated, not retrained: {escape(', '.join(removed))}"
    if compare:
        table.caption += "\nsecond line: the paper's figure and our deviation from it"
    table.add_column("Method", no_wrap=True)
    for column in columns:
        table.add_column(HEADINGS[column], justify="right", no_wrap=True)
    best = lowest(methods)
    published = paper_rows(split, removed) if compare else {}
    for name, scores in methods.items():
        cells = [cell(c, scores[c], name in best.get(c, ())) for c in columns]
        table.add_row(label(name, removed), *cells, end_section=False)
        if name in published:
            theirs = published[name]
            table.add_row("", *[_deviation(c, scores[c], theirs.get(c)) for c in columns])
    return table


def paper_rows(split: str, removed: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """The paper's figures of each method; of an ablated NewtonGS those that the paper has."""
    rows = dict(paper()["state32"].get(split, {}))
    if removed:
        branch = paper()["branches"].get(split, {}).get(BRANCH_ROWS.get(frozenset(removed)))
        rows = rows | {OURS: branch} if branch else {k: x for k, x in rows.items() if k != OURS}
    return rows


def label(method: str, removed: Sequence[str] = ()) -> str:
    """A method as tables print it; a name of one's own is not read as markup."""
    known = LABELS.get(method) or _reader_label(method) or escape(method)
    return f"{known}, ablated" if removed and method == OURS else known


def _reader_label(method: str) -> str:
    """Of a method that was shown some states: `context_4_unseen`."""
    name, _, rest = method.partition("_")
    if name not in READERS:
        return ""
    count = rest.removesuffix(UNSEEN.removeprefix("_")).removesuffix("_")
    seen = f", {count} seen" if count else ""
    return f"{LABELS[name]}{seen}{' (rest)' if method.endswith(UNSEEN) else ''}"


def competes(method: str) -> bool:
    """Whether a row is a prediction of all frames: not the truth, the limit or other frames."""
    return method != ORACLE and not method.startswith("limit") and not method.endswith(UNSEEN)


def lowest(methods: Mapping[str, MethodReport]) -> dict[str, set[str]]:
    """Methods with the lowest value of each ranked metric; the oracle does not compete."""
    rivals = {name: m for name, m in methods.items() if competes(name)}
    if not rivals:
        return {}
    lowest = {c: min(_number(m[c]) for m in rivals.values()) for c in RANKED}
    return {c: {n for n, m in rivals.items() if m[c] == lowest[c]} for c in RANKED}


def _number(x: object) -> float:
    assert isinstance(x, float)
    return x


def cell(column: str, value: object, best: bool) -> str:
    """A figure as tables print it; the best of its column is bold and starred."""
    digits = 6 if column in ("plane_violation", "penetration_mse") else 4
    text = f"{_number(value):.{digits}f}"
    return f"[bold]{text}*[/]" if best else f"{text} "


def _deviation(column: str, value: object, published: float | None) -> str:
    if published is None:
        return ""
    digits = 6 if column == "plane_violation" else 4
    return f"[dim]{published:.{digits}f} {100 * (_number(value) / published - 1):+.2f}%[/] "


def motion_table(
    report: Report, split: str, *, compare: bool = False, removed: Sequence[str] = ()
) -> Table:
    """Trajectory RMSE of every motion, one column a method.

    The paper has no such figures of a NewtonGS from which something was ``removed``.
    """
    methods = report[split]
    known = [name for name in paper_motion_methods() if compare and not (removed and name == OURS)]
    table = Table(title=f"Traj per motion, State-32 {split}", title_justify="left")
    table.add_column("Motion", no_wrap=True)
    for name in methods:
        table.add_column(label(name, removed).removesuffix("-SE(3)"), justify="right")
        if name in known:
            table.add_column("paper", justify="right")
    for motion in motions_of(methods):
        cells: list[str] = []
        for name, scores in methods.items():
            traj = _per_motion(scores)[motion]["traj"]
            cells.append(f"{traj:.4f}")
            if name in known:
                cells.append(_motion_deviation(traj, motion, split, name))
        table.add_row(escape(motion), *cells)
    return table


def _motion_deviation(traj: float, motion: str, split: str, method: str) -> str:
    """The paper's figure and our deviation from it; nothing where the paper prints none."""
    published = paper()["per_motion_traj"].get(motion, {}).get(split, {}).get(method)
    return f"{published:.3f} {100 * (traj / published - 1):+.2f}%" if published else ""


def paper_motion_methods() -> tuple[str, ...]:
    """Methods whose per-motion figures the paper prints."""
    return ("physics_prior_se3", "newtongs")


def motions_of(methods: Mapping[str, MethodReport]) -> Iterable[str]:
    """Motions present in a split's report, in order."""
    return _per_motion(next(iter(methods.values()))).keys()


def _per_motion(scores: MethodReport) -> dict[str, dict[str, float]]:
    per_motion = scores["per_motion"]
    assert isinstance(per_motion, dict)
    return per_motion

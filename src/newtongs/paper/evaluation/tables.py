"""Evaluation reports as tables, optionally beside the paper's figures."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from .evaluate import ORACLE, SEEN_METHODS, UNSEEN, MethodReport, Report
from .table import Cell, Table, Value

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
    "bayes_bound": "Bayes bound",
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


RECORDS = Path(__file__).parents[1] / "results"  # of our runs, shipped with the package


@cache
def paper() -> dict[str, Any]:
    """The paper's figures as data."""
    return json.loads(files(__package__).joinpath("paper.json").read_text())


def split_table(
    report: Report, split: str, *, compare: bool = False, removed: Sequence[str] = ()
) -> Table:
    """One row per method; the lowest value of each ranked metric is the best.

    With ``compare`` every figure has the paper's beside it. ``removed`` names what was taken from
    NewtonGS: its row is then that of the branch table.
    """
    methods = report[split]
    columns = (*RANKED, "plane_violation") if compare else (*RANKED, *DIAGNOSTIC)
    notes = ["* lowest of the ranked metrics; the columns after Scale are diagnostics"]
    if any(name.endswith(UNSEEN) for name in methods):
        notes.append("(rest): over the frames that the method did not see")
    if removed and OURS in methods:
        notes.append(f"ablated, not retrained: {', '.join(removed)}")
    if compare:
        notes.append("second line: the paper's figure and our deviation from it")
    best = lowest(methods)
    published = paper_rows(split, removed) if compare else {}
    rows: list[list[Cell]] = []
    for name, scores in methods.items():
        theirs = published.get(name, {})
        cells = [figure(c, scores[c], theirs.get(c), name in best.get(c, ())) for c in columns]
        rows.append([label(name, removed), *cells])
    headings = ["Method", *(HEADINGS[c] for c in columns)]
    return Table(f"State-32 {split}", headings, rows, "\n".join(notes))


def paper_rows(split: str, removed: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """The paper's figures of each method; of an ablated NewtonGS those that the paper has."""
    rows = dict(paper()["state32"].get(split, {}))
    if removed:
        branch = paper()["branches"].get(split, {}).get(BRANCH_ROWS.get(frozenset(removed)))
        rows = rows | {OURS: branch} if branch else {k: x for k, x in rows.items() if k != OURS}
    return rows


def label(method: str, removed: Sequence[str] = ()) -> str:
    """A method as tables print it."""
    known = LABELS.get(method) or _seen_label(method) or method
    return f"{known}, ablated" if removed and method == OURS else known


def _seen_label(method: str) -> str:
    """Label of a method that sees some states: `context_4_unseen`."""
    name = next((x for x in SEEN_METHODS if re.fullmatch(rf"{x}(_\d+)?({UNSEEN})?", method)), "")
    if not name:
        return ""
    count = re.search(r"\d+", method)
    seen = f", {count[0]} seen" if count else ""
    return f"{LABELS[name]}{seen}{' (rest)' if method.endswith(UNSEEN) else ''}"


def competes(method: str) -> bool:
    """Whether a row is ranked: not the oracle, the Bayes bound or a subset of the frames."""
    return method != ORACLE and not method.startswith("bayes_bound") and not method.endswith(UNSEEN)


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


def figure(column: str, ours: object, paper: float | None = None, best: bool = False) -> Value:
    """A figure of a metric's column, with the decimals that the paper prints."""
    digits = 6 if column in ("plane_violation", "penetration_mse") else 4
    return Value(_number(ours), paper, digits, best=best)


def motion_table(
    report: Report, split: str, *, compare: bool = False, removed: Sequence[str] = ()
) -> Table:
    """Trajectory RMSE of every motion, one column per method.

    The paper has no such figures of a NewtonGS from which something was ``removed``.
    """
    methods = report[split]
    known = [name for name in paper_motion_methods() if compare and not (removed and name == OURS)]
    headings = ["Motion"]
    for name in methods:
        headings.append(label(name, removed).removesuffix("-SE(3)"))
        headings += ["paper"] * (name in known)
    rows = []
    for motion in motions_of(methods):
        cells: list[Cell] = [motion]
        for name, scores in methods.items():
            traj = _per_motion(scores)[motion]["traj"]
            cells.append(Value(traj))
            if name in known:
                cells.append(_motion_deviation(traj, motion, split, name))
        rows.append(cells)
    return Table(f"Traj per motion, State-32 {split}", headings, rows)


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

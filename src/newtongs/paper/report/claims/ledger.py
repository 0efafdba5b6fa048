"""Claims read from ``claims.json``, and the verdicts computed for them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from ...evaluation.table import number
from . import method, results  # noqa: F401  (they register the facts)
from .evidence import Evidence, NotMeasuredError
from .formula import filled, value


class Verdict(StrEnum):
    """How a claim ends."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be tested"
    ABSENT = "not measured in this run"


MANY = {  # of several claims
    Verdict.HOLDS: "hold",
    Verdict.FAILS: "do not hold",
    Verdict.OPEN: "cannot be tested",
    Verdict.ABSENT: "are not measured in this run",
}


@dataclass(frozen=True)
class Judged:
    """A claim and what was found."""

    claim: Mapping[str, Any]
    verdict: Verdict
    paper: float | None = None
    ours: float | None = None
    note: str = ""

    def shown(self, x: float | None) -> str:
        """A number of the claim as the ledger prints it."""
        if x is None:
            return ""
        digits, unit = self.claim.get("digits", 4), self.claim.get("unit", "")
        text = f"{x:,.0f}" if digits == 0 else number(x, digits)
        return f"{text} {unit}".strip()


@cache
def _read(name: str) -> Any:
    return json.loads(files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8"))


def claims() -> list[dict[str, Any]]:
    """Every claim, in the paper's order."""
    return list(_read("claims"))


def contradictions() -> list[dict[str, Any]]:
    """Places where the paper, or the paper and what it cites, contradict each other."""
    return list(_read("contradictions"))


def limits() -> list[dict[str, Any]]:
    """The limits that the paper's Appendix G names, with this package's beside them."""
    return list(_read("limits"))


def judged(run: Evidence) -> list[Judged]:
    """All claims with their verdicts."""
    return [_judge(claim, run.names()) for claim in claims()]


def _judge(claim: Mapping[str, Any], names: Mapping[str, Any]) -> Judged:
    try:
        theirs = float(value(claim["paper"], names)) if "paper" in claim else None
        ours = float(value(claim["ours"], names)) if "ours" in claim else None
        note = filled(claim.get("note", "") or claim.get("untestable", ""), names)
        verdict = _verdict(claim, {**names, "ours": ours, "paper": theirs})
    except NotMeasuredError as error:
        return Judged(claim, Verdict.ABSENT, note=f"Needs {error}.")
    if "contradicted" in claim:
        note = f"See the contradictions: {_title(claim['contradicted'])}. {note}".strip()
    return Judged(claim, verdict, theirs, ours, note)


def _verdict(claim: Mapping[str, Any], names: Mapping[str, Any]) -> Verdict:
    if "untestable" in claim:
        return Verdict.OPEN
    if "contradicted" in claim:
        return Verdict.FAILS
    return Verdict.HOLDS if value(claim["holds"], names) else Verdict.FAILS


def _title(name: str) -> str:
    return str(next(x["title"] for x in contradictions() if x["id"] == name))


def as_json(found: Sequence[Judged]) -> dict[str, Any]:
    """The ledger as plain data: the counts, and every claim with its verdict."""
    rows = [
        {**x.claim, "verdict": str(x.verdict), "paper_number": x.paper, "our_number": x.ours,
         "remark": x.note}
        for x in found
    ]  # fmt: skip
    return {"claims": len(found), "counts": counts(found), "ledger": rows}


def counts(found: Sequence[Judged]) -> dict[str, int]:
    """How many claims end in each way."""
    return {str(v): sum(x.verdict == v for x in found) for v in Verdict}


def verdict_lines(found: Sequence[Judged], run: Evidence) -> list[str]:
    """The report in five lines."""
    parts = [f"{n} {MANY[Verdict(v)]}" for v, n in counts(found).items() if n]
    first = f"{len(found)} claims of the paper: {', '.join(parts)}."
    return [first, *(_line(template, run) for template in _read("verdict"))]


def _line(template: str, run: Evidence) -> str:
    try:
        return filled(template, run.names())
    except NotMeasuredError as error:
        return f"{template.split(':')[0]}: not measured in this run; needs {error}."

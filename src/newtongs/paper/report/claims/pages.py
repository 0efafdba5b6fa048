"""The ledger, the contradictions and the limits as parts of the page."""

from collections.abc import Sequence
from html import escape

from ...evaluation.table import Table
from .evidence import Evidence, NotMeasuredError
from .formula import filled
from .ledger import Judged, Verdict, contradictions, limits, verdict_lines

PAPER = (
    "Lianlei Shan, Feiyang Ye, Yan Chen, Yong Wu: NewtonGS: Physics-Structured Object-Level Neural "
    "Newtonian Dynamics for Gaussian Scene Animation."
)
RULES = (
    "Verdicts are computed. A percentage holds if ours is within a tenth of the paper's number, an "
    "objective within a hundredth, a percentage of Same-32, whose draws scatter more, if it is a "
    "reduction and two random draws explain the difference; a whole table if every figure lies "
    "within three standard errors of two random draws or within half a percent; a statement of "
    "order if it is true of our figures."
)
MARKS = {
    Verdict.HOLDS: "holds",
    Verdict.FAILS: "fails",
    Verdict.OPEN: "open",
    Verdict.ABSENT: "absent",
}
Part = tuple[str, str, str, str]
"""Anchor, title, place in the paper, HTML."""


def verdict(found: Sequence[Judged], run: Evidence) -> str:
    """Five lines for the top of the page, and the paper they speak of."""
    lines = "".join(f"<li>{escape(line)}</li>" for line in verdict_lines(found, run))
    return f'<p class="cited">{escape(PAPER)}</p><ul class="verdict">{lines}</ul>'


def parts(found: Sequence[Judged], run: Evidence) -> list[Part]:
    """What stands before the sections."""
    return [
        ("claims", "Claims of the paper", "Throughout", _ledger(found)),
        ("contradictions", "Contradictions of the paper", "Throughout", _contradictions(run)),
        ("limits", "Limits and failure modes", "Appendix G", _limits(run)),
    ]


def _ledger(found: Sequence[Judged]) -> str:
    heads = "".join(f"<th>{x}</th>" for x in ("Verdict", "Claim", "Paper", "Ours", "Remark"))
    rows = "".join(_row(x) for x in found)
    return (
        f'<p>{escape(RULES)}</p><div class="scroll"><table class="prose ledger">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(x: Judged) -> str:
    claim = f'<span class="theirs">{escape(x.claim["where"])}</span>{escape(x.claim["says"])}'
    return (
        f'<tr id="claim-{x.claim["id"]}"><td class="{MARKS[x.verdict]}">{x.verdict}</td>'
        f'<td>{claim}</td><td class="figure">{x.shown(x.paper)}</td>'
        f'<td class="figure">{x.shown(x.ours)}</td><td>{escape(x.note)}</td></tr>'
    )


def _contradictions(run: Evidence) -> str:
    rows = [
        [x["title"], ": ".join(x["first"]), ": ".join(x["second"]), _follows(x["matters"], run)]
        for x in contradictions()
    ]
    heads = ["What", "One place", "The other", "What follows"]
    return Table("Statements that contradict each other", heads, rows, prose=True).html(
        run.report.note
    )


def _follows(template: str, run: Evidence) -> str:
    try:
        return filled(template, run.names())
    except NotMeasuredError as error:
        return f"Not measured in this run; needs {error}."


def _limits(run: Evidence) -> str:
    heads = ["The paper's limit", "The paper's engine here", "World engine", "How", "Where"]
    rows = [
        [x["limit"], x["paper_engine"], x["world"], x["how"], ", ".join(x["evidence"])]
        for x in limits()
    ]
    lifted = sum(x["world"] == "lifted" for x in limits())
    said = (
        f"Of the {len(rows)} limits that Appendix G names the world engine lifts {lifted}. The "
        "paper's engine keeps them: it is the paper's method."
    )
    table = Table("Limits named in Appendix G", heads, rows, prose=True)
    return f"<p>{escape(said)}</p>{table.html(run.report.note)}"

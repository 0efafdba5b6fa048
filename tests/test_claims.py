"""The ledger of the paper's claims: data that is complete, verdicts that follow from figures."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

from newtongs.base.errors import InputError
from newtongs.base.provenance import KEYS, in_words, made
from newtongs.dynamics import BASELINES
from newtongs.motions import STATE32
from newtongs.paper.evaluation.table import Table, Value
from newtongs.paper.evaluation.tables import RANKED, RECORDS, paper
from newtongs.paper.report.claims import Evidence, Verdict, as_json, judged, parts, verdict
from newtongs.paper.report.claims.evidence import FACTS
from newtongs.paper.report.claims.formula import PLACEHOLDER, filled, value
from newtongs.paper.report.claims.ledger import claims, contradictions, limits
from newtongs.paper.report.claims.results import DRAWS
from newtongs.paper.report.content import Section
from newtongs.paper.report.report_run import SEEDS, SPLITS, ReportRun, seed_method
from newtongs.paper.report.sections.motions import _without_reason

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "src" / "newtongs" / "paper" / "report" / "claims"
OWN_NAMES = {"ours", "paper"}
DATA = ("claims", "contradictions", "limits", "verdict")


def formulas():
    """Every formula of the data with the name of where it stands."""
    for claim in claims():
        for key in ("paper", "ours", "holds"):
            if key in claim:
                yield claim["id"], claim[key]
    for name in DATA:
        for text in texts(json.loads((FOLDER / f"{name}.json").read_text())):
            yield from ((name, found[1]) for found in PLACEHOLDER.finditer(text))


def texts(content):
    """Every text of nested data."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, (list, dict)):
        for part in content.values() if isinstance(content, dict) else content:
            yield from texts(part)


def called(formula):
    tree = ast.walk(ast.parse(formula, mode="eval"))
    return {x.id for x in tree if isinstance(x, ast.Name)} - OWN_NAMES


def test_formulas_call_facts_and_every_fact_is_called():
    used = {name for _, formula in formulas() for name in called(formula)}
    assert used == FACTS.keys()


def test_a_claim_is_whole_and_does_not_say_how_it_ends():
    assert len({claim["id"] for claim in claims()}) == len(claims())
    for claim in claims():
        assert sum(key in claim for key in ("holds", "untestable", "contradicted")) == 1, claim
        assert claim["where"], claim
        assert claim["says"].endswith("."), claim
        assert "verdict" not in claim
        assert ("holds" in claim) <= ("ours" in claim), claim
    known = {x["id"] for x in contradictions()}
    assert {c["contradicted"] for c in claims() if "contradicted" in c} <= known


def test_a_remark_holds_no_figure_that_a_run_could_change():
    """Figures of ours come from formulas; what is left are sizes that the paper or a rule fixes."""
    for claim in claims():
        text = PLACEHOLDER.sub("", claim.get("note", "") + claim.get("untestable", ""))
        assert not re.search(r"\d\.\d", text), claim["id"]


def test_limits_name_evidence_that_exists():
    for limit in limits():
        assert limit["evidence"], limit
        assert all((ROOT / path).is_file() for path in limit["evidence"]), limit


@pytest.mark.parametrize(
    "formula", ["().__class__", "open('x')", "ours.real", "[1][0]", "lambda: 1", "1 +", "f(x=1)"]
)
def test_a_formula_is_arithmetic_and_nothing_else(formula):
    with pytest.raises(InputError):
        value(formula, {"ours": 1.0, "f": float})


def test_a_formula_and_a_text():
    names = {"twice": lambda x: 2 * x, "ours": 3.0}
    assert value("twice(ours) - 1 == 5", names) is True
    assert value("-ours", names) == -3.0
    assert filled("{twice(ours):.1f} of {ours:.0f}", names) == "6.0 of 3"


# --- verdicts -------------------------------------------------------------------------------------

OURS = [seed_method(seed) for seed in SEEDS]


def scores(method, split):
    """The paper's figures as if they were measured; ``worse`` is added to NewtonGS's Traj."""
    row = paper()["state32"][split]["newtongs" if method in OURS else method]
    motions = {
        name: {"traj": paper()["per_motion_traj"][name][split].get(
            "newtongs" if method in OURS else method, 1e9
        )}
        for name in STATE32
    }  # fmt: skip
    return {"scores": {**row, "pis3d": row["traj"] / 10}, "per_motion": motions}


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A report whose measurements are the paper's own, to be changed by a test."""
    known = {(m, s): scores(m, s) for m in (*BASELINES, *OURS) for s in SPLITS}
    monkeypatch.setattr(ReportRun, "record", lambda _, *at: known.get(at))
    return known, Evidence(ReportRun(tmp_path), {})


def verdicts(evidence):
    return {x.claim["id"]: x for x in judged(evidence)}


def test_the_papers_own_figures_hold(measured):
    found = verdicts(measured[1])
    for name in ("lowest-six", "margin-traj-id", "margin-fde-ood", "lead-kept", "quat-const"):
        assert found[name].verdict == Verdict.HOLDS, name
    assert found["margin-traj-id"].ours == pytest.approx(3.61, abs=0.005)
    assert found["failures"].verdict == found["largest-gains"].verdict == Verdict.HOLDS
    assert found["gains-id"].ours == 25


def test_other_figures_turn_the_verdict(measured):
    known, evidence = measured
    for method in OURS:
        known[method, "val_ood"]["scores"]["fde"] *= 1.2
    found = verdicts(evidence)
    assert found["lowest-six"].verdict == Verdict.FAILS
    assert found["lowest-six"].ours == 5
    assert found["margin-fde-ood"].verdict == Verdict.FAILS
    assert found["margin-fde-id"].verdict == Verdict.HOLDS


def test_the_papers_sentence_on_bouncing_contradicts_its_table(measured):
    found = verdicts(measured[1])["figure-bouncing"]
    assert found.verdict == Verdict.FAILS
    assert found.ours == 6


def test_what_was_not_measured_is_not_judged(tmp_path):
    found = judged(Evidence(ReportRun(tmp_path), {}))
    ends = {x.claim["id"]: x.verdict for x in found}
    assert ends["parameters"] == ends["substeps"] == Verdict.HOLDS  # the program answers
    assert ends["lowest-six"] == ends["same32-quat"] == Verdict.ABSENT
    assert ends["same32-l4gm"] == Verdict.OPEN
    assert ends["selection"] == Verdict.FAILS
    content = as_json(found)
    assert sum(content["counts"].values()) == content["claims"] == len(claims())


def test_quat_on_same32_is_judged_on_our_draw(tmp_path):
    """The shares over random draws are the remark, not the verdict."""
    row = dict.fromkeys((*RANKED, "plane_violation"), 1.0)
    rows = {m: dict(row) for m in ("hold_z0", "gravity_bounce_se3", "physics_prior_se3")}
    rows["newtongs"] = {**row, "traj": 0.9, "quat": 1.1}
    numbers = {"scores": rows, "largest_deviation_over_runs": 0.0132}
    table = Table("Table 2", ["Method", "Quat"], [["NewtonGS", Value(1.1, 0.1547)]])
    found = verdicts(Evidence(ReportRun(tmp_path), {"table2": Section([table], numbers=numbers)}))
    assert found["same32-traj"].verdict == Verdict.HOLDS
    assert found["same32-quat"].verdict == Verdict.FAILS
    assert re.search(r"Lowest in \d+ % of 400 random draws", found["same32-quat"].note)


def test_the_draws_are_those_of_the_documentation():
    scores = json.loads(DRAWS.read_text())["scores"]
    said = (ROOT / "docs" / "gaussian32.md").read_text()
    for metric in ("quat", "traj", "fde", "vel"):
        x = {m: np.array(row[metric]) for m, row in scores.items()}
        lowest = np.all([x["newtongs"] < v for m, v in x.items() if m != "newtongs"], axis=0)
        assert f"{100 * lowest.mean():.0f} %" in said, metric


def test_the_page_names_the_paper_and_every_claim(tmp_path):
    evidence = Evidence(ReportRun(tmp_path), {})
    found = judged(evidence)
    top = verdict(found, evidence)
    assert "Shan" in top
    assert top.count("<li>") == 5
    ledger = {anchor: html for anchor, _, _, html in parts(found, evidence)}
    assert all(f'id="claim-{claim["id"]}"' in ledger["claims"] for claim in claims())
    assert ledger["contradictions"].count("<tr>") == len(contradictions()) + 1
    assert "{" not in ledger["contradictions"]  # every formula was filled in


# --- where records come from ----------------------------------------------------------------------


def test_an_origin_in_words():
    about = made(seconds=1.234)
    assert about.keys() == {*KEYS, "seconds"}
    assert about["seconds"] == 1.23
    assert all(str(about[key]) in in_words(about) for key in KEYS)


@pytest.mark.parametrize("path", sorted(RECORDS.rglob("*.json")), ids=lambda p: p.stem)
def test_every_record_says_where_it_comes_from(path):
    """What was not written down then says so, and is not guessed now."""
    about = json.loads(path.read_text())["made"]
    assert about.keys() >= set(KEYS)
    assert all(about[key] for key in KEYS)


def test_a_difference_without_a_reason_is_named():
    """Small motions show what the networks learned; any other far figure is left open."""
    far, near = Value(1.0, 1.1, 3, error=0.01), Value(1.0, 1.001, 3, error=0.01)
    rows = [("3d rotation ID NewtonGS", far), ("two stage motion ID NewtonGS", far), ("x", near)]
    (said,) = _without_reason(rows)
    assert "two stage motion" in said
    assert "3d rotation" not in said
    assert _without_reason(rows[::2]) == []
